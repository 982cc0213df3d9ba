#ifndef SLUICE_MODELS_DATA_PERMUTATION_H_
#define SLUICE_MODELS_DATA_PERMUTATION_H_

#include <cstdint>

namespace sluice {

// 64 random bits that depend only on the arguments: Philox4x32-10 (Salmon et al. 2011) keyed by
// `seed`.
uint64_t RandomBits(uint64_t seed, uint64_t counter, uint32_t domain, uint32_t round);

// A pseudo-random permutation of 0..size-1, one for each (seed, epoch), in constant memory:
// position -> sample in O(1). A generalised Feistel cipher over Z_a x Z_b, a * b >= size, with
// cycle walking (Black and Rogaway 2002, "Ciphers with arbitrary finite domains", section 5); its
// round function is Philox.
class Permutation {
 public:
  // 1 <= size < 2^62.
  Permutation(int64_t size, uint64_t seed, uint64_t epoch);
  // 0 <= position < size.
  int64_t operator()(int64_t position) const;

 private:
  uint64_t Encrypt(uint64_t value) const;

  uint64_t size_;
  uint64_t a_;
  uint64_t b_;
  uint64_t key_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_PERMUTATION_H_
