#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "tests/models/kernels/kernels_under_test.h"
#include "tests/models/kernels/reachable.h"

namespace sluice {
namespace {

using Bytes = Reachable<char>;

// More than a block of a GPU hashes, and parts of its words.
constexpr size_t kSizes[] = {0, 1, 2, 7, 8, 9, 100, 4096, 65'535, 65'536, 65'544, 300'002};

std::vector<uint64_t> HashesOf(const std::vector<HashedTensor>& tensors) {
  Reachable<uint64_t> parts(tensors.size() * static_cast<size_t>(kHashParts), ~uint64_t{0});
  Reachable<uint64_t> hashes(tensors.size(), ~uint64_t{0});
  KernelsUnderTest().hash({}, tensors, parts.data(), hashes.data());
  return {hashes.begin(), hashes.end()};
}

uint64_t HashOf(const Bytes& bytes, size_t from = 0) {
  return HashesOf(
      {{.data = bytes.data() + from, .bytes = static_cast<int64_t>(bytes.size() - from)}})[0];
}

Bytes RandomBytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(size);
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

TEST(HashTest, EqualBytesHaveEqualHashesWhereverTheyLie) {
  for (const size_t size : kSizes) {
    const Bytes bytes = RandomBytes(size, 1);
    for (const size_t from : {1, 2, 4, 8}) {
      Bytes moved(from, 'x');
      moved.insert(moved.end(), bytes.begin(), bytes.end());
      EXPECT_EQ(HashOf(moved, from), HashOf(bytes)) << size << " bytes at " << from;
    }
  }
}

TEST(HashTest, ABitThatIsFlippedIsSeen) {
  std::mt19937_64 random(2);
  for (const size_t size : kSizes) {
    if (size == 0) continue;
    Bytes bytes = RandomBytes(size, 3);
    const uint64_t hash = HashOf(bytes);
    for (int trial = 0; trial < 20; ++trial) {
      const size_t at = trial == 0 ? size - 1 : random() % size;
      const auto bit = static_cast<char>(1U << (random() % 8));
      bytes[at] = static_cast<char>(bytes[at] ^ bit);
      EXPECT_NE(HashOf(bytes), hash) << at << " of " << size;
      bytes[at] = static_cast<char>(bytes[at] ^ bit);
    }
  }
}

TEST(HashTest, OrderAndLengthCount) {
  Bytes bytes = RandomBytes(4096, 4);
  const uint64_t hash = HashOf(bytes);
  std::swap_ranges(bytes.begin(), bytes.begin() + 8, bytes.begin() + 2048);
  EXPECT_NE(HashOf(bytes), hash);
  // Zeros of all lengths.
  std::set<uint64_t> seen;
  for (size_t size = 0; size < 100; ++size) seen.insert(HashOf(Bytes(size, 0)));
  EXPECT_EQ(seen.size(), 100U);
}

// More than one launch takes.
TEST(HashTest, OfAListAreThoseOfEachAlone) {
  std::vector<Bytes> all;
  std::vector<HashedTensor> tensors;
  for (size_t i = 0; i < 150; ++i)
    all.push_back(RandomBytes(i * 7 + (i % 40 == 0 ? 70'000 : 0), i));
  for (const Bytes& bytes : all)
    tensors.push_back({.data = bytes.data(), .bytes = static_cast<int64_t>(bytes.size())});
  const std::vector<uint64_t> hashes = HashesOf(tensors);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(hashes[i], HashOf(all[i])) << i;
}

}  // namespace
}  // namespace sluice
