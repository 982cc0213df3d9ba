// A program of its own: what it registers would be in the catalogue of the other tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "schedules/check/validate.h"
#include "schedules/generators/catalogue.h"
#include "schedules/generators/generators.h"
#include "schedules/optimise/search/seeds.h"

namespace sluice {
namespace {

using testing::HasSubstr;

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

// Forwards and backwards in pairs: 1F1B where the table has one rank.
absl::StatusOr<Timetable> GeneratePairs(const ScheduleRequest& request) {
  if (absl::Status ok = RequireChunks("pairs", 1, request); !ok.ok()) return ok;
  Timetable table = EmptyTimetable("pairs", request, Placement::Looped(request.ranks));
  for (int rank = 0; rank < request.ranks; ++rank) {
    AppendOneFOneB(rank, request.micro_batches, 0, table.rows[rank]);
  }
  return table;
}

// Leaves a backward out.
absl::StatusOr<Timetable> GenerateBroken(const ScheduleRequest& request) {
  absl::StatusOr<Timetable> table = GeneratePairs(request);
  if (table.ok()) table->rows.front().pop_back();
  return table;
}

CatalogueEntry Entry(const char* name) {
  return {.name = name,
          .summary = "forwards and backwards in pairs",
          .needs = "v = 1",
          .bubble = "(p-1)/p",
          .memory = "1",
          .source = "this test",
          .splits_backward = false,
          .default_chunks = 1,
          .generate = GeneratePairs};
}

TEST(RegisterSchedule, IsThenKnownLikeThePublishedOnes) {
  const absl::Span<const CatalogueEntry> before = Catalogue();
  ASSERT_EQ(RegisterSchedule(Entry("pairs")), absl::OkStatus());
  ASSERT_EQ(Catalogue().size(), before.size() + 1);
  EXPECT_EQ(before.data(), Catalogue().data());  // what was returned stays valid
  EXPECT_EQ(*FindSchedule("pairs"), &Catalogue().back());
  EXPECT_THAT(MessageOf(FindSchedule("pair").status()), HasSubstr("did you mean 'pairs'?"));

  const absl::StatusOr<Timetable> table = GenerateSchedule("pairs", {3, 5});
  ASSERT_EQ(table.status(), absl::OkStatus());
  EXPECT_EQ(table->name, "pairs");
  EXPECT_EQ(table->action_count(), 2 * 3 * 5);
  EXPECT_THAT(MessageOf(GenerateSchedule("pairs", {3, 5, 2}).status()),
              HasSubstr("pairs needs one chunk per rank, not 2"));
}

TEST(RegisterSchedule, TheSearchBeginsWithItToo) {
  CatalogueEntry entry = Entry("pairs-for-the-search");
  ASSERT_EQ(RegisterSchedule(entry), absl::OkStatus());
  OptimiseRequest request;
  request.placement = Placement::Looped(2);
  request.micro_batches = 4;
  request.costs = StageCosts::Uniform(2, 1, 1, 1);
  int found = 0;
  for (const Timetable& seed : optimise::CatalogueSeeds(request)) found += seed.name == "pairs";
  EXPECT_GE(found, 1);
}

TEST(RegisterSchedule, WhatItsGeneratorMakesIsProved) {
  CatalogueEntry entry = Entry("broken");
  entry.generate = GenerateBroken;
  ASSERT_EQ(RegisterSchedule(entry), absl::OkStatus());
  EXPECT_FALSE(GenerateSchedule("broken", {2, 3}).ok());
}

TEST(RegisterSchedule, RefusesWhatCannotBeUsed) {
  EXPECT_THAT(MessageOf(RegisterSchedule(Entry("1f1b"))), HasSubstr("there is a schedule '1f1b'"));
  EXPECT_EQ(RegisterSchedule(Entry("auto")).code(), absl::StatusCode::kAlreadyExists);
  for (const char* name : {"", "-p", "My Schedule", "zb_h1", "a,b"}) {
    EXPECT_THAT(MessageOf(RegisterSchedule(Entry(name))), HasSubstr("is no name for a schedule"));
  }
  CatalogueEntry entry = Entry("incomplete");
  entry.source = nullptr;
  EXPECT_THAT(MessageOf(RegisterSchedule(entry)), HasSubstr("'incomplete': `source` is empty"));
  entry = Entry("incomplete");
  entry.generate = nullptr;
  EXPECT_THAT(MessageOf(RegisterSchedule(entry)), HasSubstr("has no `generate`"));
  entry = Entry("incomplete");
  entry.default_chunks = 0;
  EXPECT_THAT(MessageOf(RegisterSchedule(entry)), HasSubstr("default_chunks 0"));
  EXPECT_FALSE(FindSchedule("incomplete").ok());
}

// The last of the tests, since nothing can be registered after it.
TEST(RegisterScheduleToTheEnd, ManyThreadsRegisterWhileOthersRead) {
  static std::vector<std::string> names;
  for (int i = 0; i < 2 * kMostRegistered; ++i) names.push_back("many-" + std::to_string(i));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (size_t i = t; i < names.size(); i += 4) {
        const absl::Status status = RegisterSchedule(Entry(names[i].c_str()));
        EXPECT_TRUE(status.ok() || status.code() == absl::StatusCode::kResourceExhausted);
        for (const CatalogueEntry& entry : Catalogue()) ASSERT_NE(entry.generate, nullptr);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Catalogue().size(), PublishedSchedules().size() + kMostRegistered);
  EXPECT_TRUE(GenerateSchedule("1f1b", {2, 2}).ok());
}

}  // namespace
}  // namespace sluice
