// Random sound tables, each damaged once in one known way: every damage is found, and its place is
// named.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "naive.h"
#include "random_timetable.h"
#include "rendezvous.h"
#include "schedules/check/validate.h"
#include "schedules/csv.h"
#include "schedules/dependency.h"
#include "schedules/lower.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

constexpr int kTables = Trials(1'500, 150);

using Row = std::vector<Action>;

// The place of the damage: the rank, and the action that an error must name.
struct Damage {
  int rank;
  Action action;
};

bool Runs(const Action& a) { return a.op != Op::kIdle; }
bool Communicates(const Action& a) { return IsCommunication(a.op); }
bool Receives(const Action& a) { return IsCommunication(a.op) && !IsSend(a.op); }

// A random position of a random rank whose action is `wanted`.
template <typename Wanted>
std::optional<std::pair<int, int>> Pick(Random& random, const Timetable& table, Wanted wanted) {
  std::vector<std::pair<int, int>> spots;
  for (int rank = 0; rank < table.placement.ranks(); ++rank) {
    for (int i = 0; i < static_cast<int>(table.rows[rank].size()); ++i) {
      if (wanted(table.rows[rank][i])) spots.emplace_back(rank, i);
    }
  }
  if (spots.empty()) return std::nullopt;
  return spots[Draw(random, 0, static_cast<int>(spots.size()) - 1)];
}

std::optional<Damage> Drop(Random& random, Timetable& table) {
  const auto spot = Pick(random, table, Runs);
  Row& row = table.rows[spot->first];
  const Damage damage{spot->first, row[spot->second]};
  row.erase(row.begin() + spot->second);
  return damage;
}

std::optional<Damage> Duplicate(Random& random, Timetable& table) {
  const auto spot = Pick(random, table, Runs);
  Row& row = table.rows[spot->first];
  Action copy = row[spot->second];
  copy.overlaps_next = false;
  row.push_back(copy);
  return Damage{spot->first, copy};
}

std::optional<Damage> MoveOutOfRange(Random& random, Timetable& table) {
  const auto spot = Pick(random, table, Runs);
  Action& action = table.rows[spot->first][spot->second];
  if (Draw(random, 0, 1) == 0) {
    action.micro_batch = table.micro_batches + Draw(random, 0, 5);
  } else {
    action.stage = static_cast<uint16_t>(table.placement.stages() + Draw(random, 0, 5));
  }
  return Damage{spot->first, action};
}

// Puts the backward of a (stage, micro-batch) before its forward.
std::optional<Damage> Reorder(Random& random, Timetable& table) {
  const auto spot = Pick(random, table, [](const Action& a) { return MakesInputGrad(a.op); });
  Row& row = table.rows[spot->first];
  const Action backward = row[spot->second];
  for (Action& action : row) {
    if (action.op != Op::kForward || action.stage != backward.stage ||
        action.micro_batch != backward.micro_batch) {
      continue;
    }
    std::swap(action.op, row[spot->second].op);
    return Damage{spot->first, {Op::kForward, false, action.stage, action.micro_batch}};
  }
  return std::nullopt;
}

std::optional<Damage> LoseAReceive(Random& random, Timetable& table) {
  const auto spot = Pick(random, table, Receives);
  if (!spot.has_value()) return std::nullopt;
  Row& row = table.rows[spot->first];
  const Damage damage{spot->first, row[spot->second]};
  row.erase(row.begin() + spot->second);
  return damage;
}

// Exchanges two sends, or two receives, of one channel: the messages meet in the wrong order.
std::optional<Damage> SwapOnOneChannel(Random& random, Timetable& table) {
  const bool sends = Draw(random, 0, 1) == 0;
  const auto on_this_side = [&](const Action& a) {
    return Communicates(a) && IsSend(a.op) == sends;
  };
  const auto spot = Pick(random, table, on_this_side);
  if (!spot.has_value()) return std::nullopt;
  Row& row = table.rows[spot->first];
  Action& first = row[spot->second];
  const auto peer = [&](const Action& a) {
    return table.placement.rank(PeerStage(table.placement, a.op, a.stage));
  };
  for (int i = spot->second + 1; i < static_cast<int>(row.size()); ++i) {
    if (!on_this_side(row[i]) || peer(row[i]) != peer(first)) continue;
    // Errors are reported at the receiving end, where the other message was expected.
    const int receiver = sends ? peer(first) : spot->first;
    std::swap(first, row[i]);
    return Damage{receiver, {}};
  }
  return std::nullopt;
}

struct Kind {
  const char* name;
  bool lowered;
  std::optional<Damage> (*damage)(Random&, Timetable&);
};

constexpr Kind kKinds[] = {{"dropped", false, Drop},
                           {"dropped from a lowered table", true, Drop},
                           {"duplicated", false, Duplicate},
                           {"duplicated in a lowered table", true, Duplicate},
                           {"out of range", false, MoveOutOfRange},
                           {"out of range in a lowered table", true, MoveOutOfRange},
                           {"reordered", false, Reorder},
                           {"reordered in a lowered table", true, Reorder},
                           {"missing receive", true, LoseAReceive},
                           {"swapped on a channel", true, SwapOnOneChannel}};

bool Names(const Defect& defect, const Damage& damage) {
  if (defect.rank != damage.rank) return false;
  if (damage.action.op == Op::kIdle) return true;
  const std::string action = ToString(damage.action);
  return defect.action == action || defect.message.find(action) != std::string::npos;
}

TEST(Mutation, EveryDamageIsFoundAndItsPlaceNamed) {
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.name);
    Random random(21);
    int damaged = 0;
    for (int i = 0; i < kTables; ++i) {
      Timetable table = RandomTimetable(random);
      if (kind.lowered) table = *LowerTimetable(table);
      const auto damage = kind.damage(random, table);
      if (!damage.has_value()) continue;
      ++damaged;
      ASSERT_FALSE(NaiveIsSound(table)) << FormatTimetableCsv(table);
      const std::vector<Defect> defects = FindDefects(table);
      const bool named = std::any_of(defects.begin(), defects.end(),
                                     [&](const Defect& d) { return Names(d, *damage); });
      ASSERT_TRUE(named) << damage->rank << " " << ToString(damage->action) << "\n"
                         << FormatTimetableCsv(table) << testing::PrintToString(defects.size())
                         << (defects.empty() ? "" : ToString(defects[0]));
    }
    EXPECT_GT(damaged, kTables / 4);
  }
}

