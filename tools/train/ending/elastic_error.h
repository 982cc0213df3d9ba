#ifndef SLUICE_TOOLS_TRAIN_ENDING_ELASTIC_ERROR_H_
#define SLUICE_TOOLS_TRAIN_ENDING_ELASTIC_ERROR_H_

#include "absl/status/status.h"
#include "comm/launch.h"

namespace sluice {

// The variable by which torchrun's agent names a file, of this process alone, in which a process that
// fails may say why. The agent shows the earliest of these as the root cause, prints its message, and
// hands it on to its own TORCHELASTIC_ERROR_FILE.
inline constexpr char kElasticErrorFile[] = "TORCHELASTIC_ERROR_FILE";

// Says in that file, if there is one, that this process ends with `status`: the message that a person
// reads, and as facts the time, the exit code, and rank, stage, micro-batch, action, step and lost
// rank where they are known. The form is that of torch.distributed.elastic.multiprocessing.errors
// (ErrorHandler.record_exception). A file that cannot be written is a notice on stderr.
void TellElasticAgent(const absl::Status& status, const Environment& environment);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_ENDING_ELASTIC_ERROR_H_
