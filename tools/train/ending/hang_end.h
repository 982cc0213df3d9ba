#ifndef SLUICE_TOOLS_TRAIN_ENDING_HANG_END_H_
#define SLUICE_TOOLS_TRAIN_ENDING_HANG_END_H_

#include "pipeline/watch/hang.h"

namespace sluice {

// Ends the process, of which a rank hangs: a thread that hangs can be neither ended nor joined. The
// exit code is that of the hang's status. `print`: whether this process is the one that prints the
// error. Takes a moment, in which the other ranks learn of the error and what was printed is read,
// but never longer, whatever else hangs.
[[noreturn]] void EndHungProcess(const Hang& hang, bool print);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_ENDING_HANG_END_H_
