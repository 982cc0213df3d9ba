// The entry point of libFuzzer; SLUICE_FUZZ_READER is the reader that this binary feeds.
#include <cstddef>
#include <cstdint>

#include "readers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::SLUICE_FUZZ_READER({reinterpret_cast<const char*>(data), size});
  return 0;
}
