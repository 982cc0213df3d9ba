#include "bench/partitioner/rules.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

namespace sluice {
namespace {

constexpr double kBytesAParameter = 4;  // per parameter: the profiles are of fp32
constexpr double kProbeStep = 1e-3;     // DeepSpeed's eps, in parameters

// The stages that `stage_of` [node] gives; empty if a stage has no node.
std::vector<GraphStage> StagesOf(const GraphRequest& request, const std::vector<int>& stage_of) {
  std::vector<GraphStage> stages(request.devices);
  for (size_t i = 0; i < stage_of.size(); ++i) {
    const ProfileNode& node = request.graph->nodes[i];
    GraphStage& stage = stages[stage_of[i]];
    stage.nodes.push_back(static_cast<int>(i));
    stage.forward_seconds += node.forward_seconds;
    stage.backward_seconds += node.backward_seconds;
    stage.parameter_bytes += node.parameter_bytes;
    int last = stage_of[i];
    for (const int user : node.users) last = std::max(last, stage_of[user]);
    for (int cut = stage_of[i]; cut < last; ++cut) {
      stages[cut].send_bytes += node.activation_bytes;
    }
  }
  for (const GraphStage& stage : stages) {
    if (stage.nodes.empty()) return {};
  }
  return stages;
}

// Stage s has the nodes up to ends[s]; empty if that is no partition.
std::vector<GraphStage> StagesOfEnds(const GraphRequest& request, const std::vector<size_t>& ends) {
  std::vector<int> stage_of;
  for (size_t s = 0; s < ends.size(); ++s) {
    if (ends[s] <= stage_of.size()) return {};
    stage_of.resize(ends[s], static_cast<int>(s));
  }
  return StagesOf(request, stage_of);
}

std::vector<double> Prefixes(const std::vector<double>& values) {
  std::vector<double> sums(values.size());
  std::partial_sum(values.begin(), values.end(), sums.begin());
  return sums;
}

// Blocks of a sequence whose sums differ by at most the largest value, which is 1.
class Blocks {
 public:
  Blocks(std::vector<double> values, size_t count) : values_(std::move(values)) {
    const double least = *std::min_element(values_.begin(), values_.end());
    const double spread = *std::max_element(values_.begin(), values_.end()) - least;
    for (double& value : values_) value = spread > 0 ? (value - least) / spread : 0;
    for (size_t i = 1; i <= count; ++i) ends_.push_back(values_.size() / count * i);
    ends_.back() = values_.size();
  }

  // Moves one value at a time from the largest block towards the smallest.
  std::vector<size_t> Balance() {
    // The paper proves that this ends, but not with rounding.
    const size_t most_moves = values_.size() * values_.size() * ends_.size();
    size_t largest = Largest();
    double most = Sum(largest);
    for (size_t moves = 0; moves < most_moves; ++moves) {
      const size_t smallest = Smallest();
      if (most <= Sum(smallest) + 1) break;
      const size_t from = largest < smallest ? smallest - 1 : smallest + 1;
      largest < smallest ? --ends_[from] : ++ends_[smallest];
      if (from != largest) continue;
      largest = Largest();
      most = Sum(largest);
    }
    return ends_;
  }

 private:
  double Sum(size_t block) const {
    double sum = 0;
    for (size_t i = block == 0 ? 0 : ends_[block - 1]; i < ends_[block]; ++i) sum += values_[i];
    return sum;
  }
  // Of equal sums the last, and the first, like Python's max and min of (sum, block).
  size_t Largest() const {
    size_t best = 0;
    for (size_t i = 1; i < ends_.size(); ++i) best = Sum(i) >= Sum(best) ? i : best;
    return best;
  }
  size_t Smallest() const {
    size_t best = 0;
    for (size_t i = 1; i < ends_.size(); ++i) best = Sum(i) < Sum(best) ? i : best;
    return best;
  }

