#include "schedules/optimise/optimise.h"

#include <tbb/global_control.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedules/check/validate.h"
#include "schedules/optimise/exact/exact.h"
#include "schedules/optimise/problem/bounds.h"
#include "schedules/optimise/problem/problem.h"
#include "schedules/optimise/problem/relaxation.h"
#include "schedules/optimise/search/improve.h"
#include "schedules/optimise/search/search.h"
#include "schedules/optimise/search/seeds.h"
#include "schedules/simulate/bound.h"
#include "schedules/simulate/simulate.h"

namespace sluice {
namespace {

using optimise::Deadline;
using optimise::kRounding;
using optimise::Problem;

// The exhaustive search is worth trying up to this size, of the whole problem or of each rank.
// Without a time limit it may look at so many prefixes, times actions: about a second. With one, it
// starts again with this many times as many for as long as there is time.
constexpr int kMostActionsToExhaust = 450;
constexpr double kMostExhaustiveWork = 1.5e8;
constexpr double kMoreWork = 4;

// With more actions than this, the search ends at a timetable within this share of the bound, since
// each try takes milliseconds.
constexpr int kManyActions = 20'000;
constexpr double kCloseEnough = 5e-5;

// Whether a B is shorter than a W that it would save: the exhaustive search takes it that an I that
// has room to run may run, with its W where the B was.
bool HasShortBackward(const Problem& problem) {
  for (int s = 0; s < problem.stages; ++s) {
    if (problem.fuses(s) && problem.backward[s] < problem.weight_grad[s]) return true;
  }
  return false;
}

// Whether an I may add to what its rank holds: the exhaustive search takes it that only F does.
bool HasGrowingGradient(const Problem& problem) {
  for (const optimise::MemoryRule& rule : problem.memory) {
    for (int s = 0; s < problem.stages; ++s) {
      if (rule.kept[s] > rule.held[s]) return true;
    }
  }
  return false;
}

// `table` with one B for each I that its own W follows at once.
Timetable Fused(const Timetable& table) {
  Timetable fused = table;
  for (auto& row : fused.rows) {
    std::vector<Action> kept;
    for (const Action& action : row) {
      Action* last = kept.empty() ? nullptr : &kept.back();
      const bool follows = last != nullptr && action.op == Op::kWeightGrad &&
                           last->op == Op::kInputGrad && last->stage == action.stage &&
                           last->micro_batch == action.micro_batch;
      if (follows) {
        last->op = Op::kBackward;
      } else {
        kept.push_back(action);
      }
    }
    row = std::move(kept);
  }
  return fused;
}

class Optimiser {
 public:
  Optimiser(const OptimiseRequest& request, Problem problem)
      : request_(request),
        problem_(std::move(problem)),
        fuse_(problem_.fuses_somewhere()),
        deadline_(request.time_limit, request.stop) {}

  absl::StatusOr<OptimisedTimetable> Run();

 private:
  void FindBound();
  bool AtBound() const { return found_ && value_ <= bound_ * (1 + kRounding); }
  absl::Status Offer(const Timetable& table, const std::string& found_by);
  absl::Status OfferSeeds(const std::vector<Timetable>& seeds);
  absl::Status OfferOrder(const optimise::Order& order, const std::string& found_by);
  absl::Status Exhaust();
  optimise::Schedule Best() const { return {optimise::OrderOf(problem_, best_.table), value_}; }
  absl::Status Polish(const optimise::Schedule& start, const optimise::SearchSettings& settings,
                      const Deadline& deadline);
  absl::StatusOr<OptimisedTimetable> Finish();

