#include "tests/built_files.h"

namespace sluice {

std::string SluiceProgram() { return SLUICE_BINARY; }

std::string CommRankProgram() { return SLUICE_COMM_RANK; }

std::string SteppedClockLibrary() { return SLUICE_STEPPED_CLOCK; }

std::string HangingCallsLibrary() { return SLUICE_HANGING_CALLS; }

}  // namespace sluice
