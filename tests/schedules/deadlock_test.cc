// Every order in which ranks can move, of small timetables: none ends before its end.
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <vector>

#include "rendezvous.h"
#include "schedules/check/validate.h"
#include "schedules/csv.h"
#include "schedules/generators/catalogue.h"
#include "schedules/lower.h"

namespace sluice {
namespace {

TEST(Deadlock, NoOrderOfMovesOfAnyScheduleHasOne) {
  int64_t states = 0;
  int tables = 0;
  for (const CatalogueEntry& entry : PublishedSchedules()) {
    int of_entry = 0;
    for (int ranks = 1; ranks <= 4; ++ranks) {
      for (int micro_batches = 1; micro_batches <= (ranks == 4 ? 4 : 6); ++micro_batches) {
        const absl::StatusOr<Timetable> table = GenerateSchedule(
            entry.name,
            {.ranks = ranks, .micro_batches = micro_batches, .chunks = entry.default_chunks});
        if (!table.ok()) continue;  // it needs other numbers
        for (const int most_waiting : {0, 1}) {
          LowerOptions options;
          if (most_waiting > 0) options.most_waiting = most_waiting;
          const absl::StatusOr<Timetable> lowered = LowerTimetable(*table, options);
          ASSERT_TRUE(lowered.ok()) << entry.name << ": " << lowered.status();
          const EveryWay all = RunEveryWay(*lowered);
          ASSERT_EQ(all.wrong, "") << entry.name << "\n" << FormatTimetableCsv(*lowered);
          states += all.states;
          ++of_entry;
        }
      }
    }
    EXPECT_GT(of_entry, 5) << entry.name;
    tables += of_entry;
  }
  std::cout << tables << " timetables, " << states << " states" << std::endl;
  EXPECT_GT(states, 50'000);
}

// Each receive and send in each other place of its row: what the validator calls sound goes well in every
// order, and what it does not goes wrong in one.
TEST(Deadlock, TheValidatorKnowsThemAll) {
  int sound = 0, deadlocks = 0, other = 0;
  for (const char* schedule : {"1f1b", "gpipe", "zb-h1"}) {
    for (const int ranks : {2, 3}) {
      const Timetable lowered =
          *LowerTimetable(*GenerateSchedule(schedule, {.ranks = ranks, .micro_batches = 2}));
      for (size_t rank = 0; rank < lowered.rows.size(); ++rank) {
        for (size_t from = 0; from < lowered.rows[rank].size(); ++from) {
          if (!IsCommunication(lowered.rows[rank][from].op)) continue;
          for (size_t to = 0; to < lowered.rows[rank].size(); ++to) {
            Timetable table = lowered;
            std::vector<Action>& row = table.rows[rank];
            const Action moved = row[from];
            row.erase(row.begin() + static_cast<ptrdiff_t>(from));
            row.insert(row.begin() + static_cast<ptrdiff_t>(to), moved);
            const EveryWay all = RunEveryWay(table);
            ASSERT_EQ(FindDefects(table).empty(), all.wrong.empty()) << all.wrong << "\n"
                                                                     << FormatTimetableCsv(table);
            sound += all.wrong.empty();
            deadlocks += all.wrong == "deadlock";
            other += !all.wrong.empty() && all.wrong != "deadlock";
          }
        }
      }
    }
  }
  std::cout << sound << " sound, " << deadlocks << " deadlocks, " << other << " wrong messages"
            << std::endl;
  EXPECT_GT(sound, 100);
  EXPECT_GT(deadlocks, 100);
  EXPECT_GT(other, 100);
}

}  // namespace
}  // namespace sluice
