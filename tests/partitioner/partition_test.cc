#include "schedules/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace sluice {
namespace {

using ::testing::HasSubstr;

std::string ParseError(absl::string_view text, int layers) {
  const absl::StatusOr<Partition> partition = ParsePartition(text, layers);
  EXPECT_FALSE(partition.ok()) << text;
  EXPECT_EQ(partition.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(partition.status().message());
}

TEST(ParsePartition, ReadsRangesAndSingleLayers) {
  const absl::StatusOr<Partition> partition = ParsePartition("0-3,4, 5-7", 8);
  ASSERT_TRUE(partition.ok()) << partition.status();
  EXPECT_EQ(*partition, (Partition{{0, 3}, {4, 4}, {5, 7}}));
}

TEST(ParsePartition, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(ParseError("0-2,4-7", 8), HasSubstr("'4-7' leaves a gap: no stage has layer 3"));
  EXPECT_THAT(ParseError("0-2,2-7", 8), HasSubstr("'2-7' overlaps"));
  EXPECT_THAT(ParseError("0-3,4-8", 8), HasSubstr("'4-8' goes past the end: the model has 8"));
  EXPECT_THAT(ParseError("0-3,4-5", 8), HasSubstr("no stage has layer 6-7"));
  EXPECT_THAT(ParseError("1-7", 8), HasSubstr("no stage has layer 0"));
  EXPECT_THAT(ParseError("3-0,4-7", 8), HasSubstr("'3-0' runs backwards"));
}

TEST(ParsePartition, RefusesGarbage) {
  for (const char* text : {"", ",", "0-3,", "a", "0--3", "0-3-7", "-1-7", "0x1-7", "0 -7", "+0-7",
                           "0-99999999999999999999", "0-7;"}) {
    EXPECT_THAT(ParseError(text, 8), HasSubstr("partition '")) << text;
  }
}

TEST(FormatPartition, IsReadBackUnchanged) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 1000; ++trial) {
    const int layers = 1 + static_cast<int>(random() % 30);
    Partition partition;
    for (int next = 0; next < layers;) {
      const int size = 1 + static_cast<int>(random() % (layers - next));
      partition.push_back({next, next + size - 1});
      next += size;
    }
    const absl::StatusOr<Partition> again = ParsePartition(FormatPartition(partition), layers);
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, partition);
  }
}

TEST(EvenPartition, CoversEveryLayerWithSizesThatDifferByAtMostOne) {
  for (int layers = 1; layers <= 20; ++layers) {
    for (int stages = 1; stages <= layers; ++stages) {
      const absl::StatusOr<Partition> partition = EvenPartition(layers, stages);
      ASSERT_TRUE(partition.ok());
      ASSERT_EQ(partition->size(), stages);
      EXPECT_TRUE(ParsePartition(FormatPartition(*partition), layers).ok());
      EXPECT_LE(partition->front().size() - partition->back().size(), 1);
      EXPECT_TRUE(std::is_sorted(partition->rbegin(), partition->rend(),
                                 [](const auto& a, const auto& b) { return a.size() < b.size(); }));
    }
  }
}

TEST(EvenPartition, RefusesMoreStagesThanLayers) {
  const absl::StatusOr<Partition> partition = EvenPartition(3, 4);
  EXPECT_THAT(std::string(partition.status().message()), HasSubstr("4 stages for 3 layers"));
  EXPECT_FALSE(EvenPartition(0, 1).ok());
  EXPECT_FALSE(EvenPartition(3, 0).ok());
}

TEST(MoveLayer, MovesEveryCutBetweenTheTwoStages) {
  const Partition partition = {{0, 2}, {3, 3}, {4, 5}, {6, 9}};
  EXPECT_EQ(FormatPartition(MoveLayer(partition, 0, 1)), "0-1,2-3,4-5,6-9");
  EXPECT_EQ(FormatPartition(MoveLayer(partition, 0, 3)), "0-1,2,3-4,5-9");
  EXPECT_EQ(FormatPartition(MoveLayer(partition, 3, 2)), "0-2,3,4-6,7-9");
  EXPECT_EQ(FormatPartition(MoveLayer(partition, 3, 0)), "0-3,4,5-6,7-9");
  EXPECT_EQ(MoveLayer(partition, 2, 2), partition);
}

TEST(MoveLayer, BackAgainChangesNothing) {
  const Partition even = *EvenPartition(20, 5);
  for (int from = 0; from < 5; ++from) {
    for (int to = 0; to < 5; ++to) {
      const Partition moved = MoveLayer(even, from, to);
      EXPECT_TRUE(ParsePartition(FormatPartition(moved), 20).ok()) << from << " to " << to;
      EXPECT_EQ(MoveLayer(moved, to, from), even) << from << " to " << to;
    }
  }
}

}  // namespace
}  // namespace sluice
