#ifndef SLUICE_TOOLS_TRAIN_RUNNING_MEMBER_TRAINER_H_
#define SLUICE_TOOLS_TRAIN_RUNNING_MEMBER_TRAINER_H_

#include "absl/status/statusor.h"
#include "comm/membership/member.h"
#include "tools/train/train_question.h"
#include "tools/train/train_world.h"

namespace sluice {

// Trains as one of the processes that `sluice launch` has started: in one group of ranks after the
// other, keeping what it holds, until the run is done. Returns the exit code. Errors go to the
// supervisor, which prints one of them.
int TrainAsMember(const absl::StatusOr<TrainQuestion>& question, const WorldFlags& world,
                  Member* member);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_RUNNING_MEMBER_TRAINER_H_
