#include "schedules/weight_versions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "schedules/check/validate.h"
#include "schedules/csv.h"
#include "schedules/generators/catalogue.h"
#include "schedules/lower.h"

namespace sluice {
namespace {

using testing::HasSubstr;

// The number of updates between the version of the stage's weights that `micro_batch` computes with
// and the version that its gradient changes.
int StalenessAt(const Timetable& table, const WeightSlots& slots, int micro_batch) {
  return UpdateOf(table, micro_batch) - slots.version[static_cast<size_t>(micro_batch)];
}

// Harlap et al., section 3.3: stage s of p keeps p - s versions, and a micro-batch's gradient is
// p - s - 1 updates late; fewer while the pipeline fills.
TEST(PipeDream, KeepsAVersionForEachMicroBatchInFlight) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 20; ++m) {
      const Timetable table = *GenerateSchedule("pipedream", {p, m});
      for (int s = 0; s < p; ++s) {
        const WeightSlots slots = SlotsOf(table, s);
        EXPECT_LE(slots.count, p - s);
        if (m >= 2 * (p - s)) {
          EXPECT_EQ(slots.count, p - s) << p << " " << m << " " << s;
        }
        for (int b = 0; b < m; ++b) {
          EXPECT_EQ(StalenessAt(table, slots, b), std::min(b, p - s - 1));
        }
      }
    }
  }
}

// Narayanan et al. 2021, section 3.1: W(t + 1) = W(t) - f(W(t - 1)), at every stage.
TEST(PipeDream2Bw, KeepsTwoVersionsAndIsOneUpdateLate) {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 20; ++m) {
      for (int every = std::max(1, p - 1); every <= p + 2; ++every) {
        ScheduleRequest request{p, m};
        request.update_every = every;
        const Timetable table = *GenerateSchedule("pipedream-2bw", request);
        for (int s = 0; s < p; ++s) {
          const WeightSlots slots = SlotsOf(table, s);
          EXPECT_LE(slots.count, 2);
          if (m > 2 * every) {
            EXPECT_EQ(slots.count, 2);
          }
          for (int b = 0; b < m; ++b) {
            EXPECT_EQ(StalenessAt(table, slots, b), b < every ? 0 : 1);
            EXPECT_EQ(slots.version[static_cast<size_t>(b)], std::max(b / every - 1, 0));
          }
        }
      }
    }
  }
}

// The largest and the mean staleness over the stages, for each micro-batch.
TEST(Staleness, IsOverTheStages) {
  const std::vector<Staleness> found = StalenessOf(*GenerateSchedule("pipedream", {4, 8}));
  ASSERT_EQ(found.size(), 8);
  EXPECT_EQ(found[0].max, 0);
  EXPECT_EQ(found[7].max, 3);
  EXPECT_DOUBLE_EQ(found[7].mean, (3 + 2 + 1 + 0) / 4.0);
  EXPECT_TRUE(StalenessOf(*GenerateSchedule("1f1b", {4, 8})).empty());
}

TEST(PipeDream2Bw, RefusesUpdatesThatComeTooFast) {
  ScheduleRequest request{6, 12};
  request.update_every = 4;
  EXPECT_THAT(std::string(GenerateSchedule("pipedream-2bw", request).status().message()),
              HasSubstr("an update for every 5 or more micro-batches on 6 ranks, not every 4"));
}

TEST(Synchronous, KeepsOneVersion) {
  for (const CatalogueEntry& entry : Catalogue()) {
    if (entry.updates != WeightUpdates::kFlush) continue;
    const Timetable table = *GenerateSchedule(entry.name, {4, 8, entry.default_chunks});
    for (int s = 0; s < table.placement.stages(); ++s) {
      const WeightSlots slots = SlotsOf(table, s);
      EXPECT_EQ(slots.count, 1);
      EXPECT_EQ(slots.version, std::vector<int>(8, 0));
    }
  }
}