// Moves one receive to another place in its row. Most such tables can no longer run; the validator
// and a machine with blocking rendezvous, which has no rules, agree on which.
TEST(Mutation, DeadlocksAreThoseThatAMachineRunsInto) {
  Random random(22);
  int deadlocks = 0;
  int sound = 0;
  for (int i = 0; i < 4 * kTables; ++i) {
    Timetable table = *LowerTimetable(RandomTimetable(random));
    const auto spot = Pick(random, table, Draw(random, 0, 1) == 0 ? Receives : Communicates);
    if (!spot.has_value()) continue;
    Row& row = table.rows[spot->first];
    const Action moved = row[spot->second];
    row.erase(row.begin() + spot->second);
    int to = Draw(random, 0, static_cast<int>(row.size()));
    if (to > 0 && row[to - 1].overlaps_next) --to;
    row.insert(row.begin() + to, moved);
    const std::string outcome = RunWithRendezvous(table, random, false);
    const bool found = !FindDefects(table).empty();
    ASSERT_EQ(found, !outcome.empty()) << outcome << "\n" << FormatTimetableCsv(table);
    deadlocks += outcome == "deadlock";
    sound += outcome.empty();
  }
  EXPECT_GT(deadlocks, kTables / 10);
  EXPECT_GT(sound, kTables / 10);
}

}  // namespace
}  // namespace sluice
