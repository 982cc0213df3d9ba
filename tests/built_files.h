#ifndef SLUICE_TESTS_BUILT_FILES_H_
#define SLUICE_TESTS_BUILT_FILES_H_

#include <string>

namespace sluice {

// Absolute paths of files that this build made, and that tests run or load.

// The program `sluice`.
std::string SluiceProgram();

// One rank as a program (tests/comm/faults/comm_rank.cc).
std::string CommRankProgram();

// The library that sets a process's wall clock (tests/comm/faults/stepped_clock.cc), for
// LD_PRELOAD.
std::string SteppedClockLibrary();

// The library that makes functions of others hang (tests/faults/hanging_calls.cc), for LD_PRELOAD.
std::string HangingCallsLibrary();

}  // namespace sluice

#endif  // SLUICE_TESTS_BUILT_FILES_H_