  std::vector<double> values_;
  std::vector<size_t> ends_;
};

// Whether `parts` stages of at most `most` can hold everything; sets their ends.
bool Probe(const std::vector<double>& sums, size_t parts, double most, std::vector<size_t>* ends) {
  ends->assign(parts, sums.size());
  const size_t chunk = sums.size() / parts;
  double target = most;
  size_t step = chunk, begin = 0;
  for (size_t p = 0; p + 1 < parts; ++p) {
    while (step < sums.size() && sums[step] < target) step += chunk;
    const auto last = sums.begin() + static_cast<int64_t>(std::min(step, sums.size()));
    const auto first = std::min(sums.begin() + static_cast<int64_t>(step - chunk), last);
    const auto end = static_cast<size_t>(std::lower_bound(first, last, target) - sums.begin());
    (*ends)[p] = end;
    if (end == sums.size()) return sums.back() - (begin == 0 ? 0 : sums[begin - 1]) < most;
    target = (end == 0 ? 0 : sums[end - 1]) + most;
    begin = end;
  }
  return target >= sums.back();
}

constexpr size_t kBits = 64;
using Members = std::vector<bool>;

// A set of nodes that PipeDream considers, with its sums.
struct State {
  Members members;
  std::vector<uint64_t> words = {};  // the set as bits, 64 nodes per word
  size_t size = 0;
  double seconds = 0;
  double output_bytes = 0;
};

class PipeDream {
 public:
  explicit PipeDream(const ProfileGraph& graph) : graph_(graph), ancestors_(graph.nodes.size()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      ancestors_[i].resize(graph.nodes.size());
      for (const int source : graph.nodes[i].sources) {
        ancestors_[i][source] = true;
        for (size_t a = 0; a < i; ++a) {
          if (ancestors_[source][a]) ancestors_[i][a] = true;
        }
      }
    }
  }

  // False when there are more states than `most`, or they do not reach the whole graph.
  bool Grow(size_t most) {
    Add(Members(graph_.nodes.size()), 0);
    size_t at = 0;
    while (at < states_.size()) {  // states are appended in the loop
      if (states_.size() > most) return false;
      const Members members = states_[at++].members;
      for (size_t node = 0; node < members.size(); ++node) {
        const std::vector<int>& sources = graph_.nodes[node].sources;
        const bool uses = std::any_of(sources.begin(), sources.end(),
                                      [&](int source) { return members[source]; });
        if (uses && !members[node]) Add(members, node);
      }
    }
    std::stable_sort(states_.begin(), states_.end(),
                     [](const State& a, const State& b) { return a.size < b.size; });
    return states_.back().size == graph_.nodes.size();
  }

  size_t states() const { return states_.size(); }

  // The stage of each node; empty if there are not that many stages.
  std::vector<int> Partition(int devices, double bandwidth) {
    const size_t count = states_.size();
    constexpr double kNever = std::numeric_limits<double>::infinity();
    std::vector<std::vector<double>> least(devices, std::vector<double>(count, kNever));
    std::vector<std::vector<size_t>> split(devices, std::vector<size_t>(count));
    for (size_t j = 0; j < count; ++j) least[0][j] = states_[j].seconds;
    for (size_t j = 1; j < count; ++j) {
      const double output = j + 1 < count ? 2 * states_[j].output_bytes / bandwidth : 0;
      for (size_t k = 0; k < j; ++k) {
        if (!IsInside(k, j)) continue;
        const double stage = std::max({states_[j].seconds - states_[k].seconds, output,
                                       2 * states_[k].output_bytes / bandwidth});
        for (int m = 1; m < devices; ++m) {
          const double time = std::max(least[m - 1][k], stage);
          if (time >= least[m][j]) continue;
          least[m][j] = time;
          split[m][j] = k;
        }
      }
    }
    if (least[devices - 1][count - 1] == kNever) return {};
    std::vector<int> stage_of(graph_.nodes.size());
    for (size_t j = count - 1, m = devices; m-- > 0; j = split[m][j]) {
      for (size_t node = 0; node < stage_of.size(); ++node) {
        if (states_[j].members[node]) stage_of[node] = static_cast<int>(m);
      }
    }
    return stage_of;
  }

