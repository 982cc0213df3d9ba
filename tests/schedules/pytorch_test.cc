#include "schedules/pytorch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <tuple>

#include "random_timetable.h"
#include "schedules/check/validate.h"
#include "schedules/csv.h"
#include "schedules/dependency.h"
#include "schedules/generators/catalogue.h"
#include "schedules/lower.h"
#include "tests/sanitizers.h"
#include "tests/shared_folder.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using Row = std::vector<Action>;

// (op, stage, micro-batch) of a send, whichever of its four actions is given.
using Message = std::tuple<bool, int, int>;
Message MessageOf(const Placement& placement, const Action& action) {
  const bool forward = action.op == Op::kSendForward || action.op == Op::kRecvForward ||
                       action.op == Op::kWaitSendForward;
  const bool receives = action.op == Op::kRecvForward || action.op == Op::kRecvBackward;
  const int stage = receives ? PeerStage(placement, action.op, action.stage) : int{action.stage};
  return {forward, stage, action.micro_batch};
}

// What PyTorch's runtime does with the rows: sends and receives are posted and go on by themselves,
// a computation waits for its receive, a WAIT_SEND for the other end, and messages between two
// ranks match in the order in which they were posted. Says what is wrong, or nothing.
class PyTorchMachine {
 public:
  explicit PyTorchMachine(const Timetable& table)
      : table_(table), next_(table.rows.size(), 0), reducing_(table.rows.size(), kNoStage) {}

  std::string Run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < table_.rows.size(); ++rank) {
        while (next_[rank] < table_.rows[rank].size() && why_.empty() &&
               Step(rank, table_.rows[rank][next_[rank]])) {
          ++next_[rank];
          moved = true;
        }
      }
    }
    if (!why_.empty()) return why_;
    for (size_t rank = 0; rank < table_.rows.size(); ++rank) {
      if (next_[rank] < table_.rows[rank].size()) {
        return "rank " + std::to_string(rank) + " waits for ever at " +
               ToString(table_.rows[rank][next_[rank]]);
      }
      if (reducing_[rank] != kNoStage) return "a REDUCE_GRAD has no wait";
    }
    if (!unwaited_.empty()) return "a send has no wait";
    for (int stage = 0; stage < table_.placement.stages(); ++stage) {
      if (reduced_[stage] != 1) return "a stage's gradients are not divided once";
      if (gradients_[stage] != table_.micro_batches) return "a gradient is missing";
    }
    return "";
  }

 private:
  bool Step(size_t rank, const Action& action) {
    const Placement& placement = table_.placement;
    switch (action.op) {
      case Op::kSendForward:
      case Op::kSendBackward:
      case Op::kRecvForward:
      case Op::kRecvBackward:
        Post(rank, action);
        return true;
      case Op::kWaitSendForward:
      case Op::kWaitSendBackward: {
        const Message message = MessageOf(placement, action);
        if (!unwaited_.contains(message)) return Fail(action, "waits for no send");
        if (!received_.contains(message)) return false;
        unwaited_.erase(message);
        return true;
      }
      case Op::kReduceGrad:
        if (reducing_[rank] != kNoStage) return Fail(action, "is the second at once");
        if (gradients_[action.stage] != table_.micro_batches) return Fail(action, "is too early");
        reducing_[rank] = action.stage;
        ++reduced_[action.stage];
        return true;
      case Op::kWaitReduceGrad:
        if (reducing_[rank] != action.stage) return Fail(action, "waits for nothing");
        reducing_[rank] = kNoStage;
        return true;
      case Op::kForward:
      case Op::kBackward:
      case Op::kInputGrad:
      case Op::kWeightGrad:
        if (!InputIsThere(rank, action)) return false;
        gradients_[action.stage] += MakesWeightGrad(action.op);
        done_.insert({MakesInputGrad(action.op), action.stage, action.micro_batch});
        return true;
      default:
        return Fail(action, "is unknown to PyTorch");
    }
  }

  void Post(size_t rank, const Action& action) {
    const Message message = MessageOf(table_.placement, action);
    const int peer = PeerStage(table_.placement, action.op, action.stage);
    const auto other = static_cast<size_t>(table_.placement.rank(peer));
    const bool sends = IsSend(action.op);
    const bool backward = action.op == Op::kSendBackward;
    if (sends && !done_.contains({backward, action.stage, action.micro_batch})) {
      Fail(action, "has nothing to send");
      return;
    }
    if (sends) unwaited_.insert(message);
    const auto channel = sends ? std::pair{rank, other} : std::pair{other, rank};
    auto& out = sends_[channel];
    auto& in = receives_[channel];
    (sends ? out : in).push_back(message);
    while (!out.empty() && !in.empty()) {
      if (out.front() != in.front()) {
        Fail(action, "meets another message");
        return;
      }
      received_.insert(out.front());
      out.pop_front();
      in.pop_front();
    }
  }

  bool InputIsThere(size_t rank, const Action& action) const {
    const int producer = ProducerStage(table_.placement, action.op, action.stage);
    if (producer == kNoStage) return true;
    const bool backward = action.op != Op::kForward;
    if (table_.placement.rank(producer) == static_cast<int>(rank)) {
      return done_.contains({backward, producer, action.micro_batch});
    }
    return received_.contains({!backward, producer, action.micro_batch});
  }

  bool Fail(const Action& action, const char* why) {
    why_ = ToString(action) + " " + why;
    return false;
  }

  const Timetable& table_;
  std::vector<size_t> next_;
  std::vector<int> reducing_;  // [rank] the stage of its REDUCE_GRAD that has no wait yet
  std::map<std::pair<size_t, size_t>, std::deque<Message>> sends_, receives_;  // (from, to)
  std::set<Message> unwaited_, received_;
  std::set<std::tuple<bool, int, int>> done_;  // (backward, stage, micro-batch)
  std::map<int, int> reduced_, gradients_;
  std::string why_;
};

