#ifndef SLUICE_PARTITIONER_MEMORY_FEASIBLE_H_
#define SLUICE_PARTITIONER_MEMORY_FEASIBLE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "partitioner/memory/in_flight.h"
#include "partitioner/partition_problem.h"

namespace sluice {

// What fits into memory, for one problem. Pointers stay the caller's.
class Feasible {
 public:
  // Requires a problem that validates.
  explicit Feasible(const PartitionProblem& problem);

  const InFlight& in_flight() const { return *in_flight_; }

  // Bytes that the stage's rank needs with this stage alone; all of it where a rank has one stage.
  int64_t StageBytes(int stage, const RangeCost& cost) const;
  // The policies worth trying for a stage of layers first..end - 1, fastest first: those that fit
  // with the stage alone on its rank, less those that another beats in time and bytes. With one
  // stage per rank, the fastest alone is enough.
  std::vector<Recompute> Policies(int stage, int first, int end) const;
  // Elementary steps of one Fits(), for search budgets.
  int64_t check_steps() const { return check_steps_; }
  // Whether every rank fits.
  bool Fits(const std::vector<RangeCost>& stages) const;
  // The largest rank's bytes.
  int64_t LargestBytes(const std::vector<RangeCost>& stages) const;
  // `partition` with, at each stage, the first of Policies(); nullopt where there is none or the
  // ranks do not fit.
  std::optional<StageAssignment> WithFastestPolicies(const Partition& partition) const;

  // An assignment whose largest rank needs few bytes: the fewest there are where a rank has one
  // stage (exact), a local optimum where it has several.
  StageAssignment LeastMemory() const;

 private:
  bool one_stage_a_rank() const { return problem_.timetable->placement.chunks() == 1; }
  // What a stage alone on its rank holds at a moment: its own counts of InFlight's moments.
  struct Alone {
    int activations = 0, weight_grads = 0;
    bool working = false, forward = false;  // of what works, whether it is an F
    friend bool operator==(const Alone&, const Alone&) = default;
  };
  void ListAlone(int stage);
  int64_t MemoryOf(int stage) const {
    return problem_.machines.MemoryOf(problem_.timetable->placement.rank(stage));
  }
  Recompute LeanestPolicy(int stage, int first, int end, int64_t* bytes) const;
  StageAssignment WithLeanestPolicies(const Partition& partition) const;
  // Moves boundaries by a layer while that makes the fullest rank less full.
  void MoveBoundaries(StageAssignment* best) const;

  PartitionProblem problem_;
  std::shared_ptr<const InFlight> in_flight_;
  std::vector<std::vector<Alone>> alone_;  // [stage]
  int64_t check_steps_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_MEMORY_FEASIBLE_H_