 private:
  bool IsInside(size_t part, size_t whole) const {
    const std::vector<uint64_t>& a = states_[part].words;
    const std::vector<uint64_t>& b = states_[whole].words;
    if (states_[part].size >= states_[whole].size) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if ((a[i] & ~b[i]) != 0) return false;
    }
    return true;
  }

  void Add(Members members, size_t node) {
    members[node] = true;
    for (size_t i = 0; i < node; ++i) {
      if (ancestors_[node][i]) members[i] = true;
    }
    if (!known_.insert(members).second) return;
    State state;
    state.words.resize(members.size() / kBits + 1);
    for (size_t i = 0; i < members.size(); ++i) {
      if (!members[i]) continue;
      ++state.size;
      state.words[i / kBits] |= uint64_t{1} << (i % kBits);
      state.seconds += graph_.nodes[i].seconds();
      if (Counts(members, i)) state.output_bytes += graph_.nodes[i].activation_bytes;
    }
    state.members = std::move(members);
    states_.push_back(std::move(state));
  }

  // Maximal in the set, or an ancestor of a maximal node with a user that is neither that node nor
  // another ancestor of it.
  bool Counts(const Members& members, size_t node) const {
    const std::vector<int>& users = graph_.nodes[node].users;
    if (IsMaximal(members, node)) return true;
    for (size_t m = node + 1; m < members.size(); ++m) {
      if (!members[m] || !ancestors_[m][node] || !IsMaximal(members, m)) continue;
      const bool another = std::any_of(users.begin(), users.end(), [&](int user) {
        return static_cast<size_t>(user) != m && !ancestors_[m][user];
      });
      if (another) return true;
    }
    return false;
  }
  bool IsMaximal(const Members& members, size_t node) const {
    const std::vector<int>& users = graph_.nodes[node].users;
    return std::none_of(users.begin(), users.end(), [&](int user) { return members[user]; });
  }

  const ProfileGraph& graph_;
  std::vector<Members> ancestors_;
  std::vector<State> states_;
  std::set<Members> known_;
};

}  // namespace

std::vector<GraphStage> TorchgpipeBlocks(const GraphRequest& request) {
  std::vector<double> seconds;
  for (const ProfileNode& node : request.graph->nodes) seconds.push_back(node.seconds());
  if (seconds.size() < static_cast<size_t>(request.devices)) return {};
  return StagesOfEnds(request, Blocks(std::move(seconds), request.devices).Balance());
}

std::vector<GraphStage> DeepSpeedParameters(const GraphRequest& request) {
  std::vector<double> parameters;
  for (const ProfileNode& node : request.graph->nodes) {
    parameters.push_back(node.parameter_bytes / kBytesAParameter);
  }
  const auto parts = static_cast<size_t>(request.devices);
  if (parameters.size() <= parts) return {};
  const std::vector<double> sums = Prefixes(parameters);
  double lower = sums.back() / request.devices, upper = sums.back();
  std::vector<size_t> ends;
  while (upper > lower + kProbeStep) {
    const double middle = lower + (upper - lower) / 2;
    if (Probe(sums, parts, middle, &ends)) {
      upper = middle;
    } else {
      lower = middle + kProbeStep;
    }
  }
  if (!Probe(sums, parts, upper, &ends)) return {};
  return StagesOfEnds(request, ends);
}

std::vector<GraphStage> PipeDreamStages(const GraphRequest& request, size_t most_states,
                                        size_t* states) {
  PipeDream search(*request.graph);
  const bool whole = search.Grow(most_states);
  if (states != nullptr) *states = search.states();
  if (!whole) return {};
  const std::vector<int> stage_of = search.Partition(request.devices, request.bandwidth());
  return stage_of.empty() ? std::vector<GraphStage>() : StagesOf(request, stage_of);
}

}  // namespace sluice
