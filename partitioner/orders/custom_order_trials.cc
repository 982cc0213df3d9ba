#include "partitioner/orders/custom_order_trials.h"

#include <variant>
#include <vector>

namespace sluice {
namespace {

using Trial = CustomOrderTrial;

constexpr double kHalf = 0.5, kLess = 0.3;

constexpr optimise::DueTimes Slow(double slowness, int spare) {
  return {.slowness = slowness, .spare = spare, .late_weights = 30, .patience = 0.3};
}

constexpr Trial First(double front_share, Recompute everywhere, Recompute in_spare_time,
                      const optimise::DispatchRules& rules) {
  return {FullRanks::kFirst, front_share, everywhere, in_spare_time, 0, false, rules};
}

constexpr Trial Fit(FullRanks full, double slowness, const optimise::DispatchRules& rules) {
  return {full, kLess, Recompute::kNone, Recompute::kNone, slowness, false, rules};
}

constexpr Trial Longer(FullRanks full, double front_share, double slowness,
                       const optimise::DispatchRules& rules) {
  return {full, front_share, Recompute::kNone, Recompute::kNone, slowness, true, rules};
}

constexpr Recompute kNone = Recompute::kNone, kSelective = Recompute::kSelective,
                    kFull = Recompute::kFull;

// Set by hand on the cases of bench/plan_search: 200 layers on 64 devices of 140 to 40 GiB. At 140
// GiB they brought the step from 21.06 s, by the catalogue's orders, to 20.45 s; at 80 and 60 GiB
// from 21.35 and 22.26 s, by the first rows of this kind, to 20.94 and 21.39 s. The last run is in
// bench/results/plan_search.txt. A long search of the optimiser (schedules/optimise) finds little
// better. Whoever changes a row runs bench/plan_search before and after.
constexpr Trial kTrials[] = {
    // Where there is memory: as many micro-batches in flight as it is likely to allow.
    First(kHalf, kNone, kNone,
          optimise::Preferences{.in_flight = 2.75, .forward_first = true, .late_share = 2}),
    First(kHalf, kNone, kNone, optimise::Preferences{.in_flight = 3, .forward_first = true}),
    First(kHalf, kNone, kSelective, Slow(2.5, 20)),
    First(kHalf, kNone, kSelective, Slow(3, 4)),
    // Little memory: first stages are short, and hold less.
    First(kLess, kNone, kSelective, Slow(3, 0)),
    First(kLess, kNone, kSelective, Slow(2.6, 4)),
    Fit(FullRanks::kFirst, 2.1, Slow(2.4, 0)),
    Fit(FullRanks::kFirst, 1.5, Slow(1.72, 0)),
    // Less memory: full ranks stand last, where they hold few micro-batches.
    Fit(FullRanks::kLast, 1.8, Slow(1.8, 4)),
    Fit(FullRanks::kLast, 2.1, Slow(2.1, 0)),
    Fit(FullRanks::kLast, 2.1, Slow(2.4, 0)),
    // So little memory that every rank must recompute.
    Longer(FullRanks::kFirst, kHalf, 2, Slow(2.3, 0)),
    Longer(FullRanks::kFirst, kHalf, 2.4, Slow(2.6, 0)),
    Longer(FullRanks::kFirst, kLess, 2.1, Slow(2.4, 0)),
    Longer(FullRanks::kLast, kLess, 2.1, Slow(2.4, 0)),
    // Where nothing else fits.
    First(kHalf, kSelective, kSelective, Slow(2, 4)),
    First(kHalf, kFull, kFull, optimise::Preferences{.in_flight = 3, .forward_first = true}),
    First(kHalf, kFull, kFull, Slow(3, 4)),
};

}  // namespace

absl::Span<const Trial> CustomOrderTrials() { return kTrials; }

std::vector<CustomOrderTrial> TrialsNear(const CustomOrderTrial& trial) {
  std::vector<CustomOrderTrial> near;
  const auto add = [&](const auto& change) { change(near.emplace_back(trial)); };
  for (double by : {0.9, 0.93, 0.96, 0.98, 1.02, 1.04, 1.08, 1.12}) {
    add([&](Trial& other) {
      if (auto* due = std::get_if<optimise::DueTimes>(&other.rules)) {
        due->slowness *= by;
      } else {
        std::get<optimise::Preferences>(other.rules).in_flight *= by;
      }
    });
  }
  for (double by : {0.9, 0.95, 1.05, 1.1}) {
    if (trial.fit > 0) add([&](Trial& other) { other.fit *= by; });
  }
  if (!std::holds_alternative<optimise::DueTimes>(trial.rules)) return near;
  for (double patience : {0.1, 0.2, 0.4, 0.6}) {
    add([&](Trial& other) { std::get<optimise::DueTimes>(other.rules).patience = patience; });
  }
  for (int spare : {2, 8}) {
    add([&](Trial& other) { std::get<optimise::DueTimes>(other.rules).spare += spare; });
  }
  return near;
}

}  // namespace sluice
