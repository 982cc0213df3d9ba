#ifndef SLUICE_TOOLS_PLAN_PROGRESS_LINE_H_
#define SLUICE_TOOLS_PLAN_PROGRESS_LINE_H_

#include "partitioner/planning/progress.h"

namespace sluice {

// One line that rewrites itself where stderr is a terminal, and is gone afterwards.
class ProgressLine {
 public:
  ~ProgressLine();
  void Show(const PlanProgress& progress);

 private:
  bool shown_ = false;
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_PROGRESS_LINE_H_
