#ifndef SLUICE_TESTS_ALL_FAULTS_H_
#define SLUICE_TESTS_ALL_FAULTS_H_

#include <cstdlib>

namespace sluice {

// Whether SLUICE_LONG_FAULTS asks for all cases, in minutes, rather than for some, in seconds.
inline bool AllFaults() { return std::getenv("SLUICE_LONG_FAULTS") != nullptr; }

}  // namespace sluice

#endif  // SLUICE_TESTS_ALL_FAULTS_H_
