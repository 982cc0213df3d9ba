// What libFuzzer does with the inputs of the readers of JSON beside its own mutations, which know
// nothing of pairs of brackets and so hardly ever nest a value deep.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string_view>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace {

constexpr unsigned kOneIn = 16;  // mutations nests
constexpr size_t kFew = 64;      // levels, as often as many

// Puts lists around a value after a random place; 0 where there is none, or no room.
size_t Nest(uint8_t* data, size_t size, size_t most, std::minstd_rand& random) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t before = size > 0 ? text.find_first_of(":,[", random() % size) : text.npos;
  const size_t room = (most - std::min(size, most)) / 2;
  if (before == text.npos || room == 0) return 0;
  const size_t begin = before + 1;
  const size_t end = std::min(text.find_first_of(",]}", begin), size);
  const size_t levels = 1 + random() % (random() % 2 == 0 ? std::min(room, kFew) : room);
  std::memmove(data + end + 2 * levels, data + end, size - end);
  std::memmove(data + begin + levels, data + begin, end - begin);
  std::memset(data + begin, '[', levels);
  std::memset(data + end + levels, ']', levels);
  return size + 2 * levels;
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  std::minstd_rand random(seed);
  if (random() % kOneIn == 0) {
    if (const size_t nested = Nest(data, size, most, random); nested > 0) return nested;
  }
  return LLVMFuzzerMutate(data, size, most);
}
