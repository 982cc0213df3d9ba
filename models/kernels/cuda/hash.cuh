#ifndef SLUICE_MODELS_KERNELS_CUDA_HASH_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_HASH_CUH_

#include "models/kernels/cuda/vector.cuh"
#include "models/kernels/kernels.h"

// A tensor's hash is the sum, modulo 2^64, of its words of 8 bytes, each mixed with its place. The
// mixing of a place is one to one, so no other value of one word gives the same sum; and a sum of
// integers is the same in any order.
namespace sluice::cuda {

constexpr int kHashThreads = 256;

struct HashList {
  HashedTensor tensors[kListedHashes];
  int32_t first_block[kListedHashes + 1];  // of each tensor, then the number of blocks
  int32_t count = 0;
};

// The multipliers are those of SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable
// pseudorandom number generators"), and the golden ratio that it steps by.
__device__ inline uint64_t MixedWord(uint64_t word, uint64_t place) {
  uint64_t x = word ^ (place * 0x9e3779b97f4a7c15U);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// The word that begins at byte `at`; what lies behind the tensor's end is 0.
__device__ inline uint64_t WordAt(const HashedTensor& tensor, int64_t at, bool aligned) {
  const char* from = static_cast<const char*>(tensor.data) + at;
  if (aligned && at + 8 <= tensor.bytes) return *reinterpret_cast<const uint64_t*>(from);
  const int64_t left = tensor.bytes - at;
  uint64_t word = 0;
  for (int64_t i = 0; i < 8 && i < left; ++i) {
    word |= static_cast<uint64_t>(static_cast<unsigned char>(from[i])) << (8 * i);
  }
  return word;
}

// A block takes a part of a tensor: every so many words, as many as its blocks have threads.
__global__ void __launch_bounds__(kHashThreads)
    HashPartsKernel(const __grid_constant__ HashList list, uint64_t* parts) {
  __shared__ uint64_t sums[kHashThreads];
  const auto block = static_cast<int32_t>(blockIdx.x);
  int at = 0;
  while (list.first_block[at + 1] <= block) ++at;
  const HashedTensor& tensor = list.tensors[at];
  const bool aligned = reinterpret_cast<uintptr_t>(tensor.data) % 8 == 0;
  const int64_t part = block - list.first_block[at];
  const int64_t blocks = list.first_block[at + 1] - list.first_block[at];
  const int64_t words = (tensor.bytes + 7) / 8;
  uint64_t sum = 0;
#pragma unroll 4
  for (int64_t i = part * kHashThreads + threadIdx.x; i < words; i += blocks * kHashThreads) {
    sum += MixedWord(WordAt(tensor, i * 8, aligned), static_cast<uint64_t>(i));
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = kHashThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) parts[at * kHashParts + part] = sums[0];
}

// One block; a thread adds the parts of a tensor.
__global__ void __launch_bounds__(kListedHashes)
    HashKernel(const __grid_constant__ HashList list, const uint64_t* parts, uint64_t* hashes) {
  const auto at = static_cast<int>(threadIdx.x);
  if (at >= list.count) return;
  uint64_t sum = 0;
  const int32_t blocks = list.first_block[at + 1] - list.first_block[at];
#pragma unroll 8
  for (int32_t part = 0; part < blocks; ++part) sum += parts[at * kHashParts + part];
  hashes[at] = MixedWord(sum, static_cast<uint64_t>(list.tensors[at].bytes));
}

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_HASH_CUH_
