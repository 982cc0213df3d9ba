#ifndef SLUICE_COMM_PRINTABLE_H_
#define SLUICE_COMM_PRINTABLE_H_

#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"

namespace sluice {

// What another process wrote, which nobody has vouched for, in one line that is safe for a
// terminal: each byte that is no printable ASCII character is a question mark.
inline std::string Printable(std::string text) {
  for (char& letter : text) {
    if (!absl::ascii_isprint(static_cast<uint8_t>(letter))) letter = '?';
  }
  return text;
}

}  // namespace sluice

#endif  // SLUICE_COMM_PRINTABLE_H_
