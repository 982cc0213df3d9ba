#ifndef SLUICE_TOOLS_SAMPLE_PRINTABLE_TEXT_H_
#define SLUICE_TOOLS_SAMPLE_PRINTABLE_TEXT_H_

#include <cstdint>
#include <string>

namespace sluice {

// Turns bytes, as they come, into UTF-8 that a terminal can be given: bytes that are not UTF-8, and
// control characters besides newline and tab (an escape sequence could do anything), become U+FFFD.
class PrintableText {
 public:
  // What can be shown once `byte` is known: nothing in the middle of a character.
  std::string Feed(uint8_t byte);
  // What is left of a character that was cut off.
  std::string Finish();

 private:
  std::string pending_;  // the first bytes of a character
};

// `bytes` in one go.
std::string ToPrintable(const std::string& bytes);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SAMPLE_PRINTABLE_TEXT_H_
