#ifndef SLUICE_COMM_PRINTABLE_H_
#define SLUICE_COMM_PRINTABLE_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

// What another process, a file or a model wrote, which nobody has vouched for, as UTF-8 that is safe
// for a terminal: bytes that are not UTF-8, and control characters other than newline and tab (an
// escape sequence could do anything), become U+FFFD.
std::string ToPrintable(absl::string_view bytes);
// The same in one line: newlines and tabs become U+FFFD, too.
std::string ToPrintableLine(absl::string_view bytes);

// ToPrintable for bytes that come one by one.
class PrintableText {
 public:
  // The text that can be shown once `byte` is known: empty in the middle of a character.
  std::string Feed(uint8_t byte);
  // The replacement for a character that was cut off at the end.
  std::string Finish();
  bool between_characters() const { return pending_.empty(); }

 private:
  std::string pending_;  // the first bytes of a character
};

}  // namespace sluice

#endif  // SLUICE_COMM_PRINTABLE_H_
