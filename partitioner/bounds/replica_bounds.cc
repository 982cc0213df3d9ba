#include "partitioner/bounds/replica_bounds.h"

#include <algorithm>
#include <cstddef>

#include "partitioner/costs/collectives.h"

namespace sluice {

ReplicaBounds::ReplicaBounds(const ReplicaProblem& problem)
    : problem_(problem), work_(*problem.work) {
  for (const Timetable& table : problem_.wide) fused_ = fused_ && !table.splits_backward();
  for (int r = 1; r <= std::min(problem_.devices, problem_.micro_batches); ++r) {
    if (problem_.micro_batches % r == 0) divisors_.push_back(r);
  }
  if (!problem_.machines.limits_memory()) return;
  memory_ = static_cast<double>(problem_.machines.least_memory());
  CountInFlight();
}

// What a replica keeps follows from the row of the stage's first device and the replicas alone.
void ReplicaBounds::CountInFlight() {
  const auto none = static_cast<size_t>(problem_.devices) + 1;
  least_in_flight_.assign(none, std::vector<int>(none, problem_.micro_batches));
  std::vector<int> held;
  for (const Timetable& table : problem_.wide) {
    for (int rank = 0; rank < problem_.devices; ++rank) {
      for (const int r : divisors_) {
        held.assign(static_cast<size_t>(r), 0);
        int most = 0;
        for (const Action& action : table.rows[rank]) {
          if (!IsCompute(action.op)) continue;
          int& of_replica = held[static_cast<size_t>(action.micro_batch % r)];
          if (action.op == Op::kForward) most = std::max(most, ++of_replica);
          if (action.op == Op::kBackward || action.op == Op::kWeightGrad) --of_replica;
        }
        int& least = least_in_flight_[rank][r];
        least = std::min(least, most);
      }
    }
  }
}

double ReplicaBounds::SendSeconds(int set) const {
  if (set == 0 || set == work_.whole()) return 0;
  return problem_.machines.link.latency +
         work_.sets.cut_bytes(set) / problem_.machines.link.bandwidth;
}

double ReplicaBounds::ReduceSeconds(int from, int to, int replicas) const {
  const double bytes = work_.sets.parameter_bytes(to) - work_.sets.parameter_bytes(from);
  return CollectiveSeconds(Collective::kAllReduce, bytes, replicas, problem_.machines.link);
}

ReplicaStageBounds ReplicaBounds::BoundsOf(int from, int to, int replicas) const {
  const int each = problem_.micro_batches / replicas;
  const int whole = work_.whole();
  const double f = work_.forward[to] - work_.forward[from];
  const double b = work_.backward[to] - work_.backward[from];
  const double share = fused_ ? 1 : 0.5;  // of a backward, what others wait for
  const double there = work_.forward[from] + SendSeconds(from);
  const double back = share * work_.backward[from] + SendSeconds(from);
  return {.there = there + each * (f + b) + ReduceSeconds(from, to, replicas),
          .back = there + each * (f + share * b) + back,
          .through = work_.forward[whole] + share * work_.backward[whole] +
                     2 * (SendSeconds(from) + SendSeconds(to)) +
                     (each - 1) * std::max(f, share * b)};
}

double ReplicaBounds::StageBound(int from, int to, int replicas) const {
  const ReplicaStageBounds bounds = BoundsOf(from, to, replicas);
  return std::max({bounds.there, bounds.back, bounds.through});
}

bool ReplicaBounds::StageFits(int from, int to, int in_flight) const {
  if (!problem_.machines.limits_memory()) return true;
  const Downsets& sets = work_.sets;
  const double parameters = sets.parameter_bytes(to) - sets.parameter_bytes(from);
  const double activations = sets.activation_bytes(to) - sets.activation_bytes(from);
  return 4 * parameters + in_flight * activations <= memory_;
}

bool ReplicaBounds::CanFit(int from, int to, int before, int replicas) const {
  return least_in_flight_.empty() || StageFits(from, to, least_in_flight_[before][replicas]);
}

}  // namespace sluice
