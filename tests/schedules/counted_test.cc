#include "schedules/counted.h"

#include <cstdint>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(Counted, OneIsNotSeveral) {
  EXPECT_EQ(Counted(1, "rank"), "1 rank");
  EXPECT_EQ(Counted(size_t{1}, "process"), "1 process");
  EXPECT_EQ(Counted(0, "rank"), "0 ranks");
  EXPECT_EQ(Counted(-1, "replica"), "-1 replicas");
  EXPECT_EQ(Counted(11, "stage"), "11 stages");
  EXPECT_EQ(Counted(int64_t{1} << 40, "micro-batch"), "1099511627776 micro-batches");
  EXPECT_EQ(Counted(size_t{3}, "process"), "3 processes");
}

}  // namespace
}  // namespace sluice
