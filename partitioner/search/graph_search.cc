// Is there a partition whose bottleneck is at most T? Let reach[m] be the sets of nodes that stages
// on m devices can hold within T. A stage on r devices from set E to a larger set D fits when the
// cuts at both ends let r devices through in T, and weight_r(D) - weight_r(E) <= r T, where
// weight_r sums seconds plus what r replicas' all-reduce takes. So of all E in reach[m] inside D
// only the heaviest matters, and the heaviest inside D is D itself or the heaviest inside a set
// with one node less: one pass over the sets answers for all D. Sets are in order of their seconds,
// and those of m devices have between (total - (devices - m) T) and m T seconds, so a pass runs
// over a window.
// A limit of bytes is a second weight: what a device holds of D without E is a difference as well.
// Then all E matter that no other is heavier than in both; those too far below D in either are
// dropped, for good, since larger sets are farther.
#include "partitioner/search/graph_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace sluice {

GraphSearch::GraphSearch(const GraphRequest& request, const Downsets& sets)
    : request_(request), sets_(sets), layers_(request.devices + 1), best_(sets.size()) {
  weights_.resize(request.replicate ? request.devices + 1 : 2);
  for (size_t r = 1; r < weights_.size(); ++r) {
    const double reduce = AllReduceSeconds(static_cast<int>(r), request.bandwidth());
    weights_[r].reserve(sets.size());
    for (int set = 0; set < sets.size(); ++set) {
      weights_[r].push_back(sets.seconds(set) + sets.parameter_bytes(set) * reduce);
    }
  }
  OrderByWeight();
}

// Comparing places, which are whole numbers, is what a search spends its time on.
void GraphSearch::OrderByWeight() {
  for (const std::vector<double>& weight : weights_) {
    std::vector<int> order(weight.size()), places(weight.size());
    std::iota(order.begin(), order.end(), 0);
    const auto lighter = [&](int a, int b) { return weight[a] < weight[b]; };
    if (!std::is_sorted(weight.begin(), weight.end())) {
      std::stable_sort(order.begin(), order.end(), lighter);
    }
    for (size_t place = 0; place < order.size(); ++place) {
      places[order[place]] = static_cast<int>(place);
    }
    places_.push_back(std::move(places));
    by_place_.push_back(std::move(order));
  }
}

std::optional<std::vector<GraphStage>> GraphSearch::Within(double seconds, double bytes) {
  seconds_ = seconds;
  bytes_ = bytes;
  next_seconds_ = next_bytes_ = kInfinity;
  for (int m = 0; m <= request_.devices; ++m) SetWindow(m);
  layers_[0].reached[0] = 1;
  for (int m = 1; m <= request_.devices; ++m) {
    const int most = request_.replicate ? m : 1;
    for (int r = 1; r <= most && !Stops(0); ++r) Extend({m, r, InFlight(m, r)});
  }
  if (stopped_) return std::nullopt;
  const Layer& last = layers_[request_.devices];
  const int whole = sets_.size() - 1;
  if (!last.Holds(whole) || last.reached[whole - last.begin] == 0) return std::nullopt;
  return Stages();
}

void GraphSearch::SetWindow(int m) {
  const double total = sets_.seconds(sets_.size() - 1);
  // A little wider than the limit, for rounding; TryStage() checks every stage.
  const double most = seconds_ * (1 + kNear);
  Layer& layer = layers_[m];
  layer.begin = m == request_.devices
                    ? sets_.size() - 1
                    : FirstAtLeast(total / (1 + kNear) - (request_.devices - m) * most);
  layer.end = FirstAtLeast(std::nextafter(m * most, kInfinity));
  if (m == 0) layer.begin = 0, layer.end = 1;
  if (m == request_.devices) layer.end = sets_.size();
  layer.end = std::max(layer.end, layer.begin);
  if (m > 0 && layer.end < sets_.size()) RefuseSeconds(sets_.seconds(layer.end) / m);
  if (m > 0 && m < request_.devices && layer.begin > 0) {
    RefuseSeconds((total - sets_.seconds(layer.begin - 1)) / (request_.devices - m));
  }
  const auto size = static_cast<size_t>(layer.end - layer.begin);
  layer.any = m == 0;
  layer.reached.assign(size, 0);
  layer.from.resize(size);
  layer.replicas.resize(size);
}

