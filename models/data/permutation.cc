#include "models/data/permutation.h"

#include <Random123/philox.h>

#include <cassert>
#include <cmath>

namespace sluice {
namespace {

// More than the four rounds that the theory needs: small domains mix slowly, and a round takes
// nanoseconds.
constexpr uint32_t kRounds = 8;
// Separates these random streams from the other uses of a run's seed ("data").
constexpr uint64_t kKeyDomain = 0x64617461;
constexpr uint32_t kEpochKey = 0;
constexpr uint32_t kFeistel = 1;

}  // namespace

uint64_t RandomBits(uint64_t seed, uint64_t counter, uint32_t domain, uint32_t round) {
  const r123::Philox4x32::ctr_type ctr = {
      {static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), domain, round}};
  const uint64_t keyed = seed ^ (kKeyDomain << 32);
  const r123::Philox4x32::key_type key = {
      {static_cast<uint32_t>(keyed), static_cast<uint32_t>(keyed >> 32)}};
  const r123::Philox4x32::ctr_type bits = r123::Philox4x32()(ctr, key);
  return bits.v[0] | (uint64_t{bits.v[1]} << 32);
}

Permutation::Permutation(int64_t size, uint64_t seed, uint64_t epoch)
    : size_(static_cast<uint64_t>(size)), key_(RandomBits(seed, epoch, kEpochKey, 0)) {
  assert(size >= 1 && size < int64_t{1} << 62);
  a_ = static_cast<uint64_t>(std::sqrt(static_cast<double>(size)));
  if (a_ == 0) a_ = 1;
  b_ = (size_ + a_ - 1) / a_;
}

// Each step adds to one half a function of the other half, so it is invertible, and so is the
// whole.
uint64_t Permutation::Encrypt(uint64_t value) const {
  uint64_t left = value % a_;
  uint64_t right = value / a_;
  for (uint32_t round = 0; round < kRounds; round += 2) {
    left = (left + RandomBits(key_, right, kFeistel, round) % a_) % a_;
    right = (right + RandomBits(key_, left, kFeistel, round + 1) % b_) % b_;
  }
  return left + right * a_;
}

int64_t Permutation::operator()(int64_t position) const {
  assert(position >= 0 && static_cast<uint64_t>(position) < size_);
  uint64_t value = static_cast<uint64_t>(position);
  // The domain exceeds `size` by less than a_, so a value outside is rare; walking along the cycle
  // leads to a valid value.
  do {
    value = Encrypt(value);
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

}  // namespace sluice
