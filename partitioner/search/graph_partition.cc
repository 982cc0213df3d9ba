#include "partitioner/search/graph_partition.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/spec/units.h"
#include "partitioner/cuts/downsets.h"
#include "partitioner/search/graph_search.h"

namespace sluice {
namespace {

constexpr int64_t kMostCuts = 4'000'000;
constexpr double kNear = GraphSearch::kNear;
// The first stride upwards from a bound, of the bound.
constexpr double kFirstStride = 0.01;
// So many times as many sets as nodes are many.
constexpr int kManySets = 8;
// With replicas the search keeps some 25 bytes for each cut and number of devices.
constexpr int64_t kMostCutsByDevices = 64'000'000;
// Bytes are whole numbers.
constexpr double kByte = 0.5;

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
  if (!(request.memory > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("memory must be positive, not ", request.memory));
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

// Narrows the least bottleneck down, from that of `best` where there is one: a partition found
// gives its own, a search without one the least of all that did not fit.
class Narrowing {
 public:
  Narrowing(const GraphRequest& request, const Downsets& sets, std::vector<GraphStage> best)
      : request_(request), search_(request, sets), best_(std::move(best)) {
    low_ = LeastBottleneck(request, sets);
    high_ = best_.empty() ? MostBottleneck(request, sets) : GraphBottleneck(request, best_);
  }

  // Empty where nothing fits in memory.
  std::vector<GraphStage> Run() {
    if (best_.empty() && !CanFit()) return {};
    Try(low_ * (1 + kNear));  // often the bound itself can be met
    if (best_.empty()) FindFirst();
    if (!Done()) Try(high_ * (1 - 2 * kNear));  // and often it was found already
    while (!Done()) Try(low_ + (high_ - low_) / 2);
    return std::move(best_);
  }

 private:
  bool Done() const { return high_ - low_ <= 3 * kNear * high_; }

  bool CanFit() {
    return std::isinf(request_.memory) ||
           search_.Within(GraphSearch::kInfinity, request_.memory).has_value();
  }

  void Try(double limit) {
    std::optional<std::vector<GraphStage>> stages = search_.Within(limit, request_.memory);
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
    for (; best_.empty(); stride *= 2) {
      Try(std::min(low_ * (1 + kNear) + stride, high_));
    }
  }

  const GraphRequest& request_;
  GraphSearch search_;
  std::vector<GraphStage> best_;
  double low_ = 0, high_ = 0;
};

// What the order of the file offers already, where that is far less to search.
std::vector<GraphStage> StartOf(const GraphRequest& request, int sets) {
  const auto nodes = static_cast<int>(request.graph->nodes.size());
  if (sets / kManySets <= nodes) return {};
  const Downsets prefixes = Downsets::Prefixes(*request.graph);
  return Narrowing(request, prefixes, {}).Run();
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
  double low = request.memory, high = GraphSearch::kInfinity;
  std::vector<GraphStage> best;
  const auto less = [](const GraphStage& a, const GraphStage& b) {
    return a.peak_bytes() < b.peak_bytes();
  };
  for (double limit = GraphSearch::kInfinity; high - low > kByte; limit = low + (high - low) / 2) {
    std::optional<std::vector<GraphStage>> stages = search.Within(GraphSearch::kInfinity, limit);
    if (!stages) {
      low = search.next_bytes();
      continue;
    }
    best = *std::move(stages);
    high = std::min(limit, std::max_element(best.begin(), best.end(), less)->peak_bytes());
  }
  const auto fullest = std::max_element(best.begin(), best.end(), less);
  return absl::FailedPreconditionError(absl::StrCat(
      "no partition fits into ", Describe(request.memory), " a device: even the leanest needs ",
      Describe(high), "; its stage ", fullest - best.begin(), " ",
      NameStage(*request.graph, *fullest), " needs most: ", Describe(fullest->state_bytes()),
      " of parameters, gradients and Adam's moments, ", fullest->in_flight,
      fullest->in_flight == 1 ? " micro-batch" : " micro-batches", " in flight"));
}

}  // namespace

double GraphBottleneck(const GraphRequest& request, const std::vector<GraphStage>& stages) {
  double most = 0;
  for (size_t s = 0; s < stages.size(); ++s) {
    const GraphStage& stage = stages[s];
    const int r = stage.replicas;
    const double reduce = stage.parameter_bytes * AllReduceSeconds(r, request.bandwidth);
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
  if (request.replicate && int64_t{sets->size()} * request.devices > kMostCutsByDevices) {
    return absl::InvalidArgumentError(
        absl::StrCat("the graph can be cut in ", sets->size() - 2, " ways; give at most ",
                     kMostCutsByDevices / sets->size(), " devices, not ", request.devices));
  }
  Narrowing narrowing(request, *sets, StartOf(request, sets->size()));
  GraphPlan plan;
  plan.cuts = sets->size() - 2;
  plan.stages = narrowing.Run();
  if (plan.stages.empty()) return NothingFits(request, *sets);
  plan.bottleneck_seconds = GraphBottleneck(request, plan.stages);
  return plan;
}

}  // namespace sluice
