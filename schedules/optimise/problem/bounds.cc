#include "schedules/optimise/problem/bounds.h"

#include <algorithm>
#include <limits>

namespace sluice::optimise {
namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();

// The chains of one rank in the relaxation.
std::vector<Chain> ChainsOf(const Problem& problem, const Relaxation& relaxation, int rank) {
  const auto& heads = relaxation.heads();
  const auto& tails = relaxation.tails();
  const int all = problem.micro_batches;
  std::vector<Chain> chains;
  for (int s : problem.stages_of[rank]) {
    const size_t cell = problem.cell(s, 0);
    const auto add = [&](const std::vector<double>& head, const std::vector<double>& tail,
                         double duration) {
      chains.push_back({&head[cell], &tail[cell], duration, all, duration});
    };
    add(heads.forward, tails.forward, problem.forward[s]);
    add(heads.input_grad, tails.input_grad, problem.input_grad[s]);
    add(heads.weight_grad, tails.weight_grad, problem.weight_grad[s]);
  }
  return chains;
}

// The least time from the start of F of each stage until the gradient of its input is made.
std::vector<double> RoundTrips(const Problem& problem) {
  std::vector<double> trips(problem.stages);
  double trip = 0;
  for (int s = problem.stages - 1; s >= 0; --s) {
    if (s + 1 < problem.stages) trip += 2 * problem.hop[s];
    trip += problem.forward[s] + problem.input_grad[s];
    trips[s] = trip;
  }
  return trips;
}

// The least time from the end of the I of each stage until all stages before it on other ranks have
// ended theirs, less the grace of these ranks.
double TailAfterGradient(const Problem& problem, int stage) {
  double best = -problem.grace[problem.placement.rank(stage)];
  double passed = 0;
  for (int s = stage - 1; s >= 0; --s) {
    passed += problem.hop[s] + problem.input_grad[s];
    best =
        std::max(best, passed + problem.weight_grad[s] - problem.grace[problem.placement.rank(s)]);
  }
  return best;
}

}  // namespace

// Of the actions that have arrived, the one with the longest tail runs, until it ends or another one
// arrives. Only the first action left of each chain can be that one.
double OneRankBound(std::vector<Chain>& chains, double enough) {
  double now = 0;
  double bound = 0;
  for (;;) {
    Chain* next = nullptr;
    double arrival = kFar;
    for (Chain& chain : chains) {
      if (chain.actions == 0) continue;
      if (*chain.heads > now) {
        arrival = std::min(arrival, *chain.heads);
      } else if (next == nullptr || *chain.tails > *next->tails) {
        next = &chain;
      }
    }
    if (next == nullptr && arrival == kFar) return bound;
    if (next == nullptr) {
      now = arrival;
    } else if (now + next->left > arrival) {
      next->left -= arrival - now;
      now = arrival;
    } else {
      now += next->left;
      bound = std::max(bound, now + *next->tails);
      if (bound >= enough) return bound;
      *next = {next->heads + 1, next->tails + 1, next->duration, next->actions - 1, next->duration};
    }
  }
}

double RankBound(const Problem& problem, const Relaxation& relaxation) {
  double best = 0;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    std::vector<Chain> chains = ChainsOf(problem, relaxation, rank);
    best = std::max(best, OneRankBound(chains, kFar));
  }
  return best;
}

double MemoryAreaBound(const Problem& problem) {
  const std::vector<double> trips = RoundTrips(problem);
  double best = 0;
  for (const MemoryRule& rule : problem.memory) {
    for (int rank = 0; rank < problem.ranks; ++rank) {
      double until_gradient = 0;
      double until_weight = 0;
      for (int s : problem.stages_of[rank]) {
        until_gradient += rule.held[s] * trips[s] * problem.micro_batches;
        // Where W needs more than F kept, a B in its place goes on with what F kept.
        const double kept = std::min(rule.kept[s], rule.held[s]);
        until_weight += kept * problem.weight_grad[s] * problem.micro_batches;
      }
      if (rule.limit[rank] <= 0) continue;
      const double room = rule.limit[rank] * (1 + kSlack);
      const double to_gradient = problem.head[rank] + until_gradient / room;
      const double to_end = problem.head[rank] + (until_gradient + until_weight) / room;
      const int first = problem.stages_of[rank].front();
      best = std::max(
          {best, to_gradient + TailAfterGradient(problem, first), to_end - problem.grace[rank]});
    }
  }
  return best;
}

}  // namespace sluice::optimise
