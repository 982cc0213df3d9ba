#ifndef SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_BLOCK_H_
#define SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_BLOCK_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "tests/models/kernels/cuda_emulation/fiber.h"

// Runs a CUDA kernel's body on the CPU, thread by thread, to compare its arithmetic with a twin and
// to find missing barriers. Threads are fibers of one host thread. What CUDA leaves open is drawn
// from a seed: the order of the blocks, of the warps between two barriers, of the lanes between two
// meetings, and when asynchronous copies land. So bits that change with the seed are a race.
namespace sluice::emulation {

constexpr int kLanes = 32;

struct Grid {
  int64_t x = 1;
  int64_t y = 1;
  int threads = kLanes;     // of a block, whole warps
  size_t shared_bytes = 0;  // dynamic shared memory, NaN at first
};

// Runs `body` once for every thread of every block. Stops the program with a message on what a GPU
// would leave undefined: lanes of a warp that meet at different places, threads that wait at a
// barrier that others never reach, shared memory out of bounds.
void RunGrid(const Grid& grid, uint64_t seed, const std::function<void()>& body);

// For use within a body:
struct Place {
  int thread = 0;
  int64_t block_x = 0, block_y = 0;
  int64_t blocks_x = 0, blocks_y = 0;
};
const Place& Here();

std::byte* Shared();
// [address, address + bytes) of shared memory, checked, also for alignment to `bytes`.
std::byte* SharedAt(uint32_t address, size_t bytes);

// All lanes of the warp hand in one pointer each; the last to arrive runs `work` on all 32, which
// writes results to where they point. `name` says what this is: lanes must agree.
using Operands = void* const (&)[kLanes];
void MeetWarp(std::string_view name, void* operand, void (*work)(Operands));
void MeetBlock();

// From any moment now on, at the latest when this thread waits, these bytes are the destination's.
void CopyLater(std::byte* to, const void* from, size_t bytes, bool zero);
void WaitForCopies();
// Makes a group of this thread's copies since its last one; waits for all groups but the last ones.
void EndCopyGroup();
void WaitForCopyGroups(int left);

}  // namespace sluice::emulation

#endif  // SLUICE_TESTS_MODELS_KERNELS_CUDA_EMULATION_BLOCK_H_