// Replays each row: no version is overwritten while a micro-batch that reads it is in flight.
TEST(WeightSlots, HoldEveryVersionInFlight) {
  for (const char* name : {"pipedream", "pipedream-2bw"}) {
    const Timetable table = *GenerateSchedule(name, {4, 12});
    for (int s = 0; s < 4; ++s) {
      const WeightSlots slots = SlotsOf(table, s);
      std::vector<int> lies_in(static_cast<size_t>(slots.count), -1);  // [slot] the version there
      lies_in[static_cast<size_t>(slots.slot(0))] = 0;
      int newest = 0;
      for (const Action& action : table.rows[static_cast<size_t>(table.placement.rank(s))]) {
        if (action.op == Op::kOptimizerStep) {
          ++newest;
          lies_in[static_cast<size_t>(slots.slot(newest))] = newest;
        } else if (IsCompute(action.op)) {
          const int read = slots.version[static_cast<size_t>(action.micro_batch)];
          EXPECT_EQ(lies_in[static_cast<size_t>(slots.SlotOf(action.micro_batch))], read)
              << name << ", stage " << s << ", " << ToString(action);
        }
      }
    }
  }
}

TEST(Csv, KeepsWhenWeightsChange) {
  for (const char* name : {"pipedream", "pipedream-2bw"}) {
    const Timetable table = *GenerateSchedule(name, {3, 9});
    for (const Timetable& written : {table, *LowerTimetable(table)}) {
      const std::string text = FormatTimetableCsv(written);
      const auto read = ParseTimetableCsv(text, "t.csv");
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(read->updates, table.updates);
      EXPECT_EQ(read->update_every, table.update_every);
      EXPECT_EQ(read->rows, written.rows);
      EXPECT_TRUE(ValidateTimetable(*read).ok());
    }
  }
}

size_t PositionOf(const std::vector<Action>& row, const std::string& action) {
  return static_cast<size_t>(
      std::find_if(row.begin(), row.end(), [&](const Action& a) { return ToString(a) == action; }) -
      row.begin());
}

// Moves an action of a row to the place of `to`.
void Move(std::vector<Action>& row, const std::string& what, const std::string& to) {
  const size_t from = PositionOf(row, what);
  const Action action = row[from];
  row.erase(row.begin() + static_cast<ptrdiff_t>(from));
  row.insert(row.begin() + static_cast<ptrdiff_t>(PositionOf(row, to)), action);
}

struct Seeded {
  const char* what;
  const char* schedule;
  std::function<void(Timetable&)> damage;
  int rank;
  const char* action;
  const char* message;
};

