#include "schedules/generators/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "schedules/generators/did_you_mean.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

TEST(FindSchedule, FindsEveryEntry) {
  for (const CatalogueEntry& entry : Catalogue()) EXPECT_EQ(*FindSchedule(entry.name), &entry);
}

TEST(FindSchedule, SuggestsTheNearest) {
  EXPECT_THAT(MessageOf(FindSchedule("1f2b").status()),
              HasSubstr("did you mean '1f1b'? there are: 1f1b, "));
  EXPECT_THAT(MessageOf(FindSchedule("interleave").status()),
              HasSubstr("did you mean 'interleaved'?"));
  EXPECT_EQ(FindSchedule("").status().code(), absl::StatusCode::kNotFound);
  // Nothing is like it: all are in their own order.
  EXPECT_THAT(MessageOf(FindSchedule("mxqy").status()),
              StartsWith("no schedule 'mxqy'; there are: gpipe, 1f1b, eager-1f1b, interleaved, "));
}

TEST(NearestName, NeedsHalfOfTheLetters) {
  EXPECT_EQ(NearestName("stags", {"steps", "stages"}), "stages");
  EXPECT_EQ(NearestName("qqqqq", {"steps", "stages"}), std::nullopt);
  EXPECT_EQ(NearestName("stages", {}), std::nullopt);
}

TEST(GenerateSchedule, RefusesCountsBelowOne) {
  for (const CatalogueEntry& entry : Catalogue()) {
    EXPECT_THAT(MessageOf(GenerateSchedule(entry.name, {0, 4}).status()),
                HasSubstr("ranks must be at least 1, not 0"));
    EXPECT_THAT(MessageOf(GenerateSchedule(entry.name, {4, 0}).status()),
                HasSubstr("micro-batches must be"));
    EXPECT_THAT(MessageOf(GenerateSchedule(entry.name, {4, 4, 0}).status()),
                HasSubstr("chunks must be"));
    EXPECT_THAT(MessageOf(GenerateSchedule(entry.name, {4, 4, 1, -2}).status()),
                HasSubstr("group must be"));
  }
}

TEST(GenerateSchedule, RefusesSizesThatCannotBeHeld) {
  EXPECT_THAT(MessageOf(GenerateSchedule("gpipe", {100000, 1}).status()),
              HasSubstr("at most 65536"));
  EXPECT_THAT(MessageOf(GenerateSchedule("gpipe", {9, 2000000000}).status()),
              HasSubstr("18000000000 forwards"));
}

TEST(GenerateSchedule, SaysWhatAScheduleNeeds) {
  EXPECT_THAT(MessageOf(GenerateSchedule("zb-h1", {4, 8, 2}).status()),
              HasSubstr("needs one chunk per rank, not 2"));
  EXPECT_THAT(MessageOf(GenerateSchedule("zbv", {4, 8, 3}).status()),
              HasSubstr("needs two chunks per rank, not 3"));
  EXPECT_THAT(MessageOf(GenerateSchedule("hanayo", {4, 8, 3}).status()),
              HasSubstr("an even number of chunks per rank, two for each wave, not 3"));
  EXPECT_THAT(MessageOf(GenerateSchedule("chimera", {3, 6, 2}).status()),
              HasSubstr("needs an even number of ranks, not 3"));
}

}  // namespace
}  // namespace sluice
