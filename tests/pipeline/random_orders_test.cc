// Any order of actions that can run with unlimited buffers for messages is executed, and trains to
// the same bits as one stage.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "schedules/check/validate.h"
#include "tests/pipeline/small_run.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

using Random = std::mt19937_64;

int Below(Random& random, size_t end) { return static_cast<int>(random() % end); }

// The ops of one micro-batch on one stage that have been done.
enum class Done { kNothing, kForward, kInputGrad, kAll };

// Makes an order by repeatedly doing a random action that is possible; weight gradients are done in
// the order of micro-batches, in which they are summed.
class RandomOrder {
 public:
  RandomOrder(Random& random, const Placement& placement, int micro_batches)
      : random_(random),
        stages_(placement.stages()),
        done_(static_cast<size_t>(stages_) * micro_batches, Done::kNothing) {
    table_.name = "random";
    table_.placement = placement;
    table_.micro_batches = micro_batches;
    table_.rows.resize(placement.ranks());
    // The probability of a forward where both are possible: from depth first to breadth first.
    forward_share_ = 0.1 * Below(random, 11);
  }

  Timetable Make() {
    while (true) {
      const std::vector<Action> forwards = Ready(true), backwards = Ready(false);
      if (forwards.empty() && backwards.empty()) return table_;
      const bool forward =
          backwards.empty() || (!forwards.empty() && Below(random_, 100) < 100 * forward_share_);
      const std::vector<Action>& ready = forward ? forwards : backwards;
      Do(ready[Below(random_, ready.size())]);
    }
  }

 private:
  Done& At(int stage, int micro_batch) {
    return done_[static_cast<size_t>(stage) * table_.micro_batches + micro_batch];
  }

  std::vector<Action> Ready(bool forward) {
    std::vector<Action> ready;
    for (int stage = 0; stage < stages_; ++stage) {
      for (int micro_batch = 0; micro_batch < table_.micro_batches; ++micro_batch) {
        Action action{.stage = static_cast<uint16_t>(stage), .micro_batch = micro_batch};
        const Done done = At(stage, micro_batch);
        if (done == Done::kNothing &&
            (stage == 0 || At(stage - 1, micro_batch) != Done::kNothing)) {
          action.op = Op::kForward;
        } else if (done == Done::kForward &&
                   (stage + 1 == stages_ || At(stage + 1, micro_batch) >= Done::kInputGrad)) {
          action.op = Op::kInputGrad;
        } else if (done == Done::kInputGrad &&
                   (micro_batch == 0 || At(stage, micro_batch - 1) == Done::kAll)) {
          action.op = Op::kWeightGrad;
        }
        if (action.op != Op::kIdle && (action.op == Op::kForward) == forward) {
          ready.push_back(action);
        }
      }
    }
    return ready;
  }

  void Do(const Action& action) {
    Done& done = At(action.stage, action.micro_batch);
    done = static_cast<Done>(static_cast<int>(done) + 1);
    table_.rows[table_.placement.rank(action.stage)].push_back(action);
  }

  Random& random_;
  const int stages_;
  double forward_share_ = 0;
  std::vector<Done> done_;
  Timetable table_;
};

Placement RandomPlacement(Random& random) {
  const int ranks = 1 + Below(random, 4);
  switch (Below(random, 3)) {
    case 0:
      return Placement::Looped(ranks, 1 + Below(random, 2));
    case 1:
      return Placement::V(ranks, 2);
    default: {
      std::vector<int> rank_of_stage;
      for (int rank = 0; rank < ranks; ++rank) {
        rank_of_stage.insert(rank_of_stage.end(), 1 + Below(random, 3), rank);
      }
      std::shuffle(rank_of_stage.begin(), rank_of_stage.end(), random);
      return *Placement::FromRanks(rank_of_stage);
    }
  }
}

TEST(RandomOrders, AllRun) {
  Random random(1);
  for (int trial = 0; trial < Trials(150, 40); ++trial) {
    const Timetable table =
        RandomOrder(random, RandomPlacement(random), 1 + Below(random, 24)).Make();
    ASSERT_TRUE(ValidateTimetable(table).ok()) << ValidateTimetable(table);
    const SmallRun run{.model = "mlp", .micro_batches = table.micro_batches};
    const absl::StatusOr<RunPlan> plan = CompileRun(MakeRequest(run, table));
    ASSERT_TRUE(plan.ok()) << "trial " << trial << ": " << plan.status();
  }
}

TEST(RandomOrders, TrainLikeOneStage) {
  Random random(2);
  for (int trial = 0; trial < 6; ++trial) {
    const Timetable table = RandomOrder(random, RandomPlacement(random), 12).Make();
    const SmallRun run{.micro_batches = table.micro_batches};
    const absl::StatusOr<RunPlan> plan = CompileRun(MakeRequest(run, table));
    ASSERT_TRUE(plan.ok()) << "trial " << trial << ": " << plan.status();
    const absl::StatusOr<Outcome> outcome = Train(*plan, SmallOptions(2));
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    SmallRun one = run;
    one.schedule = "gpipe";
    one.ranks = 1;
    EXPECT_EQ(*outcome, OutcomeOnce(one, 2)) << "trial " << trial;
  }
}

// Some micro-batches on some stages are rebuilt, anywhere between their forward and their backward,
// whatever the policy for the others is.
Timetable WithRecomputes(Random& random, Timetable table) {
  for (std::vector<Action>& row : table.rows) {
    for (size_t backward = 0; backward < row.size(); ++backward) {
      if (row[backward].op != Op::kInputGrad || Below(random, 2) == 0) continue;
      Action action = row[backward];
      action.op = Op::kForward;
      const auto forward = std::find(row.begin(), row.end(), action) - row.begin();
      action.op = Op::kRecompute;
      const auto between = static_cast<size_t>(static_cast<std::ptrdiff_t>(backward) - forward);
      row.insert(row.begin() + forward + 1 + Below(random, between), action);
      ++backward;
    }
  }
  return table;
}

TEST(RandomOrders, TrainLikeOneStageWithRecomputes) {
  Random random(3);
  for (int trial = 0; trial < 8; ++trial) {
    const Timetable table =
        WithRecomputes(random, RandomOrder(random, RandomPlacement(random), 8).Make());
    ASSERT_TRUE(ValidateTimetable(table).ok()) << ValidateTimetable(table);
    SmallRun run{.micro_batches = table.micro_batches};
    run.recompute = static_cast<Recompute>(Below(random, 3));
    const absl::StatusOr<RunPlan> plan = CompileRun(MakeRequest(run, table));
    ASSERT_TRUE(plan.ok()) << "trial " << trial << ": " << plan.status();
    const absl::StatusOr<Outcome> outcome = Train(*plan, SmallOptions(2));
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(*outcome, OutcomeOnce({.schedule = "gpipe", .ranks = 1, .micro_batches = 8}, 2))
        << "trial " << trial;
  }
}

}  // namespace
}  // namespace sluice
