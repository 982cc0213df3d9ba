// Is there a partition whose bottleneck is at most T? Let reach[m] be the sets of nodes that stages
// on m devices can hold within T. A stage on r devices from set E to a larger set D fits when the
// cuts at both ends let r devices through in T, and weight_r(D) - weight_r(E) <= r T, where
// weight_r sums seconds plus what r replicas' all-reduce takes. So of all E in reach[m] inside D
// only the heaviest matters, and the heaviest inside D is D itself or the heaviest inside a set
// with one node less: one pass over the sets answers for all D. Sets are in order of their seconds,
// and those of m devices have between (total - (devices - m) T) and m T seconds, so a pass runs
// over a window. T is then narrowed down between bounds: a partition found
// gives its own bottleneck, a pass without one the least of all that did not fit.
#include "partitioner/graph_partition.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "partitioner/downsets.h"

namespace sluice {
namespace {

constexpr int64_t kMostCuts = 4'000'000;
// Bounds as near as this are one: a picosecond of a second.
constexpr double kNear = 1e-12;

// The all-reduce of r replicas, in seconds per parameter byte.
double ReduceSeconds(int replicas, double bandwidth) {
  return 4.0 * (replicas - 1) / (replicas * bandwidth);
}

class Search {
 public:
  Search(const GraphRequest& request, const Downsets& sets)
      : request_(request), sets_(sets), layers_(request.devices + 1), best_(sets.size()) {
    weights_.resize(request.replicate ? request.devices + 1 : 2);
    for (size_t r = 1; r < weights_.size(); ++r) {
      const double reduce = ReduceSeconds(static_cast<int>(r), request.bandwidth);
      for (int set = 0; set < sets.size(); ++set) {
        weights_[r].push_back(sets.seconds(set) + sets.parameter_bytes(set) * reduce);
      }
    }
  }

  // The stages of a partition with a bottleneck of at most `limit`; nullopt when there is none.
  std::optional<std::vector<GraphStage>> Within(double limit) {
    limit_ = limit;
    next_ = kInfinity;
    for (int m = 0; m <= request_.devices; ++m) SetWindow(m);
    layers_[0].reached[0] = 1;
    for (int m = 1; m <= request_.devices; ++m) {
      const int most = request_.replicate ? m : 1;
      for (int r = 1; r <= most; ++r) Extend(m, r);
    }
    const Layer& last = layers_[request_.devices];
    const int whole = sets_.size() - 1;
    if (!last.Holds(whole) || last.reached[whole - last.begin] == 0) return std::nullopt;
    return Stages();
  }

  // After Within() found nothing: nor is there anything below this.
  double next() const { return std::max(next_, limit_); }

 private:
  // The sets that m devices may hold: [begin, end) in order of seconds.
  struct Layer {
    int begin = 0, end = 0;
    std::vector<char> reached;
    std::vector<int> from;  // the set before the last stage
    std::vector<int> replicas;

    bool Holds(int set) const { return set >= begin && set < end; }
  };

  void SetWindow(int m) {
    const double total = sets_.seconds(sets_.size() - 1);
    // A little wider than the limit, for rounding; ExtendTo() checks every stage.
    const double slack = 1 + kNear;
    Layer& layer = layers_[m];
    layer.begin = FirstAtLeast(total / slack - (request_.devices - m) * limit_ * slack);
    layer.end = FirstAtLeast(std::nextafter(m * limit_ * slack, kInfinity));
    if (m == 0) layer.begin = 0, layer.end = 1;
    if (m == request_.devices) layer.end = sets_.size();
    layer.end = std::max(layer.end, layer.begin);
    if (m > 0 && layer.end < sets_.size()) Refuse(sets_.seconds(layer.end) / m);
    if (m > 0 && m < request_.devices && layer.begin > 0) {
      Refuse((total - sets_.seconds(layer.begin - 1)) / (request_.devices - m));
    }
    const auto size = static_cast<size_t>(layer.end - layer.begin);
    layer.reached.assign(size, 0);
    layer.from.resize(size);
    layer.replicas.resize(size);
  }

