#include "schedules/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

using testing::HasSubstr;

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
}

TEST(FindSchedule, SaysWhatIsNotThereYet) {
  for (const char* name : {"zbv", "dualpipev", "chimera"}) {
    EXPECT_THAT(MessageOf(FindSchedule(name).status()),
                HasSubstr("is not available yet; there are: "))
        << name;
  }
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
  EXPECT_THAT(MessageOf(GenerateSchedule("interleaved", {4, 5, 3}).status()),
              HasSubstr("4 ranks, 3 chunks and 5 micro-batches in groups of 4 (the last of 1)"));
}

}  // namespace
}  // namespace sluice
