#include "partitioner/planning/answer/search.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "partitioner/planning/answer/fit.h"
#include "partitioner/planning/question/limits.h"
#include "partitioner/planning/race/settings.h"

namespace sluice {
namespace {

// Seconds that a choice among many settings may take where the question does not say: with reading,
// and describing what was found, ten. Until something is found, it may take longer.
constexpr double kPatience = 8;
constexpr double kPatienceWithoutPlan = 60;
// Seconds beyond a limit that the plan which was found may take to be completed. Few ranks take
// milliseconds.
constexpr double kCompletion = 1;
// What is longer is no limit to anybody, and may be more than a clock can count.
constexpr double kNoLimit = 1e9;

// The plan of one setting, beside those of the request that were `too_large` for their runs.
JointPlan WithSettings(const JointRequest& request, const std::vector<RejectedPlan>& too_large,
                       JointPlan joint) {
  joint.settings_in_all = static_cast<int>(request.settings.size());
  joint.settings_tried += static_cast<int>(too_large.size());
  joint.plan.rejected.insert(joint.plan.rejected.begin(), too_large.begin(), too_large.end());
  return joint;
}

}  // namespace

std::function<bool()> StopAfter(const std::optional<double>& seconds,
                                const std::function<bool()>& stop) {
  if (!seconds || *seconds > kNoLimit) return stop;
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(*seconds));
  if (!stop) return [end] { return Clock::now() >= end; };
  return [end, stop] { return stop() || Clock::now() >= end; };
}

absl::StatusOr<JointRequest> MakeJointRequest(const PlanQuestion& question,
                                              const PlanSource& source) {
  JointRequest request;
  PlanRequest& common = request.common;
  common.schedule = question.schedule;
  common.for_megatron = question.trainer == Trainer::kMegatron;
  common.chunks = question.chunks.value_or(0);
  common.policies = question.policies;
  common.objective = question.objective;
  common.gap = question.gap;
  common.partition = question.partition;
  absl::StatusOr<std::vector<PlanSetting>> settings = SettingsOf(question, source);
  if (!settings.ok()) return settings.status();
  request.settings = *std::move(settings);
  const bool many = request.settings.size() > 1;
  if (many && !question.time_limit) {
    request.stop_when_found = StopAfter(kPatience, {});
    common.stop = StopAfter(kPatienceWithoutPlan, question.stop);
  } else {
    common.stop = StopAfter(question.time_limit, question.stop);
  }
  std::optional<double> completed = question.time_limit;
  if (completed) *completed += kCompletion;
  request.stop_completing = StopAfter(completed, question.stop);
  request.price = [&source](const PlanSetting& setting) -> absl::StatusOr<Machines> {
    if (absl::Status status = CheckSettingLimits(setting, source.batch.seq); !status.ok()) {
      return status;
    }
    return source.price(setting);
  };
  return request;
}

absl::StatusOr<JointPlan> FindPlan(const PlanQuestion& question, const PlanSource& source,
                                   const JointRequest& request, const ProgressCallback& progress) {
  JointRequest left = request;
  if (request.settings.size() > 1) left.progress = progress;
  absl::StatusOr<JointPlan> best = MakeJointPlan(left);
  if (!source.spec || !source.runs_here) return best;
  // A setting whose layers fit, but no run of them, leaves the place to the others.
  std::vector<RejectedPlan> too_large;
  absl::Status leanest;
  int64_t least = INT64_MAX;
  double lower_bound = 0;
  for (; best.ok(); best = MakeJointPlan(left)) {
    if (too_large.empty()) lower_bound = best->plan.lower_bound;
    best->plan.SetLowerBound(lower_bound);  // it holds over all settings
    const absl::Status status = FitRun(question, source, request, &*best);
    if (status.ok()) return WithSettings(request, too_large, *std::move(best));
    if (!absl::IsFailedPrecondition(status)) return status;
    if (best->plan.largest_peak_bytes() < least) {
      least = best->plan.largest_peak_bytes();
      leanest = status;
    }
    too_large.push_back({best->setting.Describe(), std::string(status.message())});
    std::erase(left.settings, best->setting);
    if (left.settings.empty()) {
      if (request.settings.size() == 1) return leanest;
      return FitLeanest(question, source, request, leanest);
    }
  }
  const bool none_fits = absl::IsFailedPrecondition(best.status()) && !leanest.ok();
  return FitLeanest(question, source, request, none_fits ? leanest : best.status());
}

}  // namespace sluice
