#include "schedules/check/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "naive.h"
#include "random_timetable.h"
#include "schedules/dependency.h"
#include "schedules/generators/catalogue.h"
#include "schedules/lower.h"
#include "schedules/sum_order.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(FindDefects, AcceptsRandomSoundTables) {
  Random random(6);
  for (int i = 0; i < 3000; ++i) {
    const Timetable table = RandomTimetable(random);
    ASSERT_TRUE(NaiveIsSound(table));
    const absl::Status sound = ValidateTimetable(table);
    ASSERT_TRUE(sound.ok()) << sound;
  }
}

// One random change: an action dropped, doubled, moved, swapped with another, or made another's.
void Damage(Random& random, Timetable& table) {
  const int rank = Draw(random, 0, table.placement.ranks() - 1);
  auto& row = table.rows[rank];
  if (row.empty()) return;
  const auto any = [&](const auto& of) { return Draw(random, 0, static_cast<int>(of.size()) - 1); };
  const int at = any(row);
  switch (Draw(random, 0, 6)) {
    case 0:
      row.erase(row.begin() + at);
      break;
    case 1:
      row.insert(row.begin() + any(row), row[at]);
      break;
    case 2:
      std::swap(row[at], row[any(row)]);
      break;
    case 3:
      std::swap(row[at], row[std::min<int>(at + 1, static_cast<int>(row.size()) - 1)]);
      break;
    case 4:
      if (row[at].op != Op::kIdle) row[at].micro_batch += Draw(random, -1, 1);
      break;
    case 5:
      if (row[at].op != Op::kIdle)
        row[at].stage = static_cast<uint16_t>(std::max(0, row[at].stage + Draw(random, -1, 1)));
      break;
    default:
      row[at].overlaps_next = !row[at].overlaps_next;
  }
}

TEST(FindDefects, AgreesWithTheDefinitionsOnDamagedTables) {
  Random random(7);
  int unsound = 0;
  constexpr int kCases = Trials(20'000, 2'000);
  for (int i = 0; i < kCases; ++i) {
    Timetable table = RandomTimetable(random);
    if (i % 2 == 1) table = *LowerTimetable(table);
    for (int damages = Draw(random, 1, 2); damages > 0; --damages) Damage(random, table);
    const std::vector<Defect> defects = FindDefects(table);
    const bool sound = NaiveIsSound(table);
    ASSERT_EQ(defects.empty(), sound) << (defects.empty() ? "" : ToString(defects[0]));
    unsound += !sound;
    for (const Defect& defect : defects) {
      if (defect.position < 0) continue;
      ASSERT_LT(defect.position, static_cast<int>(table.rows[defect.rank].size()));
      EXPECT_EQ(defect.action, ToString(table.rows[defect.rank][defect.position]));
    }
  }
  EXPECT_GT(unsound, kCases / 4);
  EXPECT_LT(unsound, kCases);
}

// A damage with a known place must be reported at that place.
struct Seeded {
  const char* name;
  bool lowered;
  std::function<void(Timetable&)> damage;
  int rank, position;
  const char* action;
  const char* message;
};

int PositionOf(const Timetable& table, int rank, const std::string& action) {
  for (size_t i = 0; i < table.rows[rank].size(); ++i) {
    if (ToString(table.rows[rank][i]) == action) return static_cast<int>(i);
  }
  ADD_FAILURE() << action << " is not on rank " << rank;
  return 0;
}

Action& At(Timetable& table, int rank, const std::string& action) {
  return table.rows[rank][PositionOf(table, rank, action)];
}

void Drop(Timetable& table, int rank, const std::string& action) {
  auto& row = table.rows[rank];
  row.erase(row.begin() + PositionOf(table, rank, action));
}