const Seeded kSeeded[] = {
    {"dropped update", "pipedream",
     [](Timetable& t) {
       auto& row = t.rows[1];
       row.erase(row.begin() + static_cast<ptrdiff_t>(PositionOf(row, "1OPTIMIZER_STEP3")));
     },
     1, "1B4", "before 1OPTIMIZER_STEP3, which includes only micro-batches 3 to 3"},
    {"last update dropped", "pipedream-2bw", [](Timetable& t) { t.rows[2].pop_back(); }, 2,
     "2OPTIMIZER_STEP8", "is absent: update 2 of stage 2 includes micro-batches 6 to 8"},
    {"update before its gradient", "pipedream",
     [](Timetable& t) { Move(t.rows[0], "0OPTIMIZER_STEP2", "0B2"); }, 0, "0OPTIMIZER_STEP2",
     "comes before the gradient of micro-batch 2, which it includes"},
    {"update in the middle of its micro-batches", "pipedream-2bw",
     [](Timetable& t) { Move(t.rows[0], "0OPTIMIZER_STEP2", "0B2"); }, 0, "0OPTIMIZER_STEP2",
     "comes before the gradient of micro-batch 2, which it includes"},
    {"update after a gradient that it leaves out", "pipedream-2bw",
     [](Timetable& t) { Move(t.rows[1], "1B3", "1OPTIMIZER_STEP2"); }, 1, "1B3",
     "adds to the gradient of stage 1 before 1OPTIMIZER_STEP2"},
    {"update of the wrong micro-batches", "pipedream-2bw",
     [](Timetable& t) { t.rows[0][PositionOf(t.rows[0], "0OPTIMIZER_STEP5")].micro_batch = 4; }, 0,
     "0OPTIMIZER_STEP4", "update 1 of stage 0 includes micro-batches 3 to 5, so 0OPTIMIZER_STEP5"},
    {"forward that needs a third version", "pipedream-2bw",
     [](Timetable& t) { Move(t.rows[2], "2F6", "2OPTIMIZER_STEP2"); }, 2, "2F6",
     "older ones would be a third version to keep"},
    {"update in the middle of a synchronous step", "1f1b",
     [](Timetable& t) {
       auto& row = t.rows[1];
       row.insert(row.begin() + static_cast<ptrdiff_t>(PositionOf(row, "1B4")),
                  Action{.op = Op::kOptimizerStep, .stage = 1});
     },
     1, "1OPTIMIZER_STEP", "comes after 4 of the 9 gradients of stage 1"},
    {"backward with other weights than its forward", "1f1b",
     [](Timetable& t) {
       auto& row = t.rows[1];
       row.insert(row.begin() + static_cast<ptrdiff_t>(PositionOf(row, "1B4")),
                  Action{.op = Op::kOptimizerStep, .stage = 1});
     },
     1, "1B4", "uses other weights than its forward: stage 1 was updated at position"},
    {"second synchronous update", "1f1b",
     [](Timetable& t) {
       for (int i = 0; i < 2; ++i) {
         t.rows[2].push_back(Action{.op = Op::kOptimizerStep, .stage = 2});
       }
     },
     2, "2OPTIMIZER_STEP", "updates stage 2 again"},
};

TEST(SeededViolation, IsFoundWithRankPositionAndAction) {
  for (const Seeded& seeded : kSeeded) {
    SCOPED_TRACE(seeded.what);
    Timetable table = *GenerateSchedule(seeded.schedule, {3, 9});
    ASSERT_TRUE(FindDefects(table).empty());
    seeded.damage(table);
    bool found = false;
    std::string all;
    for (const Defect& defect : FindDefects(table)) {
      all += ToString(defect) + "\n";
      const bool absent = std::string(seeded.message).find("is absent") == 0;
      const bool placed =
          absent ? defect.position == -1
                 : defect.position >= 0 &&
                       ToString(table.rows[defect.rank][defect.position]) == seeded.action;
      found |= placed && defect.rank == seeded.rank && defect.action == seeded.action &&
               defect.message.find(seeded.message) != std::string::npos;
    }
    EXPECT_TRUE(found) << all;
  }
}

TEST(SeededViolation, OfTheWholeTableIsFound) {
  Timetable several = *GenerateSchedule("chimera", {2, 4, 2});
  several.updates = WeightUpdates::kEachMicroBatch;
  EXPECT_THAT(std::string(ValidateTimetable(several).message()),
              HasSubstr("2 copies of the model, which could not agree on them"));
  Timetable never = *GenerateSchedule("pipedream-2bw", {2, 4});
  never.update_every = 0;
  EXPECT_THAT(std::string(ValidateTimetable(never).message()),
              HasSubstr("weights change after every 0 micro-batches"));
}

// A complete update at the end of a synchronous table is sound.
TEST(Synchronous, MayUpdateAtItsEnd) {
  Timetable table = *GenerateSchedule("zb-h1", {3, 6});
  for (int s = 0; s < 3; ++s) {
    table.rows[s].push_back(Action{.op = Op::kOptimizerStep, .stage = static_cast<uint16_t>(s)});
  }
  EXPECT_TRUE(ValidateTimetable(table).ok()) << ValidateTimetable(table);
}

}  // namespace
}  // namespace sluice
