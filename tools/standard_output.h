#ifndef SLUICE_TOOLS_STANDARD_OUTPUT_H_
#define SLUICE_TOOLS_STANDARD_OUTPUT_H_

namespace sluice {

// From now on `stdout` and std::cout wait for a reader where their pipe or terminal is non-blocking,
// which another program that shares it may have made it: what did not fit was lost.
void WaitForReaders();

}  // namespace sluice

#endif  // SLUICE_TOOLS_STANDARD_OUTPUT_H_