int GraphSearch::FirstAtLeast(double seconds) const {
  int low = 0, high = sets_.size();
  while (low < high) {
    const int middle = low + (high - low) / 2;
    if (sets_.seconds(middle) < seconds) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

int GraphSearch::InFlight(int m, int r) const {
  const int from_here = request_.devices - m + r;
  return (from_here + r - 1) / r;
}

bool GraphSearch::FitsBytes(double bytes) {
  if (bytes > bytes_) next_bytes_ = std::min(next_bytes_, bytes);
  return bytes <= bytes_;
}

double GraphSearch::CutSeconds(int set, int r) const {
  return 2 * sets_.cut_bytes(set) / (r * request_.bandwidth());
}

void GraphSearch::Extend(const Step& step) {
  if (!layers_[step.m - step.r].any) return;
  if (step.m == step.r) return AddFirstStages(step);
  if (step.m == request_.devices) return AddLastStage(step);
  if (std::isfinite(bytes_)) return AddStagesWithinBytes(step);
  AddStages(step);
}

// The first stage's output is not its own to pay for.
void GraphSearch::AddFirstStages(const Step& step) {
  Layer& layer = layers_[step.r];
  for (int set = std::max(layer.begin, 1); set < layer.end; ++set) {
    if (!FitsBytes(Bytes(step, set))) continue;
    TryStage(&layer, 0, set, step.r, weights_[step.r][set] / step.r);
  }
}

// Of all starts only the heaviest matters: each lies inside the whole.
void GraphSearch::AddLastStage(const Step& step) {
  const int r = step.r;
  const Layer& before = layers_[request_.devices - r];
  const int whole = sets_.size() - 1;
  int heaviest = -1;
  for (int set = before.begin; set < std::min(before.end, whole); ++set) {
    if (!IsStart(before, set, r)) continue;
    if (!FitsBytes(Bytes(step, whole) - Bytes(step, set))) continue;
    if (heaviest < 0 || weights_[r][set] > weights_[r][heaviest]) heaviest = set;
  }
  if (heaviest < 0) return;
  const double seconds = (weights_[r][whole] - weights_[r][heaviest]) / r;
  TryStage(&layers_[request_.devices], heaviest, whole, r, seconds);
}

void GraphSearch::AddStages(const Step& step) {
  const int r = step.r;
  const Layer& before = layers_[step.m - r];
  Layer& layer = layers_[step.m];
  const std::vector<double>& weight = weights_[r];
  std::fill(best_.begin(), best_.begin() + before.begin, -1);
  for (int set = before.begin; set < layer.end && !Stops(set); ++set) {
    best_[set] = HeaviestInside(set);
    if (best_[set] >= 0 && layer.Holds(set)) {
      const int inside = by_place_[r][best_[set]];
      TryStage(&layer, inside, set, r,
               std::max((weight[set] - weight[inside]) / r, CutSeconds(set, r)));
    }
    // Heavier than anything inside it.
    if (before.Holds(set) && IsStart(before, set, r)) best_[set] = places_[r][set];
  }
}

void GraphSearch::AddStagesWithinBytes(const Step& step) {
  const int r = step.r;
  const Layer& before = layers_[step.m - r];
  Layer& layer = layers_[step.m];
  const std::vector<double>& weight = weights_[r];
  fronts_.resize(sets_.size());
  pool_.clear();
  for (int set = before.begin; set < layer.end && !Stops(set); ++set) {
    CollectInside(set, before.begin);
    DropTooFar(step, set);
    KeepHeaviest(step);
    if (!inside_.empty() && layer.Holds(set)) {
      const int inside = inside_.front();  // any will do
      TryStage(&layer, inside, set, r,
               std::max((weight[set] - weight[inside]) / r, CutSeconds(set, r)));
    }
    if (before.Holds(set) && IsStart(before, set, r)) inside_ = {set};
    fronts_[set] = {pool_.size(), pool_.size() + inside_.size()};
    pool_.insert(pool_.end(), inside_.begin(), inside_.end());
  }
}

bool GraphSearch::IsStart(const Layer& before, int set, int r) {
  if (before.reached[set - before.begin] == 0) return false;
  const double input = CutSeconds(set, r);
  if (input > seconds_) RefuseSeconds(input);
  return input <= seconds_;
}

void GraphSearch::TryStage(Layer* layer, int from, int set, int r, double seconds) {
  if (seconds > seconds_) return RefuseSeconds(seconds);
  const int at = set - layer->begin;
  layer->any = true;
  layer->reached[at] = 1;
  layer->from[at] = from;
  layer->replicas[at] = r;
}

// The place of the heaviest start strictly inside `set`; -1 where there is none.
int GraphSearch::HeaviestInside(int set) const {
  int heaviest = -1;
  for (const int smaller : sets_.Smaller(set)) heaviest = std::max(heaviest, best_[smaller]);
  return heaviest;
}

// All starts strictly inside `set` that a set with one node less has in its front.
void GraphSearch::CollectInside(int set, int begin) {
  inside_.clear();
  for (const int smaller : sets_.Smaller(set)) {
    if (smaller < begin) continue;
    const Front& front = fronts_[smaller];
    for (size_t at = front.begin; at < front.end; ++at) inside_.push_back(pool_[at]);
  }
}

void GraphSearch::DropTooFar(const Step& step, int set) {
  const std::vector<double>& weight = weights_[step.r];
  std::erase_if(inside_, [&](int start) {
    if (!FitsBytes(Bytes(step, set) - Bytes(step, start))) return true;
    const double seconds = (weight[set] - weight[start]) / step.r;
    if (seconds > seconds_) RefuseSeconds(seconds);
    return seconds > seconds_;
  });
}

// Leaves of inside_ what nothing is heavier than in both. Without a limit of seconds only bytes
// count.
void GraphSearch::KeepHeaviest(const Step& step) {
  if (inside_.size() < 2) return;
  const std::vector<double>& weight = weights_[step.r];
  const bool by_seconds = std::isfinite(seconds_);
  std::sort(inside_.begin(), inside_.end(), [&](int a, int b) {
    if (by_seconds && weight[a] != weight[b]) return weight[a] > weight[b];
    return Bytes(step, a) > Bytes(step, b);
  });
  size_t kept = 1;
  for (size_t i = 1; i < inside_.size() && by_seconds; ++i) {
    if (Bytes(step, inside_[i]) > Bytes(step, inside_[kept - 1])) inside_[kept++] = inside_[i];
  }
  inside_.resize(kept);
}

std::vector<GraphStage> GraphSearch::Stages() const {
  std::vector<GraphStage> stages;
  for (int set = sets_.size() - 1, m = request_.devices; m > 0;) {
    const Layer& layer = layers_[m];
    const int from = layer.from[set - layer.begin];
    GraphStage stage;
    stage.nodes = sets_.NodesBetween(from, set);
    stage.replicas = layer.replicas[set - layer.begin];
    stage.send_bytes = sets_.cut_bytes(set);
    stage.in_flight = InFlight(m, stage.replicas);
    for (const int node : stage.nodes) {
      const ProfileNode& work = request_.graph->nodes[node];
      stage.forward_seconds += work.forward_seconds;
      stage.backward_seconds += work.backward_seconds;
      stage.parameter_bytes += work.parameter_bytes;
      stage.activation_bytes += work.activation_bytes;
    }
    m -= stage.replicas;
    set = from;
    stages.push_back(std::move(stage));
  }
  std::reverse(stages.begin(), stages.end());
  return stages;
}

}  // namespace sluice
