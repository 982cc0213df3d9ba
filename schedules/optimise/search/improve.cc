#include "schedules/optimise/search/improve.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "schedules/optimise/parallel_for.h"
#include "schedules/optimise/search/replay.h"

namespace sluice::optimise {
namespace {

constexpr size_t kChains = 4;
// At most this many actions are timed by one chain.
constexpr size_t kMostActions = 6'000'000;
// A chain with fewer moves than this gains nothing.
constexpr size_t kLeastMoves = 500;
// Of equal values, the one whose ranks end earlier on average is nearer to a better one.
constexpr double kWeightOfMean = 0.01;
// Where some B is shorter than I and W, one move in so many and one fuses or splits.
constexpr int kMovesPerFusing = 4;
// At first, an order that is worse by this share of the value is accepted now and then.
constexpr double kFirstTemperature = 0.002;
constexpr double kLastTemperature = 0.00002;

// Checks the order of one rank whose action at `from` was moved to `to`: not allowed when an action
// would run before what it needs, or the rank would hold too much.
class MoveChecker {
 public:
  explicit MoveChecker(const Problem& problem) : problem_(problem), counts_(problem.stages) {}

  bool Allowed(int rank, const std::vector<Step>& row, int from, int to) {
    std::fill(counts_.begin(), counts_.end(), Counts{});
    RankMemory memory(problem_, rank);
    const int until = std::max(from, to);
    for (int i = 0; i <= until; ++i) {
      const Step step = row[i];
      Counts& counts = counts_[step.stage];
      if (!memory.Fits(step)) return false;
      if (step.op == Op::kForward) {
        ++counts.forwards;
      } else {
        if (step.op == Op::kBackward && counts.weights < counts.gradients) return false;
        if (RunsInputGrad(step.op) && ++counts.gradients > counts.forwards) return false;
        if (RunsWeightGrad(step.op) && ++counts.weights > counts.gradients) return false;
      }
      memory.Apply(step);
    }
    return true;
  }

 private:
  struct Counts {
    int forwards = 0;
    int gradients = 0;
    int weights = 0;
  };
  const Problem& problem_;
  std::vector<Counts> counts_;  // [stage]
};

// Makes the B at `at` an I and a W, or the I at `at` and its W a B. Returns false where there is
// neither, or where another W of the stage waits.
bool FuseOrSplit(std::vector<Step>& row, int at) {
  if (!RunsInputGrad(row[at].op)) return false;
  const Step weight{Op::kWeightGrad, row[at].stage};
  const auto done = [&](Op op) {
    return std::count(row.begin(), row.begin() + at, Step{op, row[at].stage});
  };
  if (done(Op::kInputGrad) > done(Op::kWeightGrad)) return false;
  if (row[at].op == Op::kBackward) {
    row[at].op = Op::kInputGrad;
    row.insert(row.begin() + at + 1, weight);
  } else {
    row[at].op = Op::kBackward;
    row.erase(std::find(row.begin() + at + 1, row.end(), weight));
  }
  return true;
}

void Rotate(std::vector<Step>& row, int from, int to) {
  if (from < to) {
    std::rotate(row.begin() + from, row.begin() + from + 1, row.begin() + to + 1);
  } else {
    std::rotate(row.begin() + to, row.begin() + from, row.begin() + from + 1);
  }
}

class Chain {
 public:
  Chain(const Problem& problem, const Schedule& start, const SearchSettings& settings,
        const Deadline& deadline, uint64_t seed)
      : problem_(problem),
        settings_(settings),
        deadline_(deadline),
        random_(seed),
        replay_(problem),
        checker_(problem),
        fuses_(problem.fuses_somewhere()),
        order_(start.order),
        best_(start) {}

  Schedule Run(size_t moves) {
    if (!replay_.Run(order_)) return std::move(best_);
    double cost = Cost();
    blocks_ = replay_.FindBlocks(order_);
    const double cooling = std::log(kLastTemperature / kFirstTemperature);
    for (size_t i = 0; i < moves && best_.value > settings_.good_enough; ++i) {
      if (i % 64 == 0 && deadline_.passed()) break;
      const double progress = static_cast<double>(i) / static_cast<double>(moves);
      const double temperature = best_.value * kFirstTemperature * std::exp(cooling * progress);
      if (fuses_ && Draw(0, kMovesPerFusing) == 0) {
        MoveFusing(temperature, &cost);
      } else {
        Move(temperature, &cost);
      }
    }
    return std::move(best_);
  }