TEST(FindDefects, NamesThePlaceOfEachSeededDefect) {
  // 1f1b, p 3, m 4: rank 1 is 1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3.
  const Seeded cases[] = {
      {"dropped", false, [](Timetable& t) { Drop(t, 1, "1B2"); }, 1, -1, "1B2", "is absent"},
      {"doubled", false, [](Timetable& t) { t.rows[1].push_back(t.rows[1][3]); }, 1, 8, "1F2",
       "repeats the work of 1F2 (position 3)"},
      {"order", false, [](Timetable& t) { std::swap(At(t, 1, "1F2"), At(t, 1, "1B2")); }, 1, 6,
       "1F2", "comes after 1B2 (position 3), which depends on it"},
      {"gradient order", false, [](Timetable& t) { std::swap(At(t, 2, "2B1"), At(t, 2, "2B2")); },
       2, 5, "2B1", "after micro-batch 2"},
      {"stage range", false, [](Timetable& t) { t.rows[1][0].stage = 9; }, 1, 0, "9F0",
       "outside 0..2"},
      {"micro-batch range", false, [](Timetable& t) { t.rows[1][0].micro_batch = 4; }, 1, 0, "1F4",
       "outside 0..3"},
      {"rank", false, [](Timetable& t) { t.rows[1][0].stage = 2; }, 1, 0, "2F0",
       "stage 2 is on rank 2"},
      {"cycle", false, [](Timetable& t) { std::swap(At(t, 0, "0F3"), At(t, 0, "0B3")); }, 0, 7,
       "0F3", "comes after 0B3"},
      {"wait", false, [](Timetable& t) { std::swap(At(t, 0, "0F1"), At(t, 0, "0B0")); }, 0, 1,
       "0B0", ""},
      {"pair", false, [](Timetable& t) { t.rows[1][2].overlaps_next = true; }, 1, 2, "1B0",
       "a pair is one F"},
      {"half a pair", false, [](Timetable& t) { t.rows[1].back().overlaps_next = true; }, 1, 7,
       "1B3", "two halves"},
      {"no receive", true, [](Timetable& t) { Drop(t, 2, "2RECV_F1"); }, 2, -1, "2RECV_F1",
       "is absent"},
      {"no send", true, [](Timetable& t) { Drop(t, 2, "2SEND_B1"); }, 2, -1, "2SEND_B1",
       "is absent"},
      {"late receive", true, [](Timetable& t) { std::swap(At(t, 2, "2RECV_F1"), At(t, 2, "2F1")); },
       2, -2, "2RECV_F1", "comes after 2F1"},
      {"early send", true, [](Timetable& t) { std::swap(At(t, 0, "0SEND_F1"), At(t, 0, "0F1")); },
       0, -2, "0F1", "comes after 0SEND_F1"},
      {"swapped sends", true,
       [](Timetable& t) {
         std::swap(At(t, 0, "0F0"), At(t, 0, "0F1"));
         std::swap(At(t, 0, "0SEND_F0"), At(t, 0, "0SEND_F1"));
       },
       1, -2, "1RECV_F0", "message 0 from rank 0 to rank 1 is 0SEND_F1"},
      {"to nowhere", true,
       [](Timetable& t) {
         t.rows[2].push_back({.op = Op::kSendForward, .stage = 2, .micro_batch = 0});
       },
       2, -2, "2SEND_F0", "there is no stage after stage 2"},
  };
  for (const Seeded& seeded : cases) {
    SCOPED_TRACE(seeded.name);
    Timetable table = *GenerateSchedule("1f1b", {3, 4});
    if (seeded.lowered) table = *LowerTimetable(table);
    seeded.damage(table);
    std::vector<std::string> found;
    bool located = false;
    for (const Defect& defect : FindDefects(table)) {
      found.push_back(ToString(defect));
      const bool right_place =
          defect.rank == seeded.rank && defect.action == seeded.action &&
          (seeded.position == -2 ? defect.position >= 0 : defect.position == seeded.position);
      located |= right_place && defect.message.find(seeded.message) != std::string::npos;
    }
    EXPECT_TRUE(located) << testing::PrintToString(found);
  }
}

TEST(FindDefects, FindsCrossedRendezvous) {
  // Two ranks that each send before they receive: fine with buffers, a deadlock when sends block.
  Timetable table;
  table.placement = Placement::Looped(2);
  table.micro_batches = 2;
  const auto action = [](Op op, int stage, int b) {
    return Action{.op = op, .stage = static_cast<uint16_t>(stage), .micro_batch = b};
  };
  table.rows = {
      {action(Op::kForward, 0, 0), action(Op::kSendForward, 0, 0), action(Op::kForward, 0, 1),
       action(Op::kSendForward, 0, 1), action(Op::kRecvBackward, 0, 0), action(Op::kBackward, 0, 0),
       action(Op::kRecvBackward, 0, 1), action(Op::kBackward, 0, 1)},
      {action(Op::kRecvForward, 1, 0), action(Op::kForward, 1, 0), action(Op::kBackward, 1, 0),
       action(Op::kSendBackward, 1, 0), action(Op::kRecvForward, 1, 1), action(Op::kForward, 1, 1),
       action(Op::kBackward, 1, 1), action(Op::kSendBackward, 1, 1)}};
  const std::vector<Defect> defects = FindDefects(table);
  ASSERT_EQ(defects.size(), 1u);
  EXPECT_THAT(defects[0].message,
              HasSubstr("deadlock: rank 0 waits at position 3 (0SEND_F1) for rank 1, "
                        "rank 1 waits at position 3 (1SEND_B0) for rank 0"));
  EXPECT_EQ(defects[0].rank, 0);
  EXPECT_EQ(defects[0].position, 3);
}

