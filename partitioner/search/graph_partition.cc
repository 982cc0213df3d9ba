#include "partitioner/search/graph_partition.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/spec/units.h"
#include "partitioner/cuts/downsets.h"
#include "partitioner/cuts/some_cuts.h"
#include "partitioner/search/graph_search.h"
#include "schedules/counted.h"

namespace sluice {
namespace {

constexpr double kNear = GraphSearch::kNear;
// The first stride upwards from a bound, of the bound.
constexpr double kFirstStride = 0.01;
// So many times as many sets as nodes are many.
constexpr int kManySets = 8;
// With replicas the search keeps some 25 bytes for each cut and number of devices.
constexpr int64_t kMostCutsByDevices = 64'000'000;
// Bytes are whole numbers.
constexpr double kByte = 0.5;
// How often some of the cuts are listed around the best partition found, and what is no progress.
constexpr int kMostRounds = 5;
constexpr double kProgress = 1e-6;

absl::Status CheckRequest(const GraphRequest& request) {
  const auto nodes = static_cast<int64_t>(request.graph->nodes.size());
  if (request.devices < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("devices must be at least 1, not ", request.devices));
  }
  absl::Status machines = ValidateEqualMachines(request.machines, request.devices);
  if (!machines.ok()) return machines;
  if (!request.replicate && nodes < request.devices) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the model has ", Counted(nodes, "node"), ", too few for ",
        Counted(request.devices, "stage"), "; give at most ", Counted(nodes, "device")));
  }
  return absl::OkStatus();
}

// No bottleneck is below either: the work spread evenly, or (where stages run on one device each)
// the longest node.
double LeastAmong(const GraphRequest& request, const Downsets& sets) {
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
  const double reduce = 4 * sets.parameter_bytes(whole) / request.bandwidth();
  return (sets.seconds(whole) + reduce) * (1 + kNear) + 2 * cut / request.bandwidth();
}

// Narrows the least bottleneck down, from that of `best` where there is one: a partition found
// gives its own, a search without one the least of all that did not fit.
class Narrowing {
 public:
  Narrowing(const GraphRequest& request, const Downsets& sets, std::vector<GraphStage> best)
      : request_(request), search_(request, sets), best_(std::move(best)) {
    low_ = LeastAmong(request, sets);
    high_ = best_.empty() ? MostBottleneck(request, sets) : GraphBottleneck(request, best_);
  }

  // Empty where nothing fits in memory, or where the search was stopped before it found anything.
  std::vector<GraphStage> Run() {
    if (best_.empty() && !CanFit()) return {};
    Try(low_ * (1 + kNear));  // often the bound itself can be met
    if (best_.empty()) FindFirst();
    if (!Done()) Try(high_ * (1 - 2 * kNear));  // and often it was found already
    while (!Done()) Try(low_ + (high_ - low_) / 2);
    return std::move(best_);
  }
  bool stopped() const { return search_.stopped(); }
  // No bottleneck over these sets is below.
  double low() const { return low_; }

 private:
  bool Done() const { return high_ - low_ <= 3 * kNear * high_ || stopped(); }

  bool CanFit() {
    return std::isinf(request_.memory()) ||
           search_.Within(GraphSearch::kInfinity, request_.memory()).has_value();
  }

  void Try(double limit) {
    std::optional<std::vector<GraphStage>> stages = search_.Within(limit, request_.memory());
    if (stopped()) return;
    if (!stages) {
      low_ = search_.next_seconds();
      return;
    }
    high_ = std::min(limit, GraphBottleneck(request_, *stages));
    best_ = *std::move(stages);
  }

  // Upwards in longer and longer strides: a search takes the longer the higher its limit.
  void FindFirst() {
    double stride = kFirstStride * (low_ > 0 ? low_ : high_);
    for (; best_.empty() && !stopped(); stride *= 2) {
      Try(std::min(low_ * (1 + kNear) + stride, high_));
    }
  }

  const GraphRequest& request_;
  GraphSearch search_;
  std::vector<GraphStage> best_;
  double low_ = 0, high_ = 0;
};

