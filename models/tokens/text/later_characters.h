#ifndef SLUICE_MODELS_TOKENS_TEXT_LATER_CHARACTERS_H_
#define SLUICE_MODELS_TOKENS_TEXT_LATER_CHARACTERS_H_

namespace sluice {

// For a character that Unicode 15.0, 15.1 or 16.0 added (or gave another general category): one of
// Unicode 14 with the same general category and as many bytes in UTF-8, a Han character for a Han
// character. Any other character stands for itself.
char32_t StandInOf(char32_t code_point);

// The lower case of a capital letter that Unicode 16.0 or 17.0 added or gave one; any other
// character itself.
char32_t LaterLowercaseOf(char32_t code_point);

// Whether Unicode 17.0 added it as a number.
bool IsNumberOfUnicode17(char32_t code_point);

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_TEXT_LATER_CHARACTERS_H_
