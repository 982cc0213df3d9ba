#ifndef SLUICE_MODELS_TOKENS_BYTE_CHARACTERS_H_
#define SLUICE_MODELS_TOKENS_BYTE_CHARACTERS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

// The alphabet of byte-level vocabularies: each byte has a character that can be printed, in which
// the words of the vocabulary are written ("Ġthe" for " the"). GPT-2's bytes_to_unicode,
// https://github.com/openai/gpt-2/blob/master/src/encoder.py: a byte that Latin-1 prints is that
// character; the others are U+0100, U+0101 and so on, in the order of the bytes.
namespace sluice {

char32_t CharacterOfByte(uint8_t byte);

// Appends the bytes of `word` to `*bytes`; false, and nothing is appended, where it has a character
// outside the alphabet.
bool BytesOfWord(absl::string_view word, std::string* bytes);

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_BYTE_CHARACTERS_H_
