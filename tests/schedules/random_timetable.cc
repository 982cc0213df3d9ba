#include "random_timetable.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

namespace sluice {
namespace {

// Every rank gets a stage; the remaining stages go to random ranks.
Placement RandomPlacement(Random& random) {
  const int ranks = Draw(random, 1, 4);
  std::vector<int> rank_of_stage(ranks);
  std::iota(rank_of_stage.begin(), rank_of_stage.end(), 0);
  for (int extra = Draw(random, 0, 4); extra > 0; --extra)
    rank_of_stage.push_back(Draw(random, 0, ranks - 1));
  std::shuffle(rank_of_stage.begin(), rank_of_stage.end(), random);
  return *Placement::FromRanks(rank_of_stage);
}

// Appends the actions of a step in a random order, each once it could run.
class Dealer {
 public:
  Dealer(Random& random, Timetable& table) : random_(random), table_(table) {
    for (int s = 0; s < table.placement.stages(); ++s) {
      const bool split = Draw(random, 0, 1) == 1;
      for (int b = 0; b < table.micro_batches; ++b) {
        Hold(Op::kForward, s, b);
        if (split) {
          Hold(Op::kInputGrad, s, b);
          Hold(Op::kWeightGrad, s, b);
        } else {
          Hold(Op::kBackward, s, b);
        }
      }
    }
  }

  void Deal() {
    while (!held_.empty()) {
      std::vector<Action> ready;
      std::copy_if(held_.begin(), held_.end(), std::back_inserter(ready),
                   [this](const Action& a) { return Ready(a); });
      const Action& next = ready[Draw(random_, 0, static_cast<int>(ready.size()) - 1)];
      auto& row = table_.rows[table_.placement.rank(next.stage)];
      if (Draw(random_, 0, 9) == 0) row.push_back({});
      const bool can_pair = !row.empty() && row.back().op == Op::kForward &&
                            next.op != Op::kForward && WasReadyBefore(next, row.back());
      if (can_pair && Draw(random_, 0, 1) == 1) row.back().overlaps_next = true;
      row.push_back(next);
      Play(next);
    }
  }

 private:
  void Hold(Op op, int stage, int b) {
    held_.push_back(Action{.op = op, .stage = static_cast<uint16_t>(stage), .micro_batch = b});
  }
  bool Played(Op op, int stage, int b) const { return played_.count({op, {stage, b}}) > 0; }
  bool InputGradPlayed(int stage, int b) const {
    return Played(Op::kBackward, stage, b) || Played(Op::kInputGrad, stage, b);
  }
  bool InOrder(const Action& a) const {
    return a.micro_batch == 0 || Played(Op::kBackward, a.stage, a.micro_batch - 1) ||
           Played(Op::kWeightGrad, a.stage, a.micro_batch - 1);
  }

  bool Ready(const Action& a) const {
    if (a.op == Op::kForward)
      return a.stage == 0 || Played(Op::kForward, a.stage - 1, a.micro_batch);
    if (a.op == Op::kWeightGrad)
      return Played(Op::kInputGrad, a.stage, a.micro_batch) && InOrder(a);
    const bool last = a.stage + 1 == table_.placement.stages();
    return Played(Op::kForward, a.stage, a.micro_batch) &&
           (last || InputGradPlayed(a.stage + 1, a.micro_batch)) &&
           (a.op == Op::kInputGrad || InOrder(a));
  }

  // Whether `a` could have run before `forward` and everything after it: then the two can overlap.
  bool WasReadyBefore(const Action& a, const Action& forward) {
    const size_t count = order_.size();
    std::vector<Action> undone;
    while (!order_.empty()) {
      undone.push_back(order_.back());
      order_.pop_back();
      played_.erase({undone.back().op, {undone.back().stage, undone.back().micro_batch}});
      if (undone.back() == forward) break;
    }
    const bool ready = Ready(a);
    for (; order_.size() < count; undone.pop_back()) Remember(undone.back());
    return ready;
  }

  void Remember(const Action& a) {
    order_.push_back(a);
    played_.insert({a.op, {a.stage, a.micro_batch}});
  }

  void Play(const Action& a) {
    const Action played = a;
    held_.erase(std::find(held_.begin(), held_.end(), played));
    Remember(played);
  }

  Random& random_;
  Timetable& table_;
  std::vector<Action> held_;
  std::vector<Action> order_;
  std::set<std::pair<Op, std::pair<int, int>>> played_;
};

}  // namespace

int Draw(Random& random, int least, int most) {
  return std::uniform_int_distribution<int>(least, most)(random);
}

Timetable RandomTimetable(Random& random) {
  Timetable table;
  table.name = "random";
  table.placement = RandomPlacement(random);
  table.micro_batches = Draw(random, 1, 5);
  table.rows.resize(table.placement.ranks());
  Dealer(random, table).Deal();
  return table;
}

void AddRecomputes(Random& random, Timetable& table) {
  for (auto& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const Action backward = row[i];
      if (backward.op != Op::kBackward && backward.op != Op::kInputGrad) continue;
      if (Draw(random, 0, 1) == 0) continue;
      size_t at = i;
      if (at > 0 && row[at - 1].overlaps_next) --at;  // not between the halves of a pair
      const bool own_forward = row[at].op == Op::kForward && row[at].stage == backward.stage &&
                               row[at].micro_batch == backward.micro_batch;
      if (own_forward) continue;
      row.insert(
          row.begin() + static_cast<std::ptrdiff_t>(at),
          Action{
              .op = Op::kRecompute, .stage = backward.stage, .micro_batch = backward.micro_batch});
      ++i;
    }
  }
}

StageCosts RandomCosts(Random& random, int stages) {
  const auto draw = [&] { return Draw(random, 0, 24) / 8.0; };
  StageCosts costs = StageCosts::Uniform(stages, 0, 0, 0);
  for (auto* values :
       {&costs.forward, &costs.input_grad, &costs.weight_grad, &costs.backward, &costs.send}) {
    for (double& value : *values) value = draw();
  }
  for (int s = 0; s < stages; ++s) {
    costs.activation_bytes.push_back(8 * draw());
    costs.weight_grad_bytes.push_back(4 * draw());
    costs.checkpoint_bytes.push_back(draw());
  }
  if (Draw(random, 0, 1) == 1) {
    for (double& send : costs.send) {
      costs.link_busy.push_back(draw());
      send += costs.link_busy.back();
    }
  }
  if (Draw(random, 0, 1) == 1) costs.overlap = draw();
  if (Draw(random, 0, 1) == 1) {
    for (int s = 0; s < stages; ++s) costs.recompute.push_back(draw());
  }
  return costs;
}

}  // namespace sluice
