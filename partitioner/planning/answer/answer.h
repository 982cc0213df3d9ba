#ifndef SLUICE_PARTITIONER_PLANNING_ANSWER_ANSWER_H_
#define SLUICE_PARTITIONER_PLANNING_ANSWER_ANSWER_H_

#include <string>

#include "absl/status/statusor.h"
#include "partitioner/machines.h"
#include "partitioner/planning/plan/plan.h"
#include "partitioner/planning/plan/plan_context.h"
#include "partitioner/planning/plan/plan_variant.h"
#include "partitioner/planning/question/progress.h"
#include "partitioner/planning/question/question.h"

namespace sluice {

// The answer to one question.
struct PlanAnswer {
  Plan plan;
  PlanContext context;
  PlanVariants variants;

  // Of layers alone; a graph brings its costs along, and its devices are alike.
  Machines machines;   // of the way to use the devices that was chosen, with the layers' costs
  std::string device;  // "h200"
  std::string costs;   // where the seconds come from, for people
  int settings_tried = 0, settings_in_all = 0;
  bool completed = true;   // false: the time was over before the bytes of a run were counted
  bool runs_here = false;  // PlanSource::runs_here: times and bytes are those of sluice's own runs
};

// The best plan that `question` allows. `progress` is called now and then, from this thread; it may
// be empty. InvalidArgument or Unimplemented names the flags that do not fit together or to the
// model; FailedPrecondition when nothing fits in memory; DeadlineExceeded when the time ended
// before anything was found; ResourceExhausted when a graph has too many cuts.
absl::StatusOr<PlanAnswer> AnswerQuestion(const PlanQuestion& question,
                                          const ProgressCallback& progress);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_ANSWER_ANSWER_H_