TEST(FindDefects, FindsCyclesAcrossRanks) {
  // Rank 0 wants the gradient of micro-batch 1 before it has done the forward of micro-batch 2,
  // which rank 1 does first.
  Timetable table = *GenerateSchedule("gpipe", {2, 2});
  auto& row = table.rows[0];
  std::swap(row[1], row[2]);  // 0F0 0B0 0F1 0B1, while rank 1 does both forwards first
  const std::vector<Defect> defects = FindDefects(table);
  ASSERT_EQ(defects.size(), 1u);
  EXPECT_THAT(defects[0].message, HasSubstr("cycle: rank 0 waits at position 1 (0B0) for rank 1"));
}

// A 1F1B in the form in which PyTorch's visualizer of timetables has written it.
TEST(FindDefects, SaysFirstThatAStageIsMisnumbered) {
  Timetable table = *GenerateSchedule("1f1b", {4, 8});
  for (Action& action : table.rows[3]) {
    if (action.op == Op::kForward) ++action.micro_batch;
  }
  table.micro_batches = 9;
  const std::vector<Defect> defects = FindDefects(table);
  ASSERT_GT(defects.size(), 1u);
  EXPECT_EQ(
      ToString(defects[0]),
      "rank 3, the forward actions of stage 3 are of micro-batches 1..8, those of most stages "
      "of 0..7: they are numbered 1 too high");
  EXPECT_EQ(FindDefects(table, 3).size(), 3u);
  EXPECT_THAT(FindDefects(table, 1).at(0).message, HasSubstr("1 too high"));
}

// The rows of `table` with micro-batch m - 1 - b instead of b.
Timetable Descending(Timetable table) {
  for (auto& row : table.rows) {
    for (Action& action : row) {
      if (MakesWeightGrad(action.op))
        action.micro_batch = table.micro_batches - 1 - action.micro_batch;
    }
  }
  return table;
}

// PyTorch's LoopedBFS; and GPipe as its paper draws it.
TEST(FindDefects, AcceptsAnotherOrderOfSumsThatAllStagesHave) {
  for (const char* schedule : {"gpipe", "bfs"}) {
    const Timetable table =
        Descending(*GenerateSchedule(schedule, {.ranks = 4, .micro_batches = 8, .chunks = 1}));
    EXPECT_TRUE(ValidateTimetable(table).ok()) << ValidateTimetable(table);
    const SumOrder order = SumOrder::Of(table);
    EXPECT_EQ(order.ToString(), "descending");
    for (int b = 0; b < 8; ++b) {
      EXPECT_EQ(order.position(b), 7 - b);
      EXPECT_EQ(order.micro_batch(order.position(b)), b);
    }
    EXPECT_TRUE(SumOrder::Of(*GenerateSchedule(schedule, {4, 8})).ascending());
    Timetable one_differs = table;
    std::reverse(one_differs.rows[2].begin() + 8, one_differs.rows[2].end());
    EXPECT_TRUE(SumOrder::Of(one_differs).ascending());
    EXPECT_THAT(FindDefects(one_differs).at(0).message,
                HasSubstr("another one that all stages have"));
  }
}

TEST(FindDefects, StopsAtItsLimit) {
  Timetable table = *GenerateSchedule("gpipe", {4, 50});
  for (auto& row : table.rows) row.clear();
  EXPECT_EQ(FindDefects(table).size(), 100u);
  EXPECT_EQ(FindDefects(table, 7).size(), 7u);
}

TEST(FindDefects, SurvivesMisshapenTables) {
  Timetable table = *GenerateSchedule("gpipe", {2, 2});
  table.rows.pop_back();
  EXPECT_THAT(FindDefects(table).at(0).message, HasSubstr("1 row for 2 ranks"));
  table = *GenerateSchedule("gpipe", {2, 2});
  table.micro_batches = 0;
  EXPECT_THAT(FindDefects(table).at(0).message, HasSubstr("0 micro-batches"));
  table.micro_batches = 2000000000;  // a single large number must not take gigabytes
  EXPECT_THAT(FindDefects(table).at(0).message, HasSubstr("2000000000 micro-batches"));
}

TEST(ValidateTimetable, ListsDefectsOnOneLine) {
  Timetable table = *GenerateSchedule("1f1b", {2, 2});
  for (auto& row : table.rows) row.erase(row.begin());
  EXPECT_THAT(std::string(ValidateTimetable(table).message()),
              AllOf(HasSubstr("timetable 1f1b is not sound: rank 0, 0F0: is absent; rank 1, "),
                    Not(HasSubstr("\n"))));
}

}  // namespace
}  // namespace sluice