  int FirstAtLeast(double seconds) const {
    int low = 0, high = sets_.size();
    while (low < high) {
      const int middle = low + (high - low) / 2;
      (sets_.seconds(middle) < seconds ? low : high) =
          sets_.seconds(middle) < seconds ? middle + 1 : middle;
    }
    return low;
  }

  // Something did not fit that takes `seconds`, which is more than the limit.
  void Refuse(double seconds) { next_ = std::min(next_, seconds); }

  double CutSeconds(int set, int r) const {
    return 2 * sets_.cut_bytes(set) / (r * request_.bandwidth);
  }

  // Marks the sets that m devices reach with a last stage of r.
  void Extend(int m, int r) {
    if (m == r) return AddFirstStages(r);
    if (m == request_.devices) return AddLastStage(r);
    AddStages(m, r);
  }

  // The first stage's output is not its own to pay for.
  void AddFirstStages(int r) {
    Layer& layer = layers_[r];
    for (int set = std::max(layer.begin, 1); set < layer.end; ++set) {
      TryStage(&layer, 0, set, r, weights_[r][set] / r);
    }
  }

  // Of all starts only the heaviest matters: each lies inside the whole.
  void AddLastStage(int r) {
    const Layer& before = layers_[request_.devices - r];
    const int whole = sets_.size() - 1;
    int heaviest = -1;
    for (int set = before.begin; set < std::min(before.end, whole); ++set) {
      if (!IsStart(before, set, r)) continue;
      if (heaviest < 0 || weights_[r][set] > weights_[r][heaviest]) heaviest = set;
    }
    if (heaviest < 0) return;
    const double seconds = (weights_[r][whole] - weights_[r][heaviest]) / r;
    TryStage(&layers_[request_.devices], heaviest, whole, r, seconds);
  }

  void AddStages(int m, int r) {
    const Layer& before = layers_[m - r];
    Layer& layer = layers_[m];
    const std::vector<double>& weight = weights_[r];
    for (int set = before.begin; set < layer.end; ++set) {
      const int inside = HeaviestInside(set, before.begin, weight);
      best_[set] = inside;
      if (inside >= 0 && layer.Holds(set)) {
        TryStage(&layer, inside, set, r,
                 std::max((weight[set] - weight[inside]) / r, CutSeconds(set, r)));
      }
      // Heavier than anything inside it.
      if (before.Holds(set) && IsStart(before, set, r)) best_[set] = set;
    }
  }

  bool IsStart(const Layer& before, int set, int r) {
    if (before.reached[set - before.begin] == 0) return false;
    const double input = CutSeconds(set, r);
    if (input > limit_) Refuse(input);
    return input <= limit_;
  }

  void TryStage(Layer* layer, int from, int set, int r, double seconds) {
    if (!layer->Holds(set)) return;
    if (seconds > limit_) return Refuse(seconds);
    const int at = set - layer->begin;
    layer->reached[at] = 1;
    layer->from[at] = from;
    layer->replicas[at] = r;
  }

  // The heaviest start strictly inside `set`; -1 where there is none.
  int HeaviestInside(int set, int begin, const std::vector<double>& weight) const {
    int heaviest = -1;
    for (const int smaller : sets_.Smaller(set)) {
      const int inside = smaller < begin ? -1 : best_[smaller];
      if (inside >= 0 && (heaviest < 0 || weight[inside] > weight[heaviest])) heaviest = inside;
    }
    return heaviest;
  }

