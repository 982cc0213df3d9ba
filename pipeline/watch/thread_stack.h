#ifndef SLUICE_PIPELINE_WATCH_THREAD_STACK_H_
#define SLUICE_PIPELINE_WATCH_THREAD_STACK_H_

#include <sys/types.h>

#include <string>

#include "absl/time/time.h"

namespace sluice {

// To be called once before StackOf may be: loads what a signal's handler cannot load.
void PrepareForStacks();

// The functions in which another thread of this process is, innermost first, in one line:
// "read < sluice::Corpus::Fill() < sluice::Executor::Load()". The thread is asked by a signal,
// which breaks off a system call that cannot be restarted: only for a thread that is given up.
// Where it does not answer within `patience`, what the kernel says of it instead.
std::string StackOf(pid_t thread, absl::Duration patience);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_WATCH_THREAD_STACK_H_