// The best along the order of the file, which takes little time to find.
std::vector<GraphStage> AlongFile(GraphRequest request, const Downsets& prefixes) {
  request.stop = nullptr;
  return Narrowing(request, prefixes, {}).Run();
}

// What the order of the file offers already, where that is far less to search.
std::vector<GraphStage> StartOf(const GraphRequest& request, int sets) {
  const auto nodes = static_cast<int>(request.graph->nodes.size());
  if (sets / kManySets <= nodes) return {};
  return AlongFile(request, Downsets::Prefixes(*request.graph));
}

std::string Describe(double bytes) {
  return DescribeMemory(static_cast<int64_t>(std::ceil(bytes)));
}

std::string NameStage(const ProfileGraph& graph, const GraphStage& stage) {
  const std::string& first = graph.nodes[stage.nodes.front()].id;
  if (stage.nodes.size() == 1) return absl::StrCat("(", first, ")");
  return absl::StrCat("(", stage.nodes.size(), " operations, ", first, " to ",
                      graph.nodes[stage.nodes.back()].id, ")");
}

// Names the partition whose fullest device holds least, found as above, over bytes.
absl::Status NothingFits(const GraphRequest& request, const Downsets& sets) {
  GraphSearch search(request, sets);
  double low = request.memory(), high = GraphSearch::kInfinity;
  std::vector<GraphStage> best;
  const auto less = [](const GraphStage& a, const GraphStage& b) {
    return a.peak_bytes() < b.peak_bytes();
  };
  for (double limit = GraphSearch::kInfinity; high - low > kByte; limit = low + (high - low) / 2) {
    std::optional<std::vector<GraphStage>> stages = search.Within(GraphSearch::kInfinity, limit);
    if (search.stopped()) break;
    if (!stages) {
      low = search.next_bytes();
      continue;
    }
    best = *std::move(stages);
    high = std::min(limit, std::max_element(best.begin(), best.end(), less)->peak_bytes());
  }
  const std::string fits =
      absl::StrCat("no partition fits into ", Describe(request.memory()), " a device");
  if (best.empty()) return absl::FailedPreconditionError(fits);
  const auto fullest = std::max_element(best.begin(), best.end(), less);
  return absl::FailedPreconditionError(absl::StrCat(
      fits,
      search.stopped() ? ": the leanest that was found in the time needs "
                       : ": even the leanest needs ",
      Describe(high), "; its stage ", fullest - best.begin(), " ",
      NameStage(*request.graph, *fullest), " needs most: ", Describe(fullest->state_bytes()),
      " of parameters, gradients and Adam's moments, ", Counted(fullest->in_flight, "micro-batch"),
      " in flight"));
}

GraphPlan PlanOf(const GraphRequest& request, const Downsets& sets,
                 std::vector<GraphStage> stages) {
  GraphPlan plan;
  plan.cuts = sets.size() - 2;
  plan.all_cuts = sets.all();
  plan.bottleneck_seconds = GraphBottleneck(request, stages);
  plan.stages = std::move(stages);
  return plan;
}

std::vector<std::vector<int>> NodesOf(const GraphRequest& request,
                                      const std::vector<GraphStage>& stages) {
  std::vector<std::vector<int>> nodes;
  for (const GraphStage& stage : stages) nodes.push_back(stage.nodes);
  if (!nodes.empty()) return nodes;
  nodes.emplace_back(request.graph->nodes.size());
  std::iota(nodes[0].begin(), nodes[0].end(), 0);
  return nodes;
}

absl::Status NothingFound(const GraphRequest& request) {
  return absl::DeadlineExceededError(
      absl::StrCat("no partition that fits into ", Describe(request.memory()),
                   " a device was found in the time: give more time or memory"));
}

