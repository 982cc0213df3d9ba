#include "schedules/optimise/bounds.h"

#include <algorithm>
#include <queue>
#include <utility>

namespace sluice::optimise {
namespace {

// The jobs of one rank in the relaxation.
std::vector<Job> JobsOf(const Problem& problem, const Relaxation& relaxation, int rank) {
  const auto& heads = relaxation.heads();
  const auto& tails = relaxation.tails();
  std::vector<Job> jobs;
  for (int s : problem.stages_of[rank]) {
    for (int k = 0; k < problem.micro_batches; ++k) {
      const size_t cell = problem.cell(s, k);
      jobs.push_back({heads.forward[cell], problem.forward[s], tails.forward[cell]});
      jobs.push_back({heads.input_grad[cell], problem.input_grad[s], tails.input_grad[cell]});
      jobs.push_back({heads.weight_grad[cell], problem.weight_grad[s], tails.weight_grad[cell]});
    }
  }
  return jobs;
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

double OneRankBound(std::vector<Job>& jobs) {
  std::sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) { return a.head < b.head; });
  std::priority_queue<std::pair<double, double>> ready;  // tail, time left
  double now = 0;
  double bound = 0;
  size_t next = 0;
  while (next < jobs.size() || !ready.empty()) {
    if (ready.empty()) now = std::max(now, jobs[next].head);
    for (; next < jobs.size() && jobs[next].head <= now; ++next) {
      ready.emplace(jobs[next].tail, jobs[next].duration);
    }
    const auto [tail, left] = ready.top();
    ready.pop();
    const double until = next < jobs.size() ? std::min(now + left, jobs[next].head) : now + left;
    if (until < now + left) ready.emplace(tail, left - (until - now));
    now = until;
    bound = std::max(bound, now + tail);
  }
  return bound;
}

double RankBound(const Problem& problem, const Relaxation& relaxation) {
  double best = 0;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    std::vector<Job> jobs = JobsOf(problem, relaxation, rank);
    best = std::max(best, OneRankBound(jobs));
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
        until_weight += rule.kept[s] * problem.weight_grad[s] * problem.micro_batches;
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
