#ifndef SLUICE_PARTITIONER_MEMORY_IN_FLIGHT_H_
#define SLUICE_PARTITIONER_MEMORY_IN_FLIGHT_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "partitioner/cuts/cost_table.h"
#include "schedules/timetable.h"

namespace sluice {

// What a call of a stage needs besides what is in flight: of an F, or at most, of any.
inline int64_t Workspace(const RangeCost& cost, bool forward) {
  return forward ? cost.forward_workspace_bytes : cost.workspace_bytes;
}

// How many micro-batches a timetable keeps in flight, per rank and chunk. A rank runs its row in
// order, so its memory follows from the order alone, whatever the actions cost: only the counts at
// the row's fullest moments matter.
class InFlight {
 public:
  // The counts of one rank at one moment, by chunk of the rank.
  struct Moment {
    std::vector<int>
        activations;  // (stage, micro-batch) pairs from the start of F to the end of B (or I)
    std::vector<int> weight_grads;  // pairs from the end of I to the end of W
    int working = -1;  // the chunk whose F, B or I runs, and needs its workspace; -1: none of these
    bool forward = false;  // whether it is F

    friend bool operator==(const Moment&, const Moment&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Moment& moment) {
      return H::combine(std::move(h), moment.activations, moment.weight_grads, moment.working,
                        moment.forward);
    }
  };

  // Requires a compute-only timetable that validates.
  explicit InFlight(const Timetable& timetable);

  // The moments of `rank` that no other dominates.
  const std::vector<Moment>& moments(int rank) const { return moments_[rank]; }
  int ranks() const { return static_cast<int>(stages_.size()); }
  const std::vector<int>& stages(int rank) const { return stages_[rank]; }
  // Most micro-batches of `stage` in flight at once.
  int peak(int stage) const { return peak_[stage]; }
  // Bytes that `rank` needs at its fullest, with `costs` by chunk of the rank: parameters,
  // everything in flight, the workspace of what runs. Chunks left out at the end count as empty.
  int64_t PeakBytes(int rank, absl::Span<const RangeCost> costs) const;

 private:
  void Scan(const Timetable& timetable, int rank);
  // Adds `moment` to those kept, unless one of them dominates it.
  void Keep(int rank, const Moment& moment);

  std::vector<std::vector<Moment>> moments_;
  std::vector<std::vector<int>> stages_;
  std::vector<int> peak_;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_MEMORY_IN_FLIGHT_H_
