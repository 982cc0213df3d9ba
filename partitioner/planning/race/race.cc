#include "partitioner/planning/race/race.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "partitioner/search/partition_answer.h"
#include "schedules/optimise/parallel_for.h"

namespace sluice {

Race::Race(RaceRules rules)
    : rules_(std::move(rules)),
      incumbent_(rules_.cutoff),
      best_seconds_(rules_.cutoff),
      left_(rules_.budget) {}

void Race::Lower(double seconds) { incumbent_ = std::min(incumbent_, seconds); }

void Race::Take(Contestant* contestant) {
  const RaceResult& result = contestant->result;
  if (!result.found()) return;
  Lower(result.seconds);
  if (result.seconds >= best_seconds_ * (1 - kProofTolerance)) return;
  best_seconds_ = result.seconds;
  best_ = contestant;
}

void Race::Run(const std::vector<Contestant*>& order) {
  for (size_t first = 0; first < order.size(); first += rules_.wave) {
    if (rules_.leave_when_stopped && rules_.stop && rules_.stop()) return;
    std::vector<Contestant*> wave;
    for (size_t i = first; i < std::min(order.size(), first + rules_.wave); ++i) {
      if (order[i]->floor < incumbent_ / (1 + rules_.gap)) wave.push_back(order[i]);
    }
    if (wave.empty()) continue;
    const int64_t share = left_ / static_cast<int64_t>(order.size() - first);
    RunWave(wave, std::max(rules_.least_budget, share));
    if (rules_.after_wave) rules_.after_wave();
  }
}

void Race::RunWave(const std::vector<Contestant*>& wave, int64_t budget) {
  SearchOptions options;
  options.cutoff = incumbent_;
  options.gap = rules_.gap;
  options.budget = budget;
  options.stop = rules_.stop;
  ParallelFor(wave.size(), [&](size_t i) {
    wave[i]->result = wave[i]->Search(options);
    if (wave[i]->result.found() && rules_.on_found) rules_.on_found();
  });
  for (Contestant* contestant : wave) {
    left_ -= std::min(left_, contestant->result.steps);
    Take(contestant);
  }
  tried_ += static_cast<int>(wave.size());
}

std::string WhyLonger(double seconds, double best_seconds, bool proved) {
  const double longer = seconds / best_seconds - 1;
  if (longer <= kProofTolerance) return "as fast, with as many or more micro-batches in flight";
  return absl::StrFormat("+%.1f %% (best found; %sproved slower)", 100 * longer,
                         proved ? "" : "not ");
}

}  // namespace sluice
