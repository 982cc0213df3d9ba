#include "partitioner/graph_partition.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "partitioner/describe_memory.h"
#include "partitioner/downsets.h"
#include "partitioner/graph_search.h"

namespace sluice {
namespace {

constexpr int64_t kMostCuts = 4'000'000;
constexpr double kNear = GraphSearch::kNear;
// The first stride upwards from a bound, of the bound.
constexpr double kFirstStride = 0.01;
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

// Narrows the least bottleneck down: a partition found gives its own, a search without one the
// least of all that did not fit.
std::vector<GraphStage> LeastBottleneckStages(const GraphRequest& request, const Downsets& sets,
                                              GraphSearch* search) {
  double low = LeastBottleneck(request, sets), high = MostBottleneck(request, sets);
  std::vector<GraphStage> best;
  const auto improve = [&](double limit) {
    std::optional<std::vector<GraphStage>> stages = search->Within(limit, request.memory);
    if (!stages) {
      low = search->next_seconds();
      return;
    }
    high = std::min(limit, GraphBottleneck(request, *stages));
    best = *std::move(stages);
  };
  // Upwards at first, in longer and longer strides: often the bound itself can be met, and a search
  // takes the longer the higher its limit.
  const double first = kFirstStride * (low > 0 ? low : high);
  for (double stride = 0; best.empty(); stride = std::max(2 * stride, first)) {
    improve(std::min(low * (1 + kNear) + stride, high));
  }
  while (high - low > kNear * high) improve(low + (high - low) / 2);
  return best;
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
absl::Status NothingFits(const GraphRequest& request, GraphSearch* search) {
  double low = search->next_bytes(), high = GraphSearch::kInfinity;
  std::vector<GraphStage> best;
  const auto less = [](const GraphStage& a, const GraphStage& b) {
    return a.peak_bytes() < b.peak_bytes();
  };
  for (double limit = GraphSearch::kInfinity; high - low > kByte; limit = low + (high - low) / 2) {
    std::optional<std::vector<GraphStage>> stages = search->Within(GraphSearch::kInfinity, limit);
    if (!stages) {
      low = search->next_bytes();
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
  GraphSearch search(request, *sets);
  if (std::isfinite(request.memory) && !search.Within(GraphSearch::kInfinity, request.memory)) {
    return NothingFits(request, &search);
  }
  GraphPlan plan;
  plan.cuts = sets->size() - 2;
  plan.stages = LeastBottleneckStages(request, *sets, &search);
  plan.bottleneck_seconds = GraphBottleneck(request, plan.stages);
  return plan;
}

}  // namespace sluice