Row Without(Row row, bool (*dropped)(Op)) {
  std::erase_if(row, [&](const Action& a) { return dropped(a.op); });
  return row;
}

Timetable WithoutPairs(Timetable table) {
  for (Row& row : table.rows) {
    for (Action& action : row) action.overlaps_next = false;
  }
  return table;
}

TEST(LowerForPyTorch, RunsThere) {
  Random random(3);
  for (int i = 0; i < Trials(1'000, 100); ++i) {
    const Timetable table = RandomTimetable(random);
    const auto lowered = LowerForPyTorch(table);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    ASSERT_EQ(PyTorchMachine(*lowered).Run(), "") << FormatTimetableCsv(*lowered);
    const auto older = LowerForPyTorch(table, {.version = PyTorchVersion::k2_8});
    EXPECT_EQ(older->rows, LowerTimetable(WithoutPairs(table))->rows);
    const auto plain = LowerTimetable(table);
    for (size_t rank = 0; rank < table.rows.size(); ++rank) {
      EXPECT_EQ(Without(lowered->rows[rank],
                        [](Op op) { return RunsNothing(op) || op == Op::kReduceGrad; }),
                plain->rows[rank]);
    }
    // What 2.8 does not have is taken out again.
    if (WithoutPairs(table).rows == table.rows) {
      EXPECT_EQ(LowerForPyTorch(*lowered, {.version = PyTorchVersion::k2_8})->rows, older->rows);
    }
    // It is complete, so nothing is added to it, also after a file.
    const auto back = ParseTimetableCsv(FormatTimetableCsv(*lowered), "lowered");
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->rows, lowered->rows);
    EXPECT_EQ(LowerForPyTorch(*back)->rows, lowered->rows);
    EXPECT_TRUE(ValidateTimetable(*back).ok()) << ValidateTimetable(*back);
    // An older file gets what is absent.
    EXPECT_EQ(LowerForPyTorch(*plain)->rows, lowered->rows);
  }
}

