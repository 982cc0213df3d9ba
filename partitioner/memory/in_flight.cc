#include "partitioner/memory/in_flight.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace sluice {
namespace {

bool AllAtMost(const std::vector<int>& a, const std::vector<int>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](int x, int y) { return x <= y; });
}

bool Dominates(const InFlight::Moment& big, const InFlight::Moment& small) {
  const bool works_as_much = small.working == big.working && (small.forward || !big.forward);
  return (small.working < 0 || works_as_much) && AllAtMost(small.activations, big.activations) &&
         AllAtMost(small.weight_grads, big.weight_grads);
}

// W's work areas are small, and are in use when I's tensors are on their way out.
bool NeedsWorkspace(Op op) {
  return op == Op::kForward || op == Op::kBackward || op == Op::kInputGrad;
}

// What ends with `action`: its activations, or what its W used. Returns whether anything more is
// held afterwards.
bool Finish(const Action& action, int chunk, InFlight::Moment* held) {
  switch (action.op) {
    case Op::kBackward:
      --held->activations[chunk];
      return false;
    case Op::kInputGrad:
      --held->activations[chunk];
      ++held->weight_grads[chunk];
      return true;
    case Op::kWeightGrad:
      --held->weight_grads[chunk];
      return false;
    default:
      return false;
  }
}

}  // namespace

InFlight::InFlight(const Timetable& timetable)
    : moments_(timetable.placement.ranks()), peak_(timetable.placement.stages()) {
  for (int rank = 0; rank < timetable.placement.ranks(); ++rank) {
    stages_.push_back(timetable.placement.StagesOf(rank));
    Scan(timetable, rank);
  }
}

void InFlight::Scan(const Timetable& timetable, int rank) {
  const std::vector<int>& stages = stages_[rank];
  std::vector<int> chunk_of(timetable.placement.stages(), -1);
  for (size_t chunk = 0; chunk < stages.size(); ++chunk) {
    chunk_of[stages[chunk]] = static_cast<int>(chunk);
  }
  Moment held{std::vector<int>(stages.size()), std::vector<int>(stages.size())};
  const std::vector<Action>& row = timetable.rows[rank];
  // Rows repeat themselves, and so do their moments.
  absl::flat_hash_set<Moment> seen;
  const auto note = [&](int working, bool forward) {
    held.working = working;
    held.forward = forward;
    if (seen.insert(held).second) Keep(rank, held);
  };
  for (size_t begin = 0; begin < row.size();) {
    // An overlapped pair starts together: both hold their bytes before either lets go.
    size_t end = begin;
    while (row[end].overlaps_next && end + 1 < row.size()) ++end;
    ++end;
    for (size_t i = begin; i < end; ++i) {
      if (row[i].op == Op::kForward) ++held.activations[chunk_of[row[i].stage]];
    }
    for (size_t i = begin; i < end; ++i) {
      if (NeedsWorkspace(row[i].op)) note(chunk_of[row[i].stage], row[i].op == Op::kForward);
    }
    for (size_t i = begin; i < end; ++i) {
      if (IsCompute(row[i].op) && Finish(row[i], chunk_of[row[i].stage], &held)) {
        note(-1, false);
      }
    }
    begin = end;
  }
}

void InFlight::Keep(int rank, const Moment& moment) {
  std::vector<Moment>& kept = moments_[rank];
  for (const Moment& other : kept) {
    if (Dominates(other, moment)) return;
  }
  std::erase_if(kept, [&](const Moment& other) { return Dominates(moment, other); });
  kept.push_back(moment);
  for (size_t chunk = 0; chunk < moment.activations.size(); ++chunk) {
    int& peak = peak_[stages_[rank][chunk]];
    peak = std::max(peak, moment.activations[chunk]);
  }
}

int64_t InFlight::PeakBytes(int rank, absl::Span<const RangeCost> costs) const {
  int64_t most = 0;
  for (const Moment& moment : moments_[rank]) {
    const bool working = moment.working >= 0 && moment.working < static_cast<int>(costs.size());
    int64_t bytes = working ? Workspace(costs[moment.working], moment.forward) : 0;
    for (size_t chunk = 0; chunk < costs.size(); ++chunk) {
      bytes += moment.activations[chunk] * costs[chunk].activation_bytes +
               moment.weight_grads[chunk] * costs[chunk].weight_grad_bytes;
    }
    most = std::max(most, bytes);
  }
  return ParameterBytes(costs) + most;
}

}  // namespace sluice
