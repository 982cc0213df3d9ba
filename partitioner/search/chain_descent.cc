#include "partitioner/search/chain_descent.h"

#include <algorithm>
#include <utility>

#include "schedules/partition.h"

namespace sluice {
namespace {

// Of the stages that could give a layer away, those whose giving helps most.
constexpr size_t kMostGivers = 24;
// Of all moves, those that are tried in earnest, best first.
constexpr size_t kMostTaken = 8;

}  // namespace

ChainDescent::Found ChainDescent::Run(const StageAssignment& start, double target, int64_t budget,
                                      int64_t* steps) {
  target_ = target;
  now_ = start;
  Measure();
  while (*steps < budget && Penalty() > 0) {
    std::vector<Move> moves;
    if (!problem_.fixed) {
      OfferLengths(/*up=*/true, &moves, steps);
      OfferLengths(/*up=*/false, &moves, steps);
    }
    OfferPolicies(&moves, steps);
    std::stable_sort(moves.begin(), moves.end(),
                     [](const Move& a, const Move& b) { return a.penalty < b.penalty; });
    if (moves.size() > kMostTaken) moves.resize(kMostTaken);
    const bool moved = std::any_of(moves.begin(), moves.end(),
                                   [&](const Move& move) { return Take(move, steps); });
    if (!moved) break;
  }
  return {now_, *std::max_element(seconds_.begin(), seconds_.end())};
}

void ChainDescent::Measure() {
  choices_.clear();
  for (size_t stage = 0; stage < now_.partition.size(); ++stage) {
    const LayerRange& range = now_.partition[stage];
    choices_.push_back(MakeChoice(problem_, static_cast<int>(stage), range.first, range.last + 1,
                                  now_.recompute[stage]));
  }
  seconds_ = chains_.Seconds(choices_);
}

double ChainDescent::Penalty() const {
  double penalty = 0;
  for (double seconds : seconds_) {
    const double over = std::max(0.0, seconds - target_);
    penalty += over * over;
  }
  return penalty;
}

double ChainDescent::PenaltyWith(const Change& one, const Change* other) const {
  double penalty = 0;
  for (size_t chain = 0; chain < seconds_.size(); ++chain) {
    double seconds = seconds_[chain] + one.seconds[chain];
    if (other != nullptr) seconds += other->seconds[chain];
    const double over = std::max(0.0, seconds - target_);
    penalty += over * over;
  }
  return penalty;
}

// `stage` with layers first..end - 1, under each policy that fits.
void ChainDescent::AddChanges(int stage, int first, int end, std::vector<Change>* changes) const {
  if (first >= end) return;
  for (Recompute policy : feasible_.Policies(stage, first, end)) {
    Change change{stage, policy, MakeChoice(problem_, stage, first, end, policy), {}, 0};
    change.seconds.assign(seconds_.size(), 0);
    chains_.AddChange(stage, choices_[stage], change.choice, change.seconds.data());
    for (size_t chain = 0; chain < seconds_.size(); ++chain) {
      change.slope += std::max(0.0, seconds_[chain] - target_) * change.seconds[chain];
    }
    changes->push_back(std::move(change));
  }
}

// Layers that go to a later stage (`up`) or to an earlier one.
void ChainDescent::OfferLengths(bool up, std::vector<Move>* moves, int64_t* steps) const {
  std::vector<Change> givers, takers;
  for (int stage = 0; stage < problem_.stages(); ++stage) {
    const int first = now_.partition[stage].first, end = now_.partition[stage].last + 1;
    AddChanges(stage, up ? first : first + 1, up ? end - 1 : end, &givers);
    if (up ? stage > 0 : stage + 1 < problem_.stages()) {
      AddChanges(stage, up ? first - 1 : first, up ? end : end + 1, &takers);
    }
  }
  std::stable_sort(givers.begin(), givers.end(),
                   [](const Change& a, const Change& b) { return a.slope < b.slope; });
  if (givers.size() > kMostGivers) givers.resize(kMostGivers);
  for (const Change& giver : givers) {
    for (const Change& taker : takers) {
      if (up ? taker.stage > giver.stage : taker.stage < giver.stage) Offer(giver, taker, moves);
    }
  }
  *steps += static_cast<int64_t>(givers.size() * takers.size() * seconds_.size());
}

void ChainDescent::OfferPolicies(std::vector<Move>* moves, int64_t* steps) const {
  std::vector<Change> changes;
  for (int stage = 0; stage < problem_.stages(); ++stage) {
    AddChanges(stage, now_.partition[stage].first, now_.partition[stage].last + 1, &changes);
  }
  for (const Change& change : changes) {
    if (change.policy != now_.recompute[change.stage]) Offer(change, change, moves);
  }
  *steps += static_cast<int64_t>(changes.size() * seconds_.size());
}

void ChainDescent::Offer(const Change& from, const Change& to, std::vector<Move>* moves) const {
  const bool same = from.stage == to.stage;
  const double penalty = PenaltyWith(from, same ? nullptr : &to);
  if (penalty >= Penalty()) return;
  moves->push_back({from.stage, to.stage, from.policy, to.policy, penalty});
}

// Makes the move where it fits and really lowers the penalty: stages between the two may have
// changed as well.
bool ChainDescent::Take(const Move& move, int64_t* steps) {
  StageAssignment before = now_;
  const double penalty = Penalty();
  now_.partition = MoveLayer(std::move(now_.partition), move.from, move.to);
  now_.recompute[move.from] = move.from_policy;
  now_.recompute[move.to] = move.to_policy;
  *steps += feasible_.check_steps() + static_cast<int64_t>(choices_.size() * seconds_.size());
  if (feasible_.Fits(PriceStages(problem_, now_))) {
    Measure();
    if (Penalty() < penalty) return true;
  }
  now_ = std::move(before);
  Measure();
  return false;
}

}  // namespace sluice
