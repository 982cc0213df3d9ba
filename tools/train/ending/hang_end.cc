#include "tools/train/ending/hang_end.h"

#include <unistd.h>

#include <cstdio>
#include <thread>

#include "absl/time/clock.h"
#include "models/device/out_of_memory.h"
#include "tools/command.h"
#include "tools/train/ending/elastic_error.h"

namespace sluice {
namespace {

// For messages to the other ranks that are on their way, and for the threads that print.
constexpr absl::Duration kOutputGrace = absl::Milliseconds(200);

}  // namespace

void EndHungProcess(const Hang& hang, bool print) {
  const int exit_code = ExitCodeOf(hang.status);
  // The thread that hangs may have the lock of an output, or the output's reader may be what hangs.
  std::thread speaker;
  const auto speak = [status = hang.status, print] {
    TellElasticAgent(status, ProcessEnvironment());
    if (print) PrintError(status);
    std::fflush(nullptr);
  };
  if (StartThread("printing an error", speak, &speaker).ok()) speaker.detach();
  absl::SleepFor(kOutputGrace);
  _exit(exit_code);
}

}  // namespace sluice
