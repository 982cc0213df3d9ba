#ifndef SLUICE_TOOLS_SAMPLE_PRINTABLE_TEXT_H_
#define SLUICE_TOOLS_SAMPLE_PRINTABLE_TEXT_H_

#include <cstdint>
#include <string>

namespace sluice {

// Turns any bytes into UTF-8 that is safe for a terminal: bytes that are not UTF-8, and control
// characters other than newline and tab (an escape sequence could do anything), become U+FFFD.
class PrintableText {
 public:
  // The text that can be shown once `byte` is known: empty in the middle of a character.
  std::string Feed(uint8_t byte);
  // The replacement for a character that was cut off at the end.
  std::string Finish();

 private:
  std::string pending_;  // the first bytes of a character
};

// All of `bytes` at once.
std::string ToPrintable(const std::string& bytes);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SAMPLE_PRINTABLE_TEXT_H_