// The machine of this file finds what PyTorch would refuse or would wait for.
TEST(LowerForPyTorch, NeedsEachOfWhatItAdds) {
  const Timetable table = *GenerateSchedule("zbv", {2, 4, 2});
  const Timetable lowered = *LowerForPyTorch(table);
  ASSERT_EQ(PyTorchMachine(lowered).Run(), "");
  int tried = 0;
  for (size_t rank = 0; rank < lowered.rows.size(); ++rank) {
    for (size_t i = 0; i < lowered.rows[rank].size(); ++i) {
      if (IsCompute(lowered.rows[rank][i].op)) continue;
      Timetable damaged = lowered;
      damaged.rows[rank].erase(damaged.rows[rank].begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_NE(PyTorchMachine(damaged).Run(), "") << ToString(lowered.rows[rank][i]);
      ++tried;
    }
  }
  EXPECT_GT(tried, 40);
}

TEST(LowerForPyTorch, WritesWhatPyTorch215Writes) {
  EXPECT_EQ(FormatTimetableCsv(*LowerForPyTorch(*GenerateSchedule("1f1b", {2, 2}))),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0WAIT_SEND_F0,0RECV_B1,0B1,0WAIT_SEND_F1,"
            "0REDUCE_GRAD,0WAIT_REDUCE_GRAD\n"
            "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,"
            "1WAIT_SEND_B0,1WAIT_SEND_B1\n");
}

// The next `most` stages that are computed from `position` on, by looking at every cell.
std::vector<int> NextStages(const Row& row, size_t position, int most) {
  std::vector<int> stages;
  for (size_t i = position; i < row.size(); ++i) {
    const bool second = i > 0 && row[i - 1].overlaps_next;
    if (static_cast<int>(stages.size()) >= most && !second) break;
    if (!IsCompute(row[i].op)) continue;
    if (std::find(stages.begin(), stages.end(), row[i].stage) == stages.end()) {
      stages.push_back(row[i].stage);
    }
  }
  return stages;
}

// As the description of PyTorch's _add_unshard_reshard has it, cell by cell.
Row NaiveUnshards(const Row& row, int most) {
  Row result;
  std::vector<int> active;
  const auto whole = [](Op op, int stage) {
    return Action{.op = op, .stage = static_cast<uint16_t>(stage)};
  };
  for (size_t i = 0; i < row.size(); ++i) {
    const bool second = i > 0 && row[i - 1].overlaps_next;
    if (IsCompute(row[i].op) && !second) {
      const std::vector<int> next = NextStages(row, i, most);
      const auto wanted = [&](int s) { return std::count(next.begin(), next.end(), s) > 0; };
      for (const int stage : active) {
        if (!wanted(stage)) result.push_back(whole(Op::kReshard, stage));
      }
      std::erase_if(active, [&](int s) { return !wanted(s); });
      for (const int stage : next) {
        if (std::count(active.begin(), active.end(), stage) > 0) continue;
        active.push_back(stage);
        result.push_back(whole(Op::kUnshard, stage));
      }
    }
    result.push_back(row[i]);
  }
  for (const int stage : active) result.push_back(whole(Op::kReshard, stage));
  return result;
}

TEST(LowerForPyTorch, GathersParametersAsPyTorchDoes) {
  Random random(4);
  int resharded = 0;
  for (int i = 0; i < Trials(600, 60); ++i) {
    const Timetable table = RandomTimetable(random);
    const int most = Draw(random, 2, 4);
    const Timetable plain = *LowerForPyTorch(table);
    const auto sharded = LowerForPyTorch(table, {.max_active_stages = most});
    ASSERT_TRUE(sharded.ok()) << sharded.status();
    for (size_t rank = 0; rank < table.rows.size(); ++rank) {
      ASSERT_EQ(sharded->rows[rank], NaiveUnshards(plain.rows[rank], most))
          << FormatTimetableCsv(plain);
      resharded +=
          static_cast<int>(std::count_if(sharded->rows[rank].begin(), sharded->rows[rank].end(),
                                         [](const Action& a) { return a.op == Op::kReshard; }));
    }
    EXPECT_TRUE(ValidateTimetable(*sharded).ok()) << ValidateTimetable(*sharded);
  }
  EXPECT_GT(resharded, 100);
  const auto pair =
      LowerForPyTorch(*GenerateSchedule("dualpipev", {2, 4, 2}), {.max_active_stages = 1});
  EXPECT_THAT(std::string(pair.status().message()), HasSubstr("at least 2, not 1"));
}

TEST(LowerForPyTorch, RefusesWhatPyTorchCannotRun) {
  const auto why = [](const char* name, const ScheduleRequest& request) {
    return std::string(LowerForPyTorch(*GenerateSchedule(name, request)).status().message());
  };
  EXPECT_THAT(why("chimera", {2, 4, 2}), HasSubstr("two copies of the model"));
  EXPECT_THAT(why("pipedream", {2, 4}), HasSubstr("weights change while"));
  EXPECT_THAT(why("pipedream-2bw", {2, 4}), HasSubstr("weights change while"));
  Timetable table = *GenerateSchedule("gpipe", {2, 2});
  EXPECT_EQ(WhyNotForPyTorch(table), "");
  Random random(5);
  AddRecomputes(random, table);
  while (WhyNotForPyTorch(table).empty()) AddRecomputes(random, table);
  EXPECT_THAT(WhyNotForPyTorch(table), HasSubstr("no RECOMPUTE"));
}

// Files that PyTorch wrote with sends and receives come back as they were.
TEST(LowerForPyTorch, KeepsPyTorchsFiles) {
  const std::filesystem::path folder = SharedFolder() / "data" / "schedules";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    const auto table = ParseTimetableCsv(text.str(), entry.path().string());
    ASSERT_TRUE(table.ok()) << table.status();
    if (!table->lowered()) continue;
    ++files;
    const auto same = LowerForPyTorch(*table, {.version = PyTorchVersion::k2_8});
    EXPECT_EQ(FormatTimetableCsv(*same, LineEndOf(text.str())), text.str()) << entry.path();
    EXPECT_EQ(PyTorchMachine(*LowerForPyTorch(*table)).Run().find("waits for ever"),
              std::string::npos);
  }
  EXPECT_GE(files, 2);
}

}  // namespace
}  // namespace sluice