  std::vector<GraphStage> Stages() const {
    std::vector<GraphStage> stages;
    for (int set = sets_.size() - 1, m = request_.devices; m > 0;) {
      const Layer& layer = layers_[m];
      const int from = layer.from[set - layer.begin];
      GraphStage stage;
      stage.nodes = sets_.NodesBetween(from, set);
      stage.replicas = layer.replicas[set - layer.begin];
      stage.send_bytes = sets_.cut_bytes(set);
      for (const int node : stage.nodes) {
        const ProfileNode& work = request_.graph->nodes[node];
        stage.forward_seconds += work.forward_seconds;
        stage.backward_seconds += work.backward_seconds;
        stage.parameter_bytes += work.parameter_bytes;
      }
      m -= stage.replicas;
      set = from;
      stages.push_back(std::move(stage));
    }
    std::reverse(stages.begin(), stages.end());
    return stages;
  }

  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  const GraphRequest& request_;
  const Downsets& sets_;
  double limit_ = 0;
  double next_ = 0;  // the least of what was refused
  std::vector<Layer> layers_;
  std::vector<std::vector<double>> weights_;  // [replicas][set]
  std::vector<int> best_;  // [set] of the pass that runs: the heaviest start inside or equal to it
};

absl::Status CheckRequest(const GraphRequest& request) {
  const auto nodes = static_cast<int64_t>(request.graph->nodes.size());
  if (request.devices < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("devices must be at least 1, not ", request.devices));
  }
  if (!(request.bandwidth > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("bandwidth must be positive, not ", request.bandwidth));
  }
  if (!request.replicate && nodes < request.devices) {
    return absl::InvalidArgumentError(absl::StrCat("the model has ", nodes, " nodes, too few for ",
                                                   request.devices, " stages; give at most ", nodes,
                                                   " devices"));
  }
  return absl::OkStatus();
}

// No bottleneck is below either: the work spread evenly, or (where stages run on one device each)
// the longest node.
double LeastBottleneck(const GraphRequest& request, const Downsets& sets) {
  double least = sets.seconds(sets.size() - 1) / request.devices;
  if (request.replicate) return least;
  for (const ProfileNode& node : request.graph->nodes) least = std::max(least, node.seconds());
  return least;
}

// A limit that every partition keeps.
double MostBottleneck(const GraphRequest& request, const Downsets& sets) {
  const int whole = sets.size() - 1;
  double cut = 0;
  for (int set = 0; set <= whole; ++set) cut = std::max(cut, sets.cut_bytes(set));
  const double reduce = 4 * sets.parameter_bytes(whole) / request.bandwidth;
  return (sets.seconds(whole) + reduce) * (1 + kNear) + 2 * cut / request.bandwidth;
}

}  // namespace

double GraphBottleneck(const GraphRequest& request, const std::vector<GraphStage>& stages) {
  double most = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    const GraphStage& stage = stages[s];
    const int r = stage.replicas;
    const double reduce = stage.parameter_bytes * ReduceSeconds(r, request.bandwidth);
    most = std::max(most, (stage.forward_seconds + stage.backward_seconds + reduce) / r);
    const double rate = request.bandwidth * r;
    if (s > 0) most = std::max(most, 2 * stages[s - 1].send_bytes / rate);
    if (s > 0 && s + 1 < stages.size()) most = std::max(most, 2 * stage.send_bytes / rate);
  }
  return most;
}

absl::StatusOr<GraphPlan> FindGraphPartition(const GraphRequest& request) {
  if (absl::Status status = CheckRequest(request); !status.ok()) return status;
  const absl::StatusOr<Downsets> sets = Downsets::Enumerate(*request.graph, kMostCuts);
  if (!sets.ok()) return sets.status();
  Search search(request, *sets);
  GraphPlan plan;
  plan.cuts = sets->size() - 2;
  double low = LeastBottleneck(request, *sets), high = MostBottleneck(request, *sets);
  const auto improve = [&](double limit) {
    std::optional<std::vector<GraphStage>> stages = search.Within(limit);
    if (!stages) {
      low = search.next();
      return;
    }
    high = std::min(limit, GraphBottleneck(request, *stages));
    plan.stages = *std::move(stages);
  };
  improve(high);
  improve(low * (1 + kNear));  // often the bound itself can be met
  while (high - low > kNear * high) improve(low + (high - low) / 2);
  plan.bottleneck_seconds = GraphBottleneck(request, plan.stages);
  return plan;
}

}  // namespace sluice
