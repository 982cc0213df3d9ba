#ifndef SLUICE_PARTITIONER_PLANNING_QUESTION_OTHER_TRAINERS_H_
#define SLUICE_PARTITIONER_PLANNING_QUESTION_OTHER_TRAINERS_H_

#include <string>

#include "absl/status/status.h"
#include "models/spec/optimizer_kind.h"
#include "partitioner/planning/question/question.h"

// What trainers other than sluice can run.
namespace sluice {

// What a run is to do besides its timetable.
struct AskedOfTrainer {
  bool graph = false;  // train a graph of operations
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  int zero = 0;
  bool mirror = false;
  int audit_every = 0;  // 0: never
};

// OK where `trainer` has all that is asked, and of sluice, which says elsewhere what it has not.
// InvalidArgument says what is missing, and what to give instead.
absl::Status CheckForTrainer(Trainer trainer, const AskedOfTrainer& asked);

// OK where Megatron-LM runs `schedule` on so many ranks: 1f1b; and interleaved, on 2 ranks at least
// and with micro-batches in whole groups of the ranks. InvalidArgument says what it has instead.
absl::Status CheckForMegatron(const std::string& schedule, int ranks, int micro_batches);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_QUESTION_OTHER_TRAINERS_H_
