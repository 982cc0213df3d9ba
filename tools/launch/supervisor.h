#ifndef SLUICE_TOOLS_LAUNCH_SUPERVISOR_H_
#define SLUICE_TOOLS_LAUNCH_SUPERVISOR_H_

#include <string>
#include <vector>

#include "tools/launch/picture/launch_history.h"
#include "tools/launch/roster.h"

namespace sluice {

struct SuperviseRequest {
  RosterOptions roster;
  std::vector<std::string> arguments;  // of each process, the program's name first
  bool json = false;                   // events are printed to stdout, too
};

// Starts processes of this program on this machine, brings them together in groups (comm/membership),
// and replaces those that are lost, until the run is done; none outlives it. SIGINT, SIGTERM and SIGHUP
// end the run after its step, the second one at once; SIGUSR1 starts one process more, SIGUSR2 lets one
// leave. Returns the exit code; `history`, which may be null, then has what came of the run.
int Supervise(const SuperviseRequest& request, LaunchHistory* history = nullptr);

}  // namespace sluice

#endif  // SLUICE_TOOLS_LAUNCH_SUPERVISOR_H_
