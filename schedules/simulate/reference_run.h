#ifndef SLUICE_SCHEDULES_SIMULATE_REFERENCE_RUN_H_
#define SLUICE_SCHEDULES_SIMULATE_REFERENCE_RUN_H_

#include <cstdint>
#include <vector>

#include "schedules/dependency.h"
#include "schedules/simulate/stage_links.h"
#include "schedules/timetable.h"

namespace sluice {

// A run of a compute-only table in which F, I, W and RECOMPUTE take 1, B takes 2, a pair the sum of
// its halves, everything else 0, and messages take no time. Times are whole numbers, since only
// their order matters: they decide where messages stand in a lowered table.
class ReferenceRun {
 public:
  // Requires rows that are complete and in order.
  ReferenceRun(const Timetable& timetable, const std::vector<StageLinks>& links);

  // Whether every rank reached its end, so that no rows wait for each other.
  bool finished() const;

  // [rank][position]
  const std::vector<std::vector<int32_t>>& starts() const { return starts_; }
  // The time at which the result of `producer` (F, B or I) is available.
  int32_t MadeAt(const Action& producer) const {
    return (producer.op == Op::kForward ? activation_at_ : gradient_at_)[cell_(producer)];
  }
  // Moves that time to a later one.
  void PutOff(const Action& producer, int32_t time) {
    (producer.op == Op::kForward ? activation_at_ : gradient_at_)[cell_(producer)] = time;
  }

 private:
  struct Rank {
    int32_t clock = 0;
    size_t waits_for = SIZE_MAX;  // 2 * cell + whether for a gradient
  };
  void Advance(int rank);
  // The time at which `action` has its inputs; negative when they are not made yet.
  int32_t InputsAt(const Action& action, Rank& rank) const;
  void Finish(const Action& action, int32_t end);

  const Timetable& table_;
  const std::vector<StageLinks>& links_;
  const CellIndex cell_;
  std::vector<int32_t> activation_at_;
  std::vector<int32_t> gradient_at_;
  std::vector<Rank> ranks_;
  std::vector<int> queue_;
  std::vector<std::vector<int32_t>> starts_;
};

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_SIMULATE_REFERENCE_RUN_H_