 private:
  double Cost() const { return replay_.value() + kWeightOfMean * replay_.mean(); }
  int Draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool Propose(int* rank, int* from, int* to);
  void Move(double temperature, double* cost);
  void MoveFusing(double temperature, double* cost);
  // Whether the order, which has changed, is taken as it is now.
  bool Accept(double temperature, double* cost);

  const Problem& problem_;
  const SearchSettings& settings_;
  const Deadline& deadline_;
  std::mt19937_64 random_;
  Replay replay_;
  MoveChecker checker_;
  const bool fuses_;
  Order order_;
  Schedule best_;
  std::vector<Replay::Block> blocks_;
};

// Draws a move inside a random block: an action goes to the front or the end of the block, or past
// its neighbour.
bool Chain::Propose(int* rank, int* from, int* to) {
  if (blocks_.empty()) return false;
  const Replay::Block& block = blocks_[Draw(0, static_cast<int>(blocks_.size()) - 1)];
  *rank = block.rank;
  *from = Draw(block.first, block.last);
  switch (Draw(0, 3)) {
    case 0:
      *to = block.first;
      break;
    case 1:
      *to = std::min(block.last + Draw(0, 2), static_cast<int>(order_[block.rank].size()) - 1);
      break;
    case 2:
      *to = std::min(*from + 1, block.last);
      break;
    default:
      *to = Draw(block.first, block.last);
  }
  const auto& row = order_[*rank];
  return *from != *to && row[*from] != row[*to];
}

void Chain::Move(double temperature, double* cost) {
  int rank = 0;
  int from = 0;
  int to = 0;
  if (!Propose(&rank, &from, &to)) return;
  auto& row = order_[rank];
  Rotate(row, from, to);
  if (checker_.Allowed(rank, row, from, to) && Accept(temperature, cost)) return;
  Rotate(row, to, from);
}

// A B in a random block becomes I and W, or an I there and its W a B, wherever the W is.
void Chain::MoveFusing(double temperature, double* cost) {
  if (blocks_.empty()) return;
  const Replay::Block& block = blocks_[Draw(0, static_cast<int>(blocks_.size()) - 1)];
  auto& row = order_[block.rank];
  const int at = Draw(block.first, block.last);
  if (!problem_.fuses(row[at].stage)) return;
  const std::vector<Step> before = row;
  if (!FuseOrSplit(row, at)) return;
  // Only a split needs room, and only between its I and its W.
  const bool fits = row[at].op == Op::kBackward || checker_.Allowed(block.rank, row, at, at + 1);
  if (!fits || !Accept(temperature, cost)) row = before;
}

bool Chain::Accept(double temperature, double* cost) {
  if (!replay_.Run(order_)) return false;
  const double changed = Cost() - *cost;
  const double luck = std::uniform_real_distribution<double>(0, 1)(random_);
  if (changed > 0 && luck >= std::exp(-changed / temperature)) return false;
  *cost += changed;
  blocks_ = replay_.FindBlocks(order_);
  if (replay_.value() < best_.value) best_ = {order_, replay_.value()};
  return true;
}

}  // namespace

Schedule Improve(const Problem& problem, const Schedule& start, const SearchSettings& settings,
                 const Deadline& deadline) {
  const size_t actions =
      3 * static_cast<size_t>(problem.stages) * static_cast<size_t>(problem.micro_batches);
  const double most =
      settings.effort * static_cast<double>(kMostActions) / static_cast<double>(actions);
  // With a deadline, it is the deadline that ends a chain which is too long.
  const size_t moves = std::max(static_cast<size_t>(most), deadline.bounded() ? kLeastMoves : 0);
  Schedule best = start;
  if (moves < kLeastMoves || start.value <= settings.good_enough) return best;
  uint64_t seed = settings.seed;
  do {
    std::vector<Schedule> results(kChains);
    ParallelFor(kChains, [&](size_t i) {
      results[i] = Chain(problem, best, settings, deadline, seed * kChains + i).Run(moves);
    });
    for (Schedule& result : results) {
      if (result.value < best.value) best = std::move(result);
    }
    ++seed;
    // Without a deadline there is one round; with one, as many as there is time for.
  } while (deadline.bounded() && !deadline.passed() && best.value > settings.good_enough);
  return best;
}

}  // namespace sluice::optimise
