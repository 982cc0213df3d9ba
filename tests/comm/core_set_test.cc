#include "comm/membership/core_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace sluice {
namespace {

using ::testing::ElementsAre;

CoreSet Cores(const std::vector<int>& numbers) {
  CoreSet cores;
  for (const int number : numbers) cores.set(static_cast<size_t>(number));
  return cores;
}

TEST(CoreSetTest, IsNamedInOrder) {
  EXPECT_THAT(CoreNumbers(Cores({7, 0, 1023})), ElementsAre(0, 7, 1023));
  EXPECT_EQ(CoreNames(Cores({3})), "core 3");
  EXPECT_EQ(CoreNames(Cores({7, 2})), "cores 2 and 7");
  EXPECT_EQ(CoreNames(Cores({7, 2, 3})), "cores 2, 3 and 7");
  EXPECT_EQ(CoreNames({}), "no core");
}

TEST(CoreSetTest, KeepsThreadsThatAreThereAndThoseToCome) {
  const CoreSet before = UsableCores();
  ASSERT_TRUE(before.any());
  const CoreSet one = Cores({CoreNumbers(before).back()});
  std::atomic<int> asks{0};
  CoreSet of_other, of_later;
  std::thread other([&] {
    asks.wait(0);
    of_other = UsableCores();
  });
  KeepProcessTo(one);
  std::thread later([&] { of_later = UsableCores(); });
  asks.store(1);
  asks.notify_all();
  other.join();
  later.join();
  EXPECT_EQ(UsableCores(), one);
  EXPECT_EQ(of_other, one);
  EXPECT_EQ(of_later, one);
  KeepProcessTo(before);
  EXPECT_EQ(UsableCores(), before);
}

TEST(CoreSetTest, SaysWhereAThreadIsRefused) {
  const CoreSet before = UsableCores();
  EXPECT_FALSE(KeepThreadTo({}));
  EXPECT_EQ(UsableCores(), before);
}

}  // namespace
}  // namespace sluice
