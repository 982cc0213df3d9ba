#include "models/tokens/byte_characters.h"

#include <array>

#include "models/tokens/text/unicode.h"

namespace sluice {
namespace {

constexpr int kBytes = 256;
constexpr int kCharacters = 512;  // the alphabet's are below

bool IsPrinted(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, kBytes> characters = {};
  std::array<int, kCharacters> bytes = {};  // [character]; -1: none

  Alphabet() {
    bytes.fill(-1);
    char32_t next = kBytes;
    for (int byte = 0; byte < kBytes; ++byte) {
      characters[byte] = IsPrinted(byte) ? static_cast<char32_t>(byte) : next++;
      bytes[characters[byte]] = byte;
    }
  }
};

const Alphabet& TheAlphabet() {
  static const Alphabet& alphabet = *new Alphabet;
  return alphabet;
}

}  // namespace

char32_t CharacterOfByte(uint8_t byte) { return TheAlphabet().characters[byte]; }

bool BytesOfWord(absl::string_view word, std::string* bytes) {
  const size_t before = bytes->size();
  for (size_t at = 0; at < word.size();) {
    const char32_t character = NextCodePoint(word, &at);
    const int byte = character < kCharacters ? TheAlphabet().bytes[character] : -1;
    if (byte < 0) {
      bytes->resize(before);
      return false;
    }
    bytes->push_back(static_cast<char>(byte));
  }
  return true;
}

}  // namespace sluice