absl::StatusOr<GraphPlan> FindAmongSomeCuts(const GraphRequest& request) {
  int64_t most = request.cut_limits.some;
  if (request.replicate) most = std::min(most, kMostCutsByDevices / request.devices);
  const Downsets prefixes = Downsets::Prefixes(*request.graph);
  GraphPlan best = PlanOf(request, prefixes, AlongFile(request, prefixes));
  const double bound = LeastBottleneck(request);
  for (int round = 0; round < kMostRounds; ++round) {
    const Downsets sets = ListSomeCuts(*request.graph, NodesOf(request, best.stages), most);
    GraphPlan plan = PlanOf(request, sets, Narrowing(request, sets, best.stages).Run());
    if (plan.stages.empty()) {
      best.cuts = plan.cuts;
      break;
    }
    const bool better =
        best.stages.empty() || plan.bottleneck_seconds < best.bottleneck_seconds * (1 - kProgress);
    best = std::move(plan);
    if (!better || best.bottleneck_seconds <= bound * (1 + kProgress)) break;
    if (request.stop && request.stop()) break;
  }
  if (best.stages.empty()) {
    if (request.stop && request.stop()) return NothingFound(request);
    return absl::DeadlineExceededError(absl::StrCat(
        "the graph can be cut in more than ", request.cut_limits.all, " ways; along the ",
        best.cuts, " that were tried nothing fits into ", Describe(request.memory()),
        " per device, which proves nothing of the others: give more memory, or merge nodes that "
        "belong together"));
  }
  best.lower_bound = std::min(bound, best.bottleneck_seconds);
  return best;
}

}  // namespace

double GraphBottleneck(const GraphRequest& request, const std::vector<GraphStage>& stages) {
  double most = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    const GraphStage& stage = stages[s];
    const int r = stage.replicas;
    const double reduce = stage.parameter_bytes * AllReduceSeconds(r, request.bandwidth());
    most = std::max(most, (stage.forward_seconds + stage.backward_seconds + reduce) / r);
    const double rate = request.bandwidth() * r;
    if (s > 0) most = std::max(most, 2 * stages[s - 1].send_bytes / rate);
    if (s > 0 && s + 1 < stages.size()) most = std::max(most, 2 * stage.send_bytes / rate);
  }
  return most;
}

double LeastBottleneck(const GraphRequest& request) {
  const std::vector<ProfileNode>& nodes = request.graph->nodes;
  double total = 0, longest = 0;
  for (const ProfileNode& node : nodes) {
    total += node.seconds();
    double least = node.seconds();
    // Each replica of its stage takes a share of the micro-batches, and of the sum of gradients.
    for (int r = 2; request.replicate && r <= request.devices; ++r) {
      const double reduce = node.parameter_bytes * AllReduceSeconds(r, request.bandwidth());
      least = std::min(least, (node.seconds() + reduce) / r);
    }
    longest = std::max(longest, least);
  }
  return std::max(total / request.devices * (1 - kNear), longest);
}

absl::StatusOr<GraphPlan> FindGraphPartition(const GraphRequest& request) {
  if (absl::Status status = CheckRequest(request); !status.ok()) return status;
  const absl::StatusOr<Downsets> sets = Downsets::Enumerate(*request.graph, request.cut_limits.all);
  if (!sets.ok()) return FindAmongSomeCuts(request);
  if (request.replicate && int64_t{sets->size()} * request.devices > kMostCutsByDevices) {
    return absl::InvalidArgumentError(
        absl::StrCat("the graph can be cut in ", sets->size() - 2, " ways; give at most ",
                     kMostCutsByDevices / sets->size(), " devices, not ", request.devices));
  }
  Narrowing narrowing(request, *sets, StartOf(request, sets->size()));
  GraphPlan plan = PlanOf(request, *sets, narrowing.Run());
  if (plan.stages.empty() && narrowing.stopped()) {
    plan = PlanOf(request, *sets, AlongFile(request, Downsets::Prefixes(*request.graph)));
    if (plan.stages.empty()) return NothingFound(request);
  }
  if (plan.stages.empty()) return NothingFits(request, *sets);
  plan.lower_bound =
      narrowing.stopped()
          ? std::min(std::max(narrowing.low(), LeastBottleneck(request)), plan.bottleneck_seconds)
          : plan.bottleneck_seconds;
  return plan;
}

}  // namespace sluice
