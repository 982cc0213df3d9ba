#ifndef SLUICE_SCHEDULES_SUM_ORDER_H_
#define SLUICE_SCHEDULES_SUM_ORDER_H_

#include <string>
#include <vector>

#include "schedules/timetable.h"

namespace sluice {

// The order in which stages add up the weight gradients of a step's micro-batches. A sum of
// floating-point numbers depends on it, so it must be one for all stages: then the bits do not
// depend on which rank or stage a layer is in. All generators have ascending micro-batches; an
// imported timetable may have another order (PyTorch's LoopedBFS goes backward in descending
// order), and trains to other bits.
class SumOrder {
 public:
  // The order of the stages of `timetable`, where all have the same one, with each micro-batch once.
  // Ascending where stages differ (CheckRows then names the stage), where the timetable holds several
  // copies of the model, and where it is asynchronous. Linear in the number of actions.
  static SumOrder Of(const Timetable& timetable);

  bool ascending() const { return micro_batches_.empty(); }
  // The position of a micro-batch in the order, from 0; and the micro-batch at a position.
  int position(int micro_batch) const {
    return ascending() ? micro_batch : positions_[static_cast<size_t>(micro_batch)];
  }
  int micro_batch(int position) const {
    return ascending() ? position : micro_batches_[static_cast<size_t>(position)];
  }
  // For people: "ascending", "descending", or the micro-batches with commas between them.
  std::string ToString() const;

 private:
  SumOrder() = default;
  // Both empty when ascending.
  std::vector<int> micro_batches_;  // [position]
  std::vector<int> positions_;      // [micro-batch]
};

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_SUM_ORDER_H_
