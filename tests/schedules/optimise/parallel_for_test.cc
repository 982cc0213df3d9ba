#include "schedules/optimise/parallel_for.h"

#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <atomic>
#include <new>
#include <vector>

namespace sluice {
namespace {

TEST(ParallelFor, CallsTheBodyOnceForEachNumber) {
  for (size_t count : {0, 1, 1000}) {
    std::vector<std::atomic<int>> calls(count);
    ParallelFor(count, [&](size_t i) { ++calls[i]; });
    for (const std::atomic<int>& of_one : calls) EXPECT_EQ(of_one, 1);
  }
}

TEST(ParallelFor, ThrowsWhatABodyThrows) {
  const auto throws = [](size_t i) {
    if (i == 500) throw std::bad_alloc();
  };
  EXPECT_THROW(ParallelFor(1000, throws), std::bad_alloc);
  const tbb::global_control one(tbb::global_control::max_allowed_parallelism, 1);
  EXPECT_THROW(ParallelFor(1000, throws), std::bad_alloc);
}

}  // namespace
}  // namespace sluice
