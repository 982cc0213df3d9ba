#ifndef SLUICE_TESTS_FUZZ_READERS_H_
#define SLUICE_TESTS_FUZZ_READERS_H_

#include "absl/strings/string_view.h"

// What the fuzzers feed with any bytes. Each reads them as `sluice schedule` would, takes what it
// got through every step that takes it, and aborts when a promise is broken.
namespace sluice {

// Any text is refused with a place in it, or is a table that comes back from its own CSV; a sound
// one can be lowered, and takes the same time lowered and not.
void TryTimetableCsv(absl::string_view text);

// Any text is refused with a place in it, or is costs that a table can be simulated with.
void TryCostsJson(absl::string_view text);

}  // namespace sluice

#endif  // SLUICE_TESTS_FUZZ_READERS_H_
