#ifndef SLUICE_TOOLS_LAUNCH_PICTURE_RUN_PICTURE_H_
#define SLUICE_TOOLS_LAUNCH_PICTURE_RUN_PICTURE_H_

#include <string>

#include "tools/launch/picture/launch_history.h"
#include "tools/launch/picture/quiet_run.h"

namespace sluice {

// An SVG of who was there, which rank it was, and when; of what was decided at each change; and of
// the loss by step, over that of `quiet` where that has steps.
std::string DrawRun(const LaunchHistory& history, const QuietRun& quiet);

}  // namespace sluice

#endif  // SLUICE_TOOLS_LAUNCH_PICTURE_RUN_PICTURE_H_
