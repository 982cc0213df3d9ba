#include "tests/models/kernels/cuda_emulation/block.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>
#include <vector>

namespace sluice::emulation {
namespace {

TEST(BlockTest, EveryThreadOfEveryBlockRunsOnce) {
  constexpr size_t kAll = size_t{3} * 2 * 64;
  std::vector<int> runs(kAll, 0);
  RunGrid({.x = 3, .y = 2, .threads = 64}, 1, [&] {
    const Place& here = Here();
    const int64_t block = here.block_y * here.blocks_x + here.block_x;
    runs[static_cast<size_t>(block * 64 + here.thread)] += 1;
  });
  EXPECT_EQ(runs, std::vector<int>(kAll, 1));
}

TEST(BlockTest, AWarpMeets) {
  std::vector<int> results(kLanes, 0);
  RunGrid({.threads = kLanes}, 1, [&] {
    int value = Here().thread;
    MeetWarp("sum", &value, [](Operands lanes) {
      int sum = 0;
      for (const void* lane : lanes) sum += *static_cast<const int*>(lane);
      for (void* lane : lanes) *static_cast<int*>(lane) = sum;
    });
    results[static_cast<size_t>(Here().thread)] = value;
  });
  EXPECT_EQ(results, std::vector<int>(kLanes, kLanes * (kLanes - 1) / 2));
}

std::byte* IntAt(int i) { return SharedAt(static_cast<uint32_t>(4 * i), 4); }

// What the first thread of each of four warps reads of its neighbour, over many seeds.
std::set<std::vector<int>> Reads(bool barrier) {
  std::set<std::vector<int>> all;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<int> reads(4);
    RunGrid({.threads = 4 * kLanes, .shared_bytes = 4 * sizeof(int)}, seed, [&] {
      if (Here().thread % kLanes == 0) {
        const int warp = Here().thread / kLanes;
        std::memcpy(IntAt(warp), &warp, sizeof(warp));
      }
      if (barrier) MeetBlock();
      if (Here().thread % kLanes == 0) {
        const int warp = Here().thread / kLanes;
        std::memcpy(&reads[static_cast<size_t>(warp)], IntAt((warp + 1) % 4), sizeof(int));
      }
    });
    all.insert(reads);
  }
  return all;
}

TEST(BlockTest, AMissingBarrierShows) {
  EXPECT_EQ(Reads(true), (std::set<std::vector<int>>{{1, 2, 3, 0}}));
  EXPECT_GT(Reads(false).size(), 1);
}

TEST(BlockTest, ACopyNotWaitedForShows) {
  const std::array<uint32_t, 4> source = {1, 2, 3, 4};
  std::set<bool> early;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    RunGrid({.threads = kLanes, .shared_bytes = kLanes * sizeof(source)}, seed, [&] {
      std::byte* const to = SharedAt(static_cast<uint32_t>(Here().thread) * 16, 16);
      const auto arrived = [&] { return std::memcmp(to, source.data(), sizeof(source)) == 0; };
      CopyLater(to, source.data(), sizeof(source), false);
      if (Here().thread == 0) early.insert(arrived());
      WaitForCopies();
      EXPECT_TRUE(arrived());
    });
  }
  EXPECT_EQ(early.size(), 2);
}

TEST(BlockDeathTest, LanesThatPartWaysStopTheProgram) {
  EXPECT_DEATH(RunGrid({.threads = kLanes}, 1,
                       [] {
                         if (Here().thread == 5) return;
                         MeetBlock();
                       }),
               "lanes of a warp part ways");
}

TEST(BlockDeathTest, WarpsThatPartWaysStopTheProgram) {
  EXPECT_DEATH(RunGrid({.threads = 2 * kLanes}, 1,
                       [] {
                         if (Here().thread < kLanes) MeetBlock();
                       }),
               "warps part ways");
}

TEST(BlockDeathTest, SharedMemoryHasBounds) {
  EXPECT_DEATH(RunGrid({.threads = kLanes, .shared_bytes = 64}, 1, [] { SharedAt(64, 16); }),
               "shared memory is left");
}

}  // namespace
}  // namespace sluice::emulation
