#ifndef SLUICE_TOOLS_PLAN_PROGRESS_LINE_H_
#define SLUICE_TOOLS_PLAN_PROGRESS_LINE_H_

#include "partitioner/planning/question/progress.h"

namespace sluice {

// One line on stderr that replaces itself where stderr is a terminal, and is erased at the end.
class ProgressLine {
 public:
  ~ProgressLine();
  void Show(const PlanProgress& progress);

 private:
  bool shown_ = false;
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_PROGRESS_LINE_H_