  const OptimiseRequest& request_;
  const Problem problem_;
  const bool fuse_;
  const Deadline deadline_;
  double bound_ = 0;
  bool found_ = false;
  double value_ = 0;
  OptimisedTimetable best_;
};

void Optimiser::FindBound() {
  if (request_.objective == Objective::kMakespan) {
    bound_ = MakespanLowerBound(request_.placement, request_.micro_batches, request_.costs);
  }
  // A pair may last less than its two actions: only the bound above allows for that.
  if (request_.costs.overlap >= 0) return;
  const Problem cheapest = optimise::CheapestOf(problem_);
  bound_ = std::max({bound_, optimise::MemoryAreaBound(cheapest),
                     optimise::RankBound(cheapest, optimise::Relaxation(cheapest))});
}

absl::Status Optimiser::Offer(const Timetable& table, const std::string& found_by) {
  absl::StatusOr<Simulation> run = Simulate(table, request_.costs, Detail::kSummary);
  if (!run.ok()) return run.status();
  if (!KeepsLimits(*run, request_.limits)) return absl::OkStatus();
  const double value = ObjectiveValue(*run, request_.objective);
  if (found_ && value >= value_) return absl::OkStatus();
  found_ = true;
  value_ = value;
  best_.table = table;
  best_.found_by = found_by;
  return absl::OkStatus();
}

absl::Status Optimiser::OfferSeeds(const std::vector<Timetable>& seeds) {
  for (const Timetable& seed : seeds) {
    if (!optimise::SamePlacement(seed.placement, request_.placement) ||
        seed.micro_batches != request_.micro_batches || seed.updates != WeightUpdates::kFlush) {
      return absl::InvalidArgumentError(absl::StrCat(
          "seed ", seed.name, " is for another placement, other micro-batches or asynchronous"));
    }
    if (absl::Status ok = Offer(seed, seed.name); !ok.ok()) return ok;
  }
  return absl::OkStatus();
}

absl::Status Optimiser::OfferOrder(const optimise::Order& order, const std::string& found_by) {
  const Timetable table = optimise::TimetableOf(problem_, order);
  if (absl::Status ok = Offer(table, found_by); !ok.ok()) return ok;
  return fuse_ ? Offer(Fused(table), found_by) : absl::OkStatus();
}

absl::StatusOr<OptimisedTimetable> Optimiser::Run() {
  FindBound();
  const int actions = 3 * problem_.stages * problem_.micro_batches;
  const double close = actions > kManyActions ? kCloseEnough : kRounding;
  const optimise::SearchSettings settings{.good_enough = bound_ * (1 + close),
                                          .effort = std::max(0.0, request_.effort),
                                          .seed = request_.seed};
  if (absl::Status ok = OfferSeeds(request_.seeds); !ok.ok()) return ok;
  if (absl::Status ok = OfferSeeds(optimise::CatalogueSeeds(request_)); !ok.ok()) return ok;
  if (found_ && value_ <= settings.good_enough) return Finish();
  const optimise::Schedule schedule = optimise::SearchRules(problem_, settings, deadline_);
  if (absl::Status ok = OfferOrder(schedule.order, "search"); !ok.ok()) return ok;
  if (fuse_) {
    // Every W right after its I, ready to be fused.
    Problem whole = problem_;
    whole.input_grad = problem_.backward;
    whole.weight_grad.assign(problem_.stages, 0);
    whole.fused.assign(problem_.stages, 0);
    const optimise::Schedule fused = optimise::SearchRules(whole, settings, deadline_);
    if (absl::Status ok = OfferOrder(fused.order, "search"); !ok.ok()) return ok;
  }
  const optimise::Schedule start = Best();
  if (absl::Status ok = Exhaust(); !ok.ok()) return ok;
  // Local search may get further from where it was than from something better.
  if (value_ < start.value) {
    if (absl::Status ok = Polish(start, settings, deadline_.Half()); !ok.ok()) return ok;
  }
  if (absl::Status ok = Polish(Best(), settings, deadline_); !ok.ok()) return ok;
  return Finish();
}

// Tries to prove that the best timetable is optimal, or finds an optimal one. The exhaustive search
// knows no overlapped pairs, no busy links and no I that needs memory: where these could matter, it
// proves nothing.
absl::Status Optimiser::Exhaust() {
  const bool modelled = request_.costs.overlap < 0 && request_.costs.link_busy.empty() &&
                        !HasShortBackward(problem_) && !HasGrowingGradient(problem_);
  const int actions = 3 * problem_.stages * problem_.micro_batches;
  if (!modelled || actions > kMostActionsToExhaust * problem_.ranks) return absl::OkStatus();
  const auto search =
      actions > kMostActionsToExhaust ? optimise::SearchRanks : optimise::SearchExactly;
  const Deadline half = deadline_.Half();
  double work = std::max(0.0, request_.effort) * kMostExhaustiveWork;
  do {
    if (AtBound()) return absl::OkStatus();
    const optimise::ExactResult result =
        search(problem_, bound_, value_, static_cast<int64_t>(work / actions), half);
    if (result.better.value < optimise::kNever) {
      absl::Status ok = OfferOrder(result.better.order, "exhaustive search");
      if (!ok.ok()) return ok;
    }
    bound_ = std::max(bound_, std::min(result.lower, value_));
    work *= kMoreWork;
    // Without a deadline, one round; with one, as many as there is time for.
  } while (half.bounded() && !half.passed());
  return absl::OkStatus();
}

// Starts from `start`, a timetable within the limits.
absl::Status Optimiser::Polish(const optimise::Schedule& start,
                               const optimise::SearchSettings& settings, const Deadline& deadline) {
  if (AtBound()) return absl::OkStatus();
  const optimise::Schedule better = optimise::Improve(problem_, start, settings, deadline);
  if (better.value >= start.value) return absl::OkStatus();
  return OfferOrder(better.order, "local search");
}

absl::StatusOr<OptimisedTimetable> Optimiser::Finish() {
  best_.table.name = "auto";
  if (absl::Status sound = ValidateTimetable(best_.table); !sound.ok()) return sound;
  absl::StatusOr<Simulation> run = Simulate(best_.table, request_.costs);
  if (!run.ok()) return run.status();
  best_.run = *std::move(run);
  // Sums round differently: a value that meets the bound may seem a hair below it.
  best_.lower_bound = AtBound() ? value_ : bound_;
  best_.optimal = AtBound();
  best_.gap = GapOf(value_, best_.lower_bound);
  if (request_.objective == Objective::kMakespan) {
    best_.run.lower_bound = best_.lower_bound;
    best_.run.gap = best_.gap;
  }
  return std::move(best_);
}

}  // namespace

double ObjectiveValue(const Simulation& run, Objective objective) {
  return objective == Objective::kSpan ? run.span : run.makespan;
}

bool KeepsLimits(const Simulation& run, const MemoryLimits& limits) {
  for (size_t rank = 0; rank < limits.activations.size(); ++rank) {
    if (run.peak_activations[rank] > limits.activations[rank]) return false;
  }
  for (size_t rank = 0; rank < limits.bytes.size() && rank < run.peak_bytes.size(); ++rank) {
    if (run.peak_bytes[rank] > limits.bytes[rank] * (1 + optimise::kSlack)) return false;
  }
  return true;
}

absl::StatusOr<OptimisedTimetable> OptimiseTimetable(const OptimiseRequest& request) {
  absl::StatusOr<Problem> problem = optimise::MakeProblem(request);
  if (!problem.ok()) return problem.status();
  const auto run = [&] { return Optimiser(request, *std::move(problem)).Run(); };
  if (request.threads <= 0) return run();
  const tbb::global_control limit(tbb::global_control::max_allowed_parallelism,
                                  static_cast<size_t>(request.threads));
  return run();
}

}  // namespace sluice
