#include "models/kernels/on_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <vector>

namespace sluice {
namespace {

TEST(OnThreads, DoesEachPieceOnceOnSomeOfTheThreads) {
  for (const int threads : {-1, 1, 3, 50}) {
    for (const size_t count : {0, 1, 2, 40}) {
      std::vector<int> done(count), thread_of(count, -1);
      OnThreads(threads, count, [&](int thread, size_t i) {
        ++done[i];
        thread_of[i] = thread;
      });
      EXPECT_THAT(done, testing::Each(1));
      const int most = threads < 1 ? 1 : threads;
      EXPECT_THAT(thread_of, testing::Each(testing::AllOf(testing::Ge(0), testing::Lt(most))));
    }
  }
}

TEST(OnThreads, ThrowsWhatAThreadHasThrownOnceAllHaveEnded) {
  std::atomic<int> at_work = 0;
  const auto work = [&](int, size_t i) {
    ++at_work;
    if (i == 7) {
      --at_work;
      throw std::bad_alloc();
    }
    --at_work;
  };
  for (const int threads : {1, 4}) {
    EXPECT_THROW(OnThreads(threads, 100, work), std::bad_alloc);
    EXPECT_EQ(at_work, 0);
  }
}

}  // namespace
}  // namespace sluice
