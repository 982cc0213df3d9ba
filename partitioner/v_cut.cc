#include "partitioner/v_cut.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "partitioner/least_layer.h"

namespace sluice {
namespace {

constexpr int kChunks = 2;
// How much longer than its least the work of the fullest rank may be, and in which steps it is
// tried.
constexpr double kMostOverLeast = 1.1;
constexpr double kNextMost = 1.005;
constexpr double kRounding = 1e-9;

// Of layers first..end - 1, the seconds of `front` from the front and the rest of `count` from the
// back; `before` are sums of seconds.
double WorkOf(const std::vector<double>& before, int first, int end, int front, int count) {
  return before[first + front] - before[first] + before[end] - before[end - (count - front)];
}

// How many of them come from the front, so that about `share` of the work does; where that is open,
// fewer, since more is in flight there.
int FrontOf(const std::vector<double>& before, int first, int end, int count, double share) {
  int best = 1;
  double least = 0;
  for (int front = 1; front < count; ++front) {
    const double here = before[first + front] - before[first];
    const double apart = std::abs(share * WorkOf(before, first, end, front, count) - here);
    if (front > 1 && apart >= least * (1 - kRounding)) continue;
    best = front;
    least = apart;
  }
  return best;
}

double WorkOf(const RangeCost& stage) {
  return stage.forward + stage.input_grad + stage.weight_grad;
}

}  // namespace

Partition FullRanksFirst(const std::vector<double>& work, int ranks, double most,
                         double front_share) {
  std::vector<double> before = {0};  // [layer] seconds of the layers before it
  for (double seconds : work) before.push_back(before.back() + seconds);
  Partition down, up;
  int first = 0, end = static_cast<int>(work.size());  // of the layers that are left
  for (int left = ranks; left > 0; --left) {
    for (int count = (end - first + left - 1) / left;; --count) {
      if (count < kChunks) return {};
      const int front = FrontOf(before, first, end, count, front_share);
      if (WorkOf(before, first, end, front, count) > most) continue;
      down.push_back({first, first + front - 1});
      up.push_back({end - (count - front), end - 1});
      first += front;
      end -= count - front;
      break;
    }
  }
  if (first != end) return {};
  std::move(up.rbegin(), up.rend(), std::back_inserter(down));
  return down;
}

Partition LeastFullRanksFirst(const PlanRequest& request, double front_share) {
  std::vector<double> work;
  double all = 0;
  for (const LayerCost& layer : request.costs->layers()) {
    work.push_back(layer.forward_seconds + layer.input_grad_seconds + layer.weight_grad_seconds);
    all += work.back();
  }
  const double least = std::max(all / request.devices, FullestRank(work, request.devices).sum);
  for (double most = least; most < least * kMostOverLeast; most *= kNextMost) {
    Partition partition =
        FullRanksFirst(work, request.devices, most * (1 + kRounding), front_share);
    if (!partition.empty()) return partition;
  }
  return {};
}

std::vector<Recompute> RecomputeInSpareTime(const CostTable& costs, const Partition& partition,
                                            Recompute everywhere, Recompute in_spare_time) {
  const size_t ranks = partition.size() / kChunks;
  std::vector<Recompute> recompute(partition.size(), everywhere);
  const auto work_of = [&](size_t rank, Recompute first) {
    const LayerRange& down = partition[rank];
    const LayerRange& up = partition[partition.size() - 1 - rank];
    return WorkOf(costs.Price(down.first, down.last + 1, first)) +
           WorkOf(costs.Price(up.first, up.last + 1, everywhere));
  };
  double fullest = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    fullest = std::max(fullest, work_of(rank, everywhere));
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    if (work_of(rank, in_spare_time) <= fullest) recompute[rank] = in_spare_time;
  }
  return recompute;
}

}  // namespace sluice
