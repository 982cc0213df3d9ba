// Which processes form a group, and what happens where one is lost: without processes or time.
#include "tools/launch/roster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tools/command.h"

namespace sluice {
namespace {

using Kind = MemberMessage::Kind;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Processes that do what they are told at once, unless they are held back.
class World {
 public:
  explicit World(const RosterOptions& options) : roster(options) {}

  // Carries out orders until there are no more.
  void Settle() {
    for (std::vector<Roster::Order> orders; !(orders = roster.Orders(now)).empty();) {
      for (const Roster::Order& order : orders) Obey(order);
    }
  }
  void Say(int process, MemberMessage message) {
    roster.Take(process, message, now);
    Settle();
  }
  void Waits(int process) {
    Say(process, {.kind = Kind::kWaiting,
                  .port = 1000 + process,
                  .held_rank = held.contains(process) ? held[process] : -1,
                  .timeout_ms = 30'000});
  }
  void WaitsAsSpare(int process) {
    held.erase(process);
    Say(process,
        {.kind = Kind::kWaiting, .port = 1000 + process, .spare = 1, .timeout_ms = 30'000});
  }
  void Dies(int process, int signal = 9) {
    held.erase(process);
    roster.Ended(process, {.by_signal = true, .code = signal}, now);
    Settle();
  }
  void Ends(int process, int code, const std::string& text = "") {
    MemberMessage message{.kind = Kind::kEnding, .exit_code = code};
    message.SetText(text);
    Say(process, message);
    roster.Ended(process, {.by_signal = false, .code = code}, now);
    Settle();
  }
  void Pass(absl::Duration time) {
    now += time;
    Settle();
  }
  // [rank] of the last group.
  std::vector<int> Group() const {
    std::vector<int> processes;
    for (const auto& [rank, process] : group) processes.push_back(process);
    return processes;
  }

  Roster roster;
  absl::Duration now = absl::ZeroDuration();
  bool prompt = true;            // processes are ready as soon as they are started
  std::vector<int> started;      // processes
  std::map<int, int> group;      // by rank
  std::map<int, int> held;       // rank of the state, by process
  int givers = 0, meetings = 0;  // of the last group; in all
  std::string work;              // that the last group was told
  bool replans = true;           // likewise
  bool saved = false;            // likewise
  std::string found;             // likewise
  LyingRank lie;                 // likewise
  int64_t vouched = 0;           // likewise
  std::vector<int> silent;       // processes that stand still
  CoreSet cores, left_out;       // that ranks may have to themselves; that the last group was told
  std::vector<int> killed, told_to_regroup, told_back, told_over, told_to_stop;

 private:
  // As the processes choose them: the rank-th of those that are not left out, if there are so many.
  CoreSet CoresOf(int rank) const {
    const std::vector<int> sound = CoreNumbers(cores & ~left_out);
    CoreSet own;
    if (static_cast<size_t>(rank) < sound.size())
      own.set(static_cast<size_t>(sound[static_cast<size_t>(rank)]));
    return own;
  }
  void Obey(const Roster::Order& order) {
    const int process = order.process;
    if (order.kind == Roster::Order::Kind::kStart) {
      started.push_back(process);
      if (prompt) Queue(process);
      return;
    }
    if (order.kind == Roster::Order::Kind::kKill) return killed.push_back(process);
    switch (order.message.kind) {
      case Kind::kGroup:
        if (order.message.rank == 0) group.clear();
        group[order.message.rank] = process;
        givers = order.message.givers;
        work = order.message.text.data();
        replans = order.message.replans != 0;
        saved = order.message.saved != 0;
        found = order.message.took != 0 ? order.message.found.data() : "nobody has looked";
        lie = order.message.lie;
        vouched = order.message.vouched_step;
        if (order.message.rank < order.message.size - givers) held[process] = order.message.rank;
        left_out = order.message.cores;
        roster.Take(process, {.kind = Kind::kPrepared, .cores = CoresOf(order.message.rank)}, now);
        return;
      case Kind::kMeet:
        ++meetings;
        return;
      case Kind::kRegroup:
        return told_to_regroup.push_back(process);
      case Kind::kBack:
        told_back.push_back(process);
        return Queue(process);
      case Kind::kStop:
        return told_to_stop.push_back(process);
      case Kind::kOver:
        return told_over.push_back(process);
      case Kind::kAsk:
        if (std::find(silent.begin(), silent.end(), process) == silent.end())
          roster.Take(process, {.kind = Kind::kHere}, now);
        return;
      default:
        FAIL() << "a supervisor does not say that";
    }
  }
  void Queue(int process) {
    roster.Take(process,
                {.kind = Kind::kWaiting,
                 .port = 1000 + process,
                 .held_rank = held.contains(process) ? held[process] : -1,
                 .timeout_ms = 30'000},
                now);
  }
};

TEST(RosterTest, StartsOneProcessFirstThenTheOthers) {
  World world({.processes = 3, .min_ranks = 3});
  world.prompt = false;
  world.Settle();
  EXPECT_THAT(world.started, ElementsAre(0));
  world.Waits(0);
  EXPECT_THAT(world.started, ElementsAre(0, 1, 2));
  world.Waits(2);
  world.Pass(absl::Hours(1));  // the first group waits for all
  EXPECT_EQ(world.meetings, 0);
  world.Waits(1);
  EXPECT_THAT(world.Group(), ElementsAre(0, 1, 2));
  EXPECT_EQ(world.meetings, 3);
}

TEST(RosterTest, SaysOnceWhatIsWrongWithTheFlags) {
  World world({.processes = 3, .min_ranks = 1, .max_restarts = 5});
  world.prompt = false;
  world.Settle();
  world.roster.Ended(0, {.by_signal = false, .code = kExitBadInput}, world.now);
  world.Settle();
  EXPECT_THAT(world.started, ElementsAre(0));
  EXPECT_TRUE(world.roster.done());
  EXPECT_EQ(world.roster.exit_code(), kExitBadInput);
  EXPECT_EQ(world.roster.text(), "");  // the process has said it
}

TEST(RosterTest, ReplacesALostRankAndKeepsTheRanksOfTheOthers) {
  World world({.processes = 3, .min_ranks = 3, .max_restarts = 1});
  world.Settle();
  world.Dies(1);
  EXPECT_THAT(world.started, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(world.meetings, 3);
  world.Waits(2);
  EXPECT_EQ(world.meetings, 3);
  world.Waits(0);
  EXPECT_THAT(world.Group(), ElementsAre(0, 3, 2));
  EXPECT_EQ(world.meetings, 6);
  const std::vector<Roster::Event> events = world.roster.TakeEvents();
  ASSERT_EQ(events.size(), 5U);  // three have joined before
  EXPECT_EQ(events[3].kind, Roster::Event::Kind::kLost);
  EXPECT_EQ(events[3].rank, 1);
  EXPECT_EQ(events[3].restarts_left, 0);
  // The next loss is the end, since all three are needed.
  world.Dies(0);
  world.Waits(2);
  world.Waits(3);
  EXPECT_THAT(world.told_over, ElementsAre(2, 3));
  world.Ends(2, kExitInterrupted);
  world.Ends(3, kExitInterrupted);
  EXPECT_TRUE(world.roster.done());
  EXPECT_EQ(world.roster.exit_code(), kExitPeerLost);
  EXPECT_THAT(world.roster.text(), HasSubstr("2 processes are left; expected at least 3"));
}

constexpr LyingRank kLie = {.rank = 1, .stage = 2, .micro_batch = 3, .step = 10, .good_step = 4};

MemberMessage Lied(const LyingRank& lie = kLie) {
  MemberMessage message{.kind = Kind::kLied, .lie = lie};
  message.SetText("rank 1 computes wrong");
  return message;
}

TEST(RosterTest, ARankThatComputesWrongIsEndedAndReplaced) {
  World world({.processes = 3, .min_ranks = 3, .max_restarts = 1});
  world.Settle();
  EXPECT_EQ(world.vouched, -1);
  world.Say(0, {.kind = Kind::kVouched, .vouched_step = 4});
  world.Say(2, {.kind = Kind::kVouched, .vouched_step = 9});  // not rank 0
  world.Say(0, {.kind = Kind::kSaved});
  world.held.clear();
  world.Say(2, Lied());
  EXPECT_THAT(world.killed, ElementsAre(1));
  world.Waits(2);
  // Whatever it says is not heard, of others neither.
  world.Say(1, Lied({.rank = 0, .step = 10, .good_step = 9}));
  world.Waits(1);
  world.Say(0, Lied({.rank = 2, .step = 10, .good_step = 9}));
  world.Waits(0);
  EXPECT_THAT(world.killed, ElementsAre(1));
  EXPECT_EQ(world.meetings, 3);
  world.Dies(1);
  EXPECT_THAT(world.Group(), ElementsAre(0, 2, 3));  // nobody holds anything
  EXPECT_EQ(world.meetings, 6);
  EXPECT_EQ(world.lie.rank, 1);
  EXPECT_EQ(world.lie.step, 10);
  EXPECT_EQ(world.lie.good_step, 4);
  EXPECT_EQ(world.vouched, 4);
  EXPECT_TRUE(world.saved);
  const std::vector<Roster::Event> events = world.roster.TakeEvents();
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(events[3].kind, Roster::Event::Kind::kLost);
  EXPECT_EQ(events[3].process, 1);
  EXPECT_EQ(events[3].lie.micro_batch, 3);
  EXPECT_FALSE(events[3].hung);
  EXPECT_EQ(events[3].restarts_left, 0);
}

// By which a later rank 0 knows the checkpoints of the run that nobody could tell of.
TEST(RosterTest, EveryGroupIsToldWhatTheRunFoundInItsDirectory) {
  World world({.processes = 2, .min_ranks = 1, .max_restarts = 3});
  world.Settle();
  const auto take = [&world](int process, const std::string& found) {
    MemberMessage message{.kind = Kind::kTook};
    message.SetFound(found);
    world.Say(process, message);
  };
  take(1, "not rank 0's");
  world.Waits(1);
  world.Dies(0);
  EXPECT_EQ(world.found, "nobody has looked");
  EXPECT_FALSE(world.saved);
  take(world.Group()[0], "of another run");
  take(world.Group()[0], "of this run");  // only the first time counts
  const int leader = world.Group()[0];
  world.Waits(world.Group()[1]);
  world.Dies(leader);
  EXPECT_EQ(world.found, "of another run");
  EXPECT_FALSE(world.saved);
}

TEST(RosterTest, EveryGroupIsToldOfTheLieUntilNothingIsLeftOfIt) {
  World world({.processes = 3, .min_ranks = 1, .max_restarts = 0});
  world.Settle();
  world.Say(0, {.kind = Kind::kSaved});
  world.Say(0, Lied());
  world.Waits(0);
  world.Waits(2);
  world.Dies(1);
  EXPECT_THAT(world.Group(), ElementsAre(0, 2));
  EXPECT_EQ(world.lie.rank, 1);
  world.Dies(0);  // before it has removed a checkpoint
  world.Waits(2);
  EXPECT_THAT(world.Group(), ElementsAre(2));
  EXPECT_EQ(world.lie.good_step, 4);
  EXPECT_TRUE(world.saved);
  world.Say(2, {.kind = Kind::kRewound, .saved = 0});
  world.roster.Grow();
  world.Settle();
  world.Waits(2);
  EXPECT_THAT(world.Group(), ElementsAre(2, 3));
  EXPECT_FALSE(world.lie.found());
  EXPECT_FALSE(world.saved);
  EXPECT_EQ(world.vouched, 4);
}

// It may have lost its peers before it could say who lies.
TEST(RosterTest, ALiarThatIsBackBeforeItIsFoundIsEndedToo) {
  World world({.processes = 3, .min_ranks = 1, .max_restarts = 0});
  world.Settle();
  world.Waits(1);
  world.Say(0, Lied());
  EXPECT_THAT(world.killed, ElementsAre(1));
  world.Waits(0);
  world.Waits(2);
  EXPECT_EQ(world.meetings, 3);
  world.Dies(1);
  EXPECT_THAT(world.Group(), ElementsAre(0, 2));
}

// What the others hold is as wrong as if it were still there.
TEST(RosterTest, ALieCountsThoughTheRankIsGone) {
  World world({.processes = 3, .min_ranks = 1, .max_restarts = 0});
  world.Settle();
  world.Dies(1);
  world.Say(0, Lied());
  world.Waits(0);
  world.Waits(2);
  EXPECT_THAT(world.Group(), ElementsAre(0, 2));
  EXPECT_EQ(world.lie.good_step, 4);
  EXPECT_FALSE(world.roster.TakeEvents().back().lie.found());
}

// Weights that memory has lost a bit of, of a step that no audit vouches for.
TEST(RosterTest, ALieDoesNotVouchForMoreThanAuditsDo) {
  World world({.processes = 3, .min_ranks = 1, .max_restarts = 0});
  world.Settle();
  world.Say(0, {.kind = Kind::kVouched, .vouched_step = 2});
  world.Say(0, Lied());
  world.Waits(0);
  world.Waits(2);
  world.Dies(1);
  EXPECT_EQ(world.lie.good_step, 4);
  EXPECT_EQ(world.vouched, 2);
}

TEST(RosterTest, EndsWhereTheLiarWasNeeded) {
  World world({.processes = 2, .min_ranks = 2, .max_restarts = 0});
  world.Settle();
  world.Say(0, Lied());
  world.Waits(0);
  world.Dies(1);
  EXPECT_THAT(world.told_over, ElementsAre(0));
  world.Ends(0, kExitInterrupted);
  EXPECT_EQ(world.roster.exit_code(), kExitPeerLost);
  EXPECT_THAT(world.roster.text(),
              AllOf(HasSubstr("rank 1 computes wrong; "), HasSubstr("1 process is left")));
}

CoreSet Cores(const std::vector<int>& numbers) {
  CoreSet cores;
  for (const int number : numbers) cores.set(static_cast<size_t>(number));
  return cores;
}

// Three ranks, of which rank 1 has core 3 of these, and is found to compute wrong.
World AfterALie(RosterOptions options, const std::vector<int>& cores, const LyingRank& lie = {}) {
  options.processes = 3;
  options.cores = Cores(cores);
  World world(options);
  world.cores = options.cores;
  world.Settle();
  world.Say(0, lie.found() ? Lied(lie) : Lied());
  world.Waits(0);
  world.Waits(2);
  world.Dies(1);
  return world;
}

TEST(RosterTest, TheCoreThatComputedWrongIsLeftOut) {
  World world = AfterALie({.min_ranks = 1, .max_restarts = 2}, {2, 3, 5, 8});
  EXPECT_THAT(world.started, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(world.left_out, Cores({3}));
  EXPECT_EQ(world.roster.left_out(), Cores({3}));
  EXPECT_EQ(world.meetings, 6);
  Roster::Event lost = world.roster.TakeEvents()[3];
  EXPECT_EQ(lost.left_out, Cores({3}));
  EXPECT_FALSE(lost.no_core);
  // Ranks 0, 1 and 2 have cores 2, 5 and 8 now, and the next one is left out too.
  world.Say(0, {.kind = Kind::kRewound, .saved = 0});
  world.Say(0, Lied({.rank = 2, .step = 20, .good_step = 14}));
  for (const int process : {0, 3}) world.Waits(process);
  world.Dies(2);
  lost = world.roster.TakeEvents().back();
  EXPECT_EQ(lost.left_out, world.roster.left_out() & ~Cores({3}));
  EXPECT_EQ(lost.left_out.count(), 1U);
  EXPECT_FALSE(lost.left_out.test(2));
}

TEST(RosterTest, OneLessGoesOnWhereNoOtherCoreIsFree) {
  World world = AfterALie({.min_ranks = 2, .max_restarts = 2}, {2, 3, 5});
  EXPECT_THAT(world.Group(), ElementsAre(0, 2));
  EXPECT_EQ(world.started.size(), 3U);
  EXPECT_EQ(world.left_out, Cores({3}));
  const Roster::Event lost = world.roster.TakeEvents()[3];
  EXPECT_TRUE(lost.no_core);
  EXPECT_EQ(lost.restarts_left, 2);
}

// Whoever takes its place has been started by then, and leaves the core when the group forms.
TEST(RosterTest, ACoreIsLeftOutThoughTheRankIsGone) {
  World world({.processes = 3, .min_ranks = 3, .max_restarts = 1, .cores = Cores({2, 3, 5, 8})});
  world.cores = Cores({2, 3, 5, 8});
  world.Settle();
  world.Dies(1);
  world.roster.TakeEvents();
  world.Say(0, Lied());
  const std::vector<Roster::Event> events = world.roster.TakeEvents();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, Roster::Event::Kind::kLeftOut);
  EXPECT_EQ(events[0].rank, 1);
  EXPECT_EQ(events[0].left_out, Cores({3}));
  world.Waits(0);
  world.Waits(2);
  EXPECT_EQ(world.meetings, 6);
  EXPECT_EQ(world.left_out, Cores({3}));
}

// A core that is shared is better than one that computes wrong.
TEST(RosterTest, RanksShareCoresWhereFewerMayNotGoOn) {
  World world = AfterALie({.min_ranks = 3, .max_restarts = 2}, {2, 3, 5});
  EXPECT_EQ(world.started.size(), 4U);
  EXPECT_EQ(world.meetings, 6);
  EXPECT_EQ(world.left_out, Cores({3}));
  EXPECT_FALSE(world.roster.TakeEvents()[3].no_core);
}

TEST(RosterTest, NothingIsLeftOutWhereTheCoreIsNotKnown) {
  World world = AfterALie({.min_ranks = 2, .max_restarts = 2}, {2});  // rank 0 has it to itself
  EXPECT_EQ(world.started.size(), 4U);
  EXPECT_TRUE(world.left_out.none());
  EXPECT_TRUE(world.roster.TakeEvents()[3].left_out.none());
}

TEST(RosterTest, MemoryThatLosesABitIsThatOfAllCores) {
  World world = AfterALie({.min_ranks = 3, .max_restarts = 2}, {2, 3, 5},
                          {.rank = 1, .step = 10, .good_step = 9, .others_hold_right = true});
  EXPECT_EQ(world.started.size(), 4U);
  EXPECT_TRUE(world.left_out.none());
}

TEST(RosterTest, EndsWhereEveryCoreHasComputedWrong) {
  World world =
      AfterALie({.min_ranks = 1, .max_restarts = 2}, {2}, {.rank = 0, .step = 10, .good_step = 4});
  EXPECT_TRUE(world.told_over.empty());  // rank 0 is being ended
  world.Dies(0);
  EXPECT_THAT(world.told_over, testing::Contains(2));
  EXPECT_EQ(world.roster.exit_code(), kExitPeerLost);
  EXPECT_THAT(world.roster.text(), HasSubstr("it had core 2, and there is no core that"));
}

TEST(RosterTest, GoesOnWithThoseThatAreLeft) {
  World world({.processes = 3, .min_ranks = 1, .max_restarts = 0});
  world.Settle();
  world.Dies(0);
  world.Waits(1);
  world.Waits(2);
  EXPECT_THAT(world.Group(), ElementsAre(1, 2));
  world.Dies(2);
  world.Waits(1);
  EXPECT_THAT(world.Group(), ElementsAre(1));
  world.Ends(1, kExitDone);
  EXPECT_TRUE(world.roster.done());
  EXPECT_EQ(world.roster.exit_code(), kExitDone);
}

TEST(RosterTest, DoesNotWaitForeverForAReplacement) {
  World world({.processes = 2, .min_ranks = 1, .max_restarts = 1});
  world.Settle();
  world.prompt = false;
  world.Dies(1);
  world.Waits(0);
  EXPECT_THAT(world.started, ElementsAre(0, 1, 2));
  EXPECT_THAT(world.Group(), ElementsAre(0, 1));
  world.Pass(absl::Milliseconds(1999));
  EXPECT_THAT(world.Group(), ElementsAre(0, 1));
  EXPECT_EQ(world.roster.NextDeadline(world.now), absl::Seconds(2));
  world.Pass(absl::Milliseconds(1));
  EXPECT_THAT(world.Group(), ElementsAre(0));
  world.told_to_regroup.clear();
  // It comes late: the group ends after its step, and both go on.
  world.Waits(2);
  EXPECT_THAT(world.told_to_regroup, ElementsAre(0));
  world.Waits(0);
  EXPECT_THAT(world.Group(), ElementsAre(0, 2));
}

TEST(RosterTest, EndsWhoDoesNotAnswer) {
  World world({.processes = 3, .min_ranks = 3, .max_restarts = 2});
  world.Settle();
  // Rank 0 has waited for rank 2 in vain.
  world.Say(0, {.kind = Kind::kWaiting, .held_rank = 0, .missing = 2, .timeout_ms = 30'000});
  EXPECT_THAT(world.killed, ElementsAre(2));
  world.Dies(2);
  EXPECT_EQ(world.meetings, 3);
  const std::vector<Roster::Event> events = world.roster.TakeEvents();
  EXPECT_THAT(events, testing::Contains(testing::AllOf(
                          testing::Field(&Roster::Event::kind, Roster::Event::Kind::kLost),
                          testing::Field(&Roster::Event::hung, true))));
  // Rank 1 neither comes back nor is named.
  world.Pass(absl::Seconds(29));
  EXPECT_THAT(world.killed, ElementsAre(2));
  world.Pass(absl::Seconds(2));
  EXPECT_THAT(world.killed, ElementsAre(2, 1));
  world.Dies(1);
  EXPECT_THAT(world.Group(), ElementsAre(0, 3, 4));
}

// One rank alone, which nobody waits for: the time-out is 30 s.
TEST(RosterTest, EndsAProcessThatStandsStill) {
  World world({.processes = 1, .min_ranks = 1, .max_restarts = 1});
  world.Settle();
  for (int second = 0; second < 100; ++second) world.Pass(absl::Seconds(1));
  EXPECT_THAT(world.killed, testing::IsEmpty());
  world.silent = {0};
  for (int second = 0; second < 30; ++second) {
    EXPECT_LE(world.roster.NextDeadline(world.now), world.now + absl::Seconds(1));
    world.Pass(absl::Seconds(1));
  }
  EXPECT_THAT(world.killed, testing::IsEmpty());
  world.Pass(absl::Seconds(1));
  EXPECT_THAT(world.killed, ElementsAre(0));
  world.Pass(absl::Seconds(100));
  EXPECT_THAT(world.killed, ElementsAre(0));
  world.Dies(0);
  const std::vector<Roster::Event> events = world.roster.TakeEvents();
  EXPECT_THAT(events, testing::Contains(testing::AllOf(
                          testing::Field(&Roster::Event::kind, Roster::Event::Kind::kLost),
                          testing::Field(&Roster::Event::hung, true))));
  EXPECT_THAT(world.Group(), ElementsAre(1));
}

TEST(RosterTest, APauseOfTheWholeJobIsNoFault) {
  World world({.processes = 2, .min_ranks = 1});
  world.Settle();
  world.silent = {0, 1};
  world.Pass(absl::Seconds(1));  // asked, and stopped before an answer
  for (int pause = 0; pause < 10; ++pause) world.Pass(absl::Hours(1));
  EXPECT_THAT(world.killed, testing::IsEmpty());
  world.silent = {};
  for (int process : {0, 1}) world.Say(process, {.kind = Kind::kHere});
  for (int second = 0; second < 100; ++second) world.Pass(absl::Seconds(1));
  EXPECT_THAT(world.killed, testing::IsEmpty());
}

TEST(RosterTest, CallsBackWhoPreparesForALostGroup) {
  World world({.processes = 2, .min_ranks = 2, .max_restarts = 1});
  world.prompt = false;
  world.Settle();
  world.Waits(0);
  // Process 1 has got its place, and dies before it is ready.
  world.roster.Take(1, {.kind = Kind::kWaiting, .timeout_ms = 30'000}, world.now);
  (void)world.roster.Orders(world.now);
  world.roster.Take(0, {.kind = Kind::kPrepared}, world.now);
  world.Dies(1);
  EXPECT_THAT(world.told_back, ElementsAre(0));
  world.Waits(2);
  EXPECT_THAT(world.Group(), ElementsAre(0, 2));
  EXPECT_EQ(world.meetings, 2);
}

TEST(RosterTest, GrowsAndShrinksAfterAStep) {
  World world({.processes = 2, .min_ranks = 1});
  world.Settle();
  world.roster.Grow();
  world.Settle();
  EXPECT_THAT(world.started, ElementsAre(0, 1, 2));
  EXPECT_THAT(world.told_to_regroup, ElementsAre(0, 1));
  world.Waits(1);
  world.Waits(0);
  EXPECT_THAT(world.Group(), ElementsAre(0, 1, 2));
  EXPECT_EQ(world.givers, 0);
  world.told_to_regroup.clear();
  world.roster.Shrink();
  world.Settle();
  EXPECT_THAT(world.told_to_regroup, ElementsAre(0, 1, 2));
  for (const int process : {2, 0, 1}) world.Waits(process);
  EXPECT_THAT(world.Group(), ElementsAre(0, 1, 2));
  EXPECT_EQ(world.givers, 1);  // rank 2 gives what it holds
  world.Ends(2, kExitDone);
  EXPECT_EQ(world.roster.TakeEvents().back().kind, Roster::Event::Kind::kLeft);
  EXPECT_FALSE(world.roster.done());
  // One that is told to leave goes whichever rank it has.
  world.Say(0, {.kind = Kind::kLeaving});
  world.Waits(0);
  world.Waits(1);
  EXPECT_THAT(world.Group(), ElementsAre(1, 0));
  EXPECT_EQ(world.givers, 1);
  world.Ends(0, kExitDone);
  EXPECT_FALSE(world.roster.done());
  world.Ends(1, kExitDone);
  EXPECT_TRUE(world.roster.done());
  EXPECT_EQ(world.roster.exit_code(), kExitDone);
}

// Another would find the same, and those that train do not need it.
TEST(RosterTest, GoesOnWithoutOneMoreThatCannotBegin) {
  World world({.processes = 2, .min_ranks = 2, .max_restarts = 3});
  world.Settle();
  world.prompt = false;
  world.roster.Grow();
  world.Settle();
  world.Ends(2, kExitBadInput, "no GPU is left");
  const std::vector<Roster::Event> events = world.roster.TakeEvents();
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().kind, Roster::Event::Kind::kLost);
  EXPECT_EQ(events.back().text, "no GPU is left");
  EXPECT_EQ(events.back().restarts_left, 3);
  EXPECT_THAT(world.started, ElementsAre(0, 1, 2));
  EXPECT_TRUE(world.told_to_regroup.empty());
  EXPECT_FALSE(world.roster.done());
  // One that the run needs is another matter.
  world.Dies(1);
  world.Ends(3, kExitBadInput, "no GPU is left");
  world.Waits(0);
  EXPECT_THAT(world.told_over, ElementsAre(0));
  world.Ends(0, kExitDone);
  EXPECT_TRUE(world.roster.done());
  EXPECT_EQ(world.roster.exit_code(), kExitBadInput);
  EXPECT_EQ(world.roster.text(), "no GPU is left");
}

TEST(RosterTest, DoesNotShrinkBelowTheLeastRanks) {
  World world({.processes = 3, .min_ranks = 2});
  world.Settle();
  EXPECT_TRUE(world.roster.Shrink());
  // The one that leaves is still there.
  EXPECT_FALSE(world.roster.Shrink());
  world.Settle();
  for (const int process : {2, 0, 1}) world.Waits(process);
  EXPECT_EQ(world.givers, 1);
  world.Ends(2, kExitDone);
  EXPECT_FALSE(world.roster.Shrink());
  world.told_to_regroup.clear();
  world.Settle();
  EXPECT_THAT(world.told_to_regroup, ElementsAre());
  EXPECT_FALSE(world.roster.done());
  // One that is about to come counts.
  world.roster.Grow();
  EXPECT_TRUE(world.roster.Shrink());
  EXPECT_FALSE(world.roster.Shrink());
}

MemberMessage OtherWork(const char* work, const std::vector<int>& order = {}) {
  MemberMessage message{.kind = Kind::kReplan};
  EXPECT_EQ(message.SetOrder(order), absl::OkStatus());
  message.SetText(work);
  return message;
}

TEST(RosterTest, GoesOnWithOtherWorkWhereItIsAskedTo) {
  World world({.processes = 3, .min_ranks = 1, .max_restarts = 1});
  world.Settle();
  EXPECT_EQ(world.work, "");
  EXPECT_TRUE(world.replans);
  world.Say(1, OtherWork("from one that does not lead"));
  EXPECT_TRUE(world.told_to_regroup.empty());
  world.Say(0, OtherWork("1,1,0.5 0:1"));
  EXPECT_THAT(world.told_to_regroup, ElementsAre(0, 1, 2));
  for (const int process : {2, 0, 1}) world.Waits(process);
  EXPECT_THAT(world.Group(), ElementsAre(0, 1, 2));
  EXPECT_EQ(world.work, "1,1,0.5 0:1");
  EXPECT_EQ(world.meetings, 6);

  // The rank that may have no work comes last, and stays there.
  world.Say(0, OtherWork("1,1,0.1 0:1", {1, 2, 0}));
  for (const int process : {0, 1, 2}) world.Waits(process);
  EXPECT_THAT(world.Group(), ElementsAre(1, 2, 0));
  EXPECT_EQ(world.work, "1,1,0.1 0:1");

  // An order that is none is not followed.
  world.Say(1, OtherWork("no order", {0, 0, 7}));
  for (const int process : {0, 1, 2}) world.Waits(process);
  EXPECT_THAT(world.Group(), ElementsAre(1, 2, 0));
  EXPECT_FALSE(MemberMessage().SetOrder(std::vector<int>(1000)).ok());

  // Of other processes it says nothing.
  world.Dies(2);
  world.Waits(0);
  world.Waits(1);
  EXPECT_THAT(world.Group(), ElementsAre(1, 3, 0));
  EXPECT_EQ(world.work, "");
}

TEST(RosterTest, OtherWorkIsForgottenWhereARankIsLostOnTheWay) {
  World world({.processes = 2, .min_ranks = 1, .max_restarts = 1});
  world.Settle();
  world.Say(0, OtherWork("1,0.5 0:1", {1, 0}));
  world.Waits(0);
  world.Dies(1);
  EXPECT_THAT(world.Group(), ElementsAre(0, 2));
  EXPECT_EQ(world.work, "");
  // And is not asked for again: a newcomer ends the group for another reason.
  world.roster.Grow();
  world.Settle();
  for (const int process : {0, 2}) world.Waits(process);
  EXPECT_THAT(world.Group(), ElementsAre(0, 2, 3));
  EXPECT_EQ(world.work, "");
}

TEST(RosterTest, SaysWhereNobodyMayAskForOtherWork) {
  World world({.processes = 2, .min_ranks = 2, .replans = false});
  world.Settle();
  EXPECT_FALSE(world.replans);
}

TEST(RosterTest, SavesWhereTooFewWouldBeLeft) {
  World world({.processes = 2, .min_ranks = 2});
  world.Settle();
  world.Say(1, {.kind = Kind::kLeaving});
  EXPECT_THAT(world.told_to_stop, ElementsAre(0, 1));
  EXPECT_THAT(world.told_to_regroup, ElementsAre());
  world.Ends(1, kExitInterrupted);
  world.Ends(0, kExitInterrupted);
  EXPECT_TRUE(world.roster.done());
  EXPECT_EQ(world.roster.exit_code(), kExitPeerLost);
  EXPECT_THAT(world.roster.text(), HasSubstr("1 process is left"));
  // Nobody was lost, and many more might be started in place of one that was.
  EXPECT_THAT(world.roster.text(), HasSubstr("in place of one that was told to leave (SIGTERM)"));
  EXPECT_THAT(world.roster.text(), Not(HasSubstr("lost")));
}

// Whoever ends a job ends all of its processes, maybe.
TEST(RosterTest, EndsWhereAllAreToldToLeave) {
  World world({.processes = 2, .min_ranks = 1, .max_restarts = 3});
  world.Settle();
  world.Say(1, {.kind = Kind::kLeaving});
  EXPECT_THAT(world.told_to_regroup, ElementsAre(0, 1));
  world.Say(0, {.kind = Kind::kLeaving});
  EXPECT_THAT(world.told_to_stop, ElementsAre(0, 1));
  world.Ends(0, kExitInterrupted);
  world.Ends(1, kExitInterrupted);
  EXPECT_TRUE(world.roster.done());
  EXPECT_EQ(world.roster.exit_code(), kExitPeerLost);
  EXPECT_THAT(world.roster.text(), HasSubstr("0 processes are left"));
}

// Batch systems send SIGTERM to the supervisor and to all that it has started, in any order.
TEST(RosterTest, AJobThatIsToldToStopAsAWholeIsInterrupted) {
  for (const int min_ranks : {1, 2, 3}) {
    for (const int before : {0, 1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << min_ranks << " needed, " << before << " told before");
      World world({.processes = 3, .min_ranks = min_ranks, .max_restarts = 3});
      world.Settle();
      for (int process = 0; process < before; ++process)
        world.Say(process, {.kind = Kind::kLeaving});
      world.roster.Stop(world.now);
      world.Settle();
      for (int process = before; process < 3; ++process)
        world.Say(process, {.kind = Kind::kLeaving});
      EXPECT_THAT(world.told_to_stop, ElementsAre(0, 1, 2));
      world.Ends(2, kExitInterrupted);
      world.Ends(0, kExitInterrupted);
      world.Ends(1, kExitInterrupted);
      EXPECT_TRUE(world.roster.done());
      EXPECT_EQ(world.roster.exit_code(), kExitInterrupted);
      EXPECT_EQ(world.roster.text(), "");
      for (const Roster::Event& event : world.roster.TakeEvents())
        EXPECT_EQ(event.kind, Roster::Event::Kind::kJoined);
    }
  }
}

// Where their group has just ended, they form one more, which saves the run.
TEST(RosterTest, AJobThatIsToldToStopBetweenGroupsIsSaved) {
  World world({.processes = 2, .min_ranks = 1, .max_restarts = 3});
  world.Settle();
  world.Say(1, {.kind = Kind::kLeaving});
  EXPECT_THAT(world.told_to_regroup, ElementsAre(0, 1));
  world.Waits(1);
  world.roster.Stop(world.now);
  world.Settle();
  world.Say(0, {.kind = Kind::kLeaving});
  world.Waits(0);
  EXPECT_EQ(world.meetings, 4);
  EXPECT_EQ(world.givers, 0);
  world.Ends(1, kExitInterrupted);
  world.Ends(0, kExitInterrupted);
  EXPECT_EQ(world.roster.exit_code(), kExitInterrupted);
  EXPECT_EQ(world.roster.text(), "");
}

// One that is about to give what it holds does so.
TEST(RosterTest, WhoeverHasBegunToLeaveLeavesARunThatIsToldToStop) {
  World world({.processes = 3, .min_ranks = 2});
  world.Settle();
  world.Say(2, {.kind = Kind::kLeaving});
  for (const int process : {0, 1, 2}) world.Waits(process);
  EXPECT_EQ(world.givers, 1);
  world.roster.TakeEvents();
  world.roster.Stop(world.now);
  world.Settle();
  world.Ends(2, kExitDone);
  EXPECT_EQ(world.roster.TakeEvents().at(0).kind, Roster::Event::Kind::kLeft);
  world.Ends(1, kExitInterrupted);
  world.Ends(0, kExitInterrupted);
  EXPECT_EQ(world.roster.exit_code(), kExitInterrupted);
}

TEST(RosterTest, EndsWhereTheFirstRankIsLostAfterTheOthersHaveEnded) {
  World world({.processes = 2, .min_ranks = 2, .max_restarts = 0});
  world.Settle();
  world.Ends(1, kExitDone);
  world.Dies(0);
  EXPECT_TRUE(world.roster.done());
  EXPECT_EQ(world.roster.exit_code(), kExitPeerLost);
  EXPECT_THAT(world.roster.text(), HasSubstr("0 processes are left"));
}

// It has shown the summary, after which nothing is left to do.
TEST(RosterTest, EndsAsTheFirstRankHasShownThoughRanksAreLostThen) {
  for (const int code : {kExitDone, kExitInterrupted}) {
    for (const bool the_other_has_ended : {false, true}) {
      World world({.processes = 2, .min_ranks = 2, .max_restarts = 4});
      world.Settle();
      if (the_other_has_ended) world.Ends(1, code);
      world.roster.TakeEvents();  // those of the beginning
      world.roster.Done(0, code, world.now);
      if (!the_other_has_ended) world.Dies(1);
      EXPECT_FALSE(world.roster.done());
      world.Dies(0);
      EXPECT_TRUE(world.roster.done());
      EXPECT_TRUE(world.roster.TakeEvents().empty());
      EXPECT_EQ(world.roster.exit_code(), code);
      EXPECT_EQ(world.roster.text(), "");
      EXPECT_EQ(world.started.size(), 2U) << "nobody is started in its place";
    }
  }
}

TEST(RosterTest, ASpareWaitsUntilItIsNeeded) {
  World world({.processes = 3, .min_ranks = 2, .max_restarts = 0});
  world.Settle();
  world.WaitsAsSpare(2);
  EXPECT_THAT(world.told_to_regroup, ElementsAre());
  world.Dies(0);
  world.Waits(1);
  EXPECT_THAT(world.Group(), ElementsAre(1, 2));
}

TEST(RosterTest, TheGroupGoesOnWhereASpareIsLost) {
  World world({.processes = 3, .min_ranks = 2, .max_restarts = 0});
  world.Settle();
  world.WaitsAsSpare(2);
  world.Dies(2);
  world.Pass(absl::Seconds(31));
  EXPECT_THAT(world.told_to_regroup, ElementsAre());
  EXPECT_THAT(world.killed, ElementsAre());
}

TEST(RosterTest, ASpareThatIsLostIsReplacedAfterTheStep) {
  World world({.processes = 3, .min_ranks = 2, .max_restarts = 1});
  world.Settle();
  world.WaitsAsSpare(2);
  world.Dies(2);
  EXPECT_THAT(world.told_to_regroup, ElementsAre(0, 1));
  world.Pass(absl::Seconds(31));  // a step may take long
  EXPECT_THAT(world.killed, ElementsAre());
  world.Waits(0);
  world.Waits(1);
  EXPECT_THAT(world.Group(), ElementsAre(0, 1, 3));
}

// The same of one that has no work and has not said yet that it waits.
TEST(RosterTest, TheGroupGoesOnWhereOneBehindItsRanksIsLost) {
  World world({.processes = 3, .min_ranks = 2, .max_restarts = 0});
  world.Settle();
  world.Say(0, {.kind = Kind::kBegan, .stages = 2, .replicas = 1});
  world.Dies(2);
  world.Pass(absl::Seconds(31));
  EXPECT_THAT(world.killed, ElementsAre());
}

TEST(RosterTest, ASpareMayLeave) {
  World world({.processes = 3, .min_ranks = 2, .max_restarts = 0});
  world.Settle();
  world.WaitsAsSpare(2);
  world.roster.TakeEvents();
  EXPECT_TRUE(world.roster.Shrink());
  world.Settle();
  EXPECT_THAT(world.told_over, ElementsAre(2));
  world.Ends(2, kExitInterrupted);
  EXPECT_EQ(world.roster.TakeEvents().at(0).kind, Roster::Event::Kind::kLeft);
  EXPECT_THAT(world.told_to_regroup, ElementsAre());
  EXPECT_FALSE(world.roster.Shrink());
  // The others go on as a group that can end, and form another one.
  world.Dies(0);
  EXPECT_FALSE(world.roster.done());
}

// The group may have needed it when it was lost, and may not have noticed: that it ends after the
// step is soon enough for both.
TEST(RosterTest, WhoeverIsLeftIsAskedToRegroup) {
  World world({.processes = 3, .min_ranks = 2, .max_restarts = 0});
  world.Settle();
  world.Dies(1);
  EXPECT_THAT(world.told_to_regroup, ElementsAre(0, 2));
}

// Nobody is left whom a new process could help.
TEST(RosterTest, TheLastRankIsNotReplacedWhereTheOthersHaveEnded) {
  World world({.processes = 4, .min_ranks = 4, .max_restarts = 3});
  world.Settle();
  for (const int process : {1, 2, 3}) world.Ends(process, kExitDone);
  world.Dies(0);
  EXPECT_THAT(world.started, ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(world.roster.done());
  EXPECT_EQ(world.roster.exit_code(), kExitPeerLost);
}

TEST(RosterTest, EndsWhereARankIsLostWhileTheRunIsSavedForTheLastTime) {
  World world({.processes = 3, .min_ranks = 3, .max_restarts = 3});
  world.Settle();
  world.Say(2, {.kind = Kind::kLeaving});
  EXPECT_THAT(world.told_to_stop, ElementsAre(0, 1, 2));
  world.Dies(0);
  world.Waits(1);
  EXPECT_THAT(world.told_over, ElementsAre());
  world.Waits(2);
  EXPECT_THAT(world.told_over, AllOf(testing::Contains(1), testing::Contains(2)));
  EXPECT_EQ(world.roster.exit_code(), kExitPeerLost);
}

TEST(RosterTest, OneThatTakesAPlaceIsToldToStopToo) {
  World world({.processes = 1, .min_ranks = 1, .max_restarts = 1});
  world.Settle();
  world.roster.Stop(world.now);
  world.Settle();
  world.Dies(0);
  EXPECT_THAT(world.Group(), ElementsAre(1));
  EXPECT_THAT(world.told_to_stop, ElementsAre(0, 1));
}

TEST(RosterTest, EndsOneThatHasSaidItsLastWordAndStays) {
  World world({.processes = 2, .min_ranks = 1, .max_restarts = 0});
  world.Settle();
  world.Say(1, {.kind = Kind::kLeaving});
  world.Say(1, {.kind = Kind::kEnding, .exit_code = kExitDone});
  world.Waits(0);
  EXPECT_EQ(world.meetings, 2);
  EXPECT_LE(world.roster.NextDeadline(world.now), world.now + absl::Seconds(30));
  world.Pass(absl::Seconds(31));
  EXPECT_THAT(world.killed, ElementsAre(1));
  world.Dies(1);
  EXPECT_THAT(world.Group(), ElementsAre(0));
}

TEST(RosterTest, TheFirstRankDecidesHowTheRunEnds) {
  World world({.processes = 2, .min_ranks = 2, .max_restarts = 3});
  world.Settle();
  world.Ends(1, kExitDone);
  EXPECT_FALSE(world.roster.done());
  world.Ends(0, kExitDone);
  EXPECT_TRUE(world.roster.done());
  EXPECT_EQ(world.roster.exit_code(), kExitDone);
}

TEST(RosterTest, AnErrorOfARankEndsAllAndIsSaidOnce) {
  World world({.processes = 2, .min_ranks = 2, .max_restarts = 3});
  world.Settle();
  world.Ends(1, kExitOutOfMemory, "rank 1: out of memory");
  world.Ends(0, kExitOutOfMemory, "rank 0: rank 1 is out of memory");
  EXPECT_TRUE(world.roster.done());
  EXPECT_EQ(world.roster.exit_code(), kExitOutOfMemory);
  EXPECT_EQ(world.roster.text(), "rank 1: out of memory");
  EXPECT_THAT(world.started, ElementsAre(0, 1));
}

TEST(RosterTest, EndsThoseThatDoNotEndThemselves) {
  World world({.processes = 2, .min_ranks = 2});
  world.Settle();
  world.Ends(1, kExitBadInput, "no");
  EXPECT_FALSE(world.roster.done());
  world.Pass(absl::Seconds(31));
  EXPECT_THAT(world.killed, ElementsAre(0));
}

TEST(RosterTest, StopsBeforeThereIsAGroup) {
  World world({.processes = 2, .min_ranks = 2});
  world.prompt = false;
  world.Settle();
  world.roster.Stop(world.now);
  world.Waits(0);
  EXPECT_THAT(world.told_over, ElementsAre(0));
  EXPECT_THAT(world.started, ElementsAre(0));
  world.Ends(0, kExitInterrupted);
  EXPECT_TRUE(world.roster.done());
  EXPECT_EQ(world.roster.exit_code(), kExitInterrupted);
}

}  // namespace
}  // namespace sluice
