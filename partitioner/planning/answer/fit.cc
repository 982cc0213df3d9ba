#include "partitioner/planning/answer/fit.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/spec/units.h"
#include "partitioner/bounds/step_floor.h"
#include "partitioner/orders/custom_order.h"
#include "partitioner/planning/answer/audit_cost.h"
#include "partitioner/planning/answer/head_advice.h"
#include "partitioner/planning/answer/run_memory.h"
#include "partitioner/planning/plan/leaner_plan.h"
#include "partitioner/planning/plan/least_memory_plan.h"
#include "partitioner/planning/race/planner.h"

namespace sluice {
namespace {

// How often a plan that turns out too large is made again for less memory.
constexpr int kMostRepairs = 8;

// The run that `sluice train` makes of the plan.
RunRequest RunOf(const PlanQuestion& question, const PlanSource& source, const PlanSetting& setting,
                 const Plan& plan) {
  StageAssignment assignment = AssignmentOf(plan);
  return {.spec = *source.spec,
          .batch = {setting.micro_batch_size, source.batch.seq},
          .dtype = source.dtype,
          .documents = question.documents,
          .adaptation = source.adaptation,
          .timetable = plan.timetable,
          .partition = std::move(assignment.partition),
          .recompute = std::move(assignment.recompute),
          .replicas = setting.data,
          .zero = question.zero,
          .mirror = question.mirror,
          .audit_every = question.audit_every,
          .optimizer = question.optimizer,
          .kernels = source.kernels};
}

// Replaces the bytes that the planner counted by what a run allocates.
absl::Status SetRunMemory(const PlanQuestion& question, const PlanSource& source,
                          const PlanSetting& setting, const std::function<bool()>& stop,
                          Plan* plan) {
  absl::StatusOr<std::vector<int64_t>> exact =
      RunMemory(RunOf(question, source, setting, *plan), stop);
  if (!exact.ok()) return exact.status();
  plan->peak_bytes = *std::move(exact);
  return absl::OkStatus();
}

// Leaves room on each device for what its run took beyond the layers' own bytes. Device by device,
// since the first and the last layer take much more than others.
void LeaveRoom(const std::vector<int64_t>& declared, const std::vector<int64_t>& run,
               const Machines& asked, Machines* machines) {
  std::vector<int64_t> memory(run.size());
  for (size_t rank = 0; rank < run.size(); ++rank) {
    const int64_t beyond = std::max<int64_t>(0, run[rank] - declared[rank]);
    memory[rank] = std::min(machines->MemoryOf(static_cast<int>(rank)),
                            asked.MemoryOf(static_cast<int>(rank)) - beyond);
  }
  machines->rank_memory = std::move(memory);
}

// The plan that needs least memory, with what a run of it allocates: made leaner where it does not
// fit into that of `request`. `stop` replaces that of `request`, which said when the search was
// over.
absl::StatusOr<LeanestPlan> LeastMemoryRun(const PlanQuestion& question, const PlanSource& source,
                                           const PlanSetting& setting, PlanRequest request,
                                           const std::function<bool()>& stop) {
  request.stop = stop;
  return MakeLeastMemoryPlan(
      request, [&](Plan* plan) { return SetRunMemory(question, source, setting, stop, plan); });
}

PlanRequest WithoutLimit(PlanRequest request) {
  request.machines.SetMemory(std::nullopt);
  return request;
}

// Why a limit of memory cannot be met, which not even `leanest` does: that nothing fits, or that
// this was not proved.
absl::Status WhyTooLarge(const LeanestPlan& leanest, int64_t limit, const absl::Status& unproved) {
  if (!absl::IsDeadlineExceeded(unproved)) return NothingFits(leanest, limit);
  return absl::DeadlineExceededError(
      absl::StrCat(unproved.message(), "; the leanest found needs ",
                   DescribeMemory(leanest.plan.largest_peak_bytes())));
}

absl::Status FitBytes(const PlanQuestion& question, const PlanSource& source,
                      const JointRequest& joint, JointPlan* best) {
  const PlanRequest asked = RequestOf(joint.common, best->setting, best->machines);
  PlanRequest request = asked;  // with less memory after each repair
  double lower_bound = best->plan.lower_bound;
  absl::Status unproved;
  for (int repair = 0; repair <= kMostRepairs; ++repair) {
    const std::vector<int64_t> declared = best->plan.peak_bytes;
    absl::Status status =
        SetRunMemory(question, source, best->setting, joint.stop_completing, &best->plan);
    // That of a plan made for less memory would be of those alone that fit into less.
    best->plan.SetLowerBound(lower_bound);
    best->completed = !absl::IsDeadlineExceeded(status);
    if (!best->completed) return absl::OkStatus();
    if (!status.ok()) return status;
    if (FitsInto(asked.machines, best->plan)) return absl::OkStatus();
    LeaveRoom(declared, best->plan.peak_bytes, asked.machines, &request.machines);
    if (repair == kMostRepairs || request.machines.least_memory() <= 0) break;
    absl::StatusOr<Plan> plan = MakePlan(request, &best->plan);
    if (absl::IsDeadlineExceeded(plan.status())) unproved = plan.status();
    if (absl::IsDeadlineExceeded(plan.status()) || absl::IsFailedPrecondition(plan.status())) break;
    if (!plan.ok()) return plan.status();
    // The first plan may have been bounded among the catalogue's orders alone.
    if (plan->schedule == kCustomOrder) lower_bound = std::min(lower_bound, StepFloor(asked));
    plan->rejected = std::move(best->plan.rejected);  // which tells of other settings, too
    best->plan = *std::move(plan);
  }
  // Of several settings, the others are tried before any is made leaner.
  absl::StatusOr<LeanestPlan> leanest = LeastMemoryRun(
      question, source, best->setting, joint.settings.size() > 1 ? WithoutLimit(asked) : asked,
      joint.stop_completing);
  if (!leanest.ok()) return leanest.status();
  leanest->plan.SetLowerBound(lower_bound);
  leanest->plan.rejected = std::move(best->plan.rejected);
  best->plan = leanest->plan;
  if (FitsInto(asked.machines, best->plan)) return absl::OkStatus();
  return WhyTooLarge(*leanest, asked.machines.least_memory(), unproved);
}

// A setting, what is asked of it, and the least bytes that its layers declare.
struct LeanSetting {
  const PlanSetting* setting;
  PlanRequest request;
  int64_t bytes = 0;
};

// The settings of `joint` that have a limit of memory, those that need least first. One alone is
// not compared with any, and so has no bytes.
std::vector<LeanSetting> LeanestFirst(const JointRequest& joint,
                                      const std::function<bool()>& stop) {
  std::vector<LeanSetting> settings;
  for (const PlanSetting& setting : joint.settings) {
    absl::StatusOr<Machines> machines = joint.price(setting);
    if (!machines.ok() || !machines->limits_memory()) continue;
    LeanSetting each{&setting, RequestOf(joint.common, setting, *std::move(machines))};
    each.request.stop = stop;
    if (joint.settings.size() > 1) {
      const absl::StatusOr<LeanestPlan> leanest = MakeLeastMemoryPlan(each.request);
      if (!leanest.ok()) continue;
      each.bytes = leanest->plan.largest_peak_bytes();
    }
    settings.push_back(std::move(each));
  }
  std::stable_sort(settings.begin(), settings.end(),
                   [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  return settings;
}

// Seconds that no plan of any of `settings` beats, whatever it takes of memory: this holds even if
// layers should declare more than a run takes.
double FloorWithoutLimits(const std::vector<LeanSetting>& settings) {
  double floor = std::numeric_limits<double>::infinity();
  for (const LeanSetting& each : settings) {
    floor = std::min(floor, ObjectiveFloor(WithoutLimit(each.request)));
  }
  return floor;
}

// The most stages of any plan that was tried; 0 where there were several ways to use the devices.
int MostStages(const PlanQuestion& question, const PlanSource& source, const JointRequest& joint) {
  if (joint.settings.size() > 1) return 0;
  return question.partition ? static_cast<int>(question.partition->size()) : source.layers;
}

}  // namespace

absl::Status FitRun(const PlanQuestion& question, const PlanSource& source,
                    const JointRequest& joint, JointPlan* best) {
  absl::Status status = FitBytes(question, source, joint, best);
  if (!status.ok() || question.audit_every == 0) return status;
  if (best->completed) {
    status = AddAudits(RunOf(question, source, best->setting, best->plan), best->machines,
                       source.memory_bandwidth, MostStages(question, source, joint),
                       joint.stop_completing, &best->plan);
    if (!absl::IsDeadlineExceeded(status)) return status;
  }
  // A step without its audits is none that was asked for.
  return absl::DeadlineExceededError(
      absl::StrCat("--audit ", question.audit_every,
                   ": a plan was found, but what audits take was not counted within the time "
                   "limit; give a longer --time-limit"));
}

absl::StatusOr<JointPlan> FitLeanest(const PlanQuestion& question, const PlanSource& source,
                                     const JointRequest& joint, const absl::Status& why) {
  if (!absl::IsFailedPrecondition(why) && !absl::IsDeadlineExceeded(why)) return why;
  const bool out_of_time = joint.common.stop && joint.common.stop();
  if (absl::IsDeadlineExceeded(why) && out_of_time) return why;
  const bool several = joint.settings.size() > 1;
  const std::function<bool()>& stop = several ? joint.common.stop : joint.stop_completing;
  std::vector<LeanSetting> settings = LeanestFirst(joint, stop);
  std::optional<LeanestPlan> least;
  const LeanSetting* chosen = nullptr;
  for (const LeanSetting& each : settings) {
    if (least && each.bytes >= least->plan.largest_peak_bytes()) break;
    absl::StatusOr<LeanestPlan> leanest = LeastMemoryRun(
        question, source, *each.setting, several ? WithoutLimit(each.request) : each.request, stop);
    if (absl::IsDeadlineExceeded(leanest.status())) return why;
    if (!leanest.ok()) return leanest.status();
    if (least && leanest->plan.largest_peak_bytes() >= least->plan.largest_peak_bytes()) continue;
    least = *std::move(leanest);
    chosen = &each;
  }
  if (!least) return why;
  const Machines& machines = chosen->request.machines;
  if (several && !FitsInto(machines, least->plan)) {
    absl::StatusOr<LeanestPlan> leaner =
        LeastMemoryRun(question, source, *chosen->setting, chosen->request, stop);
    if (leaner.ok()) {
      least = *std::move(leaner);
    } else if (!absl::IsDeadlineExceeded(leaner.status())) {
      return leaner.status();
    }
  }
  if (!FitsInto(machines, least->plan)) {
    const absl::Status status = WhyTooLarge(*least, machines.least_memory(), why);
    if (!several) return status;
    return absl::Status(status.code(),
                        absl::StrCat(status.message(), " (", chosen->setting->Describe(), ")"));
  }
  JointPlan best;
  best.plan = std::move(least->plan);
  best.plan.SetLowerBound(FloorWithoutLimits(settings));
  best.setting = *chosen->setting;
  best.machines = chosen->request.machines;
  best.settings_tried = best.settings_in_all = static_cast<int>(joint.settings.size());
  for (const PlanSetting& other : joint.settings) {
    if (other != best.setting)
      best.plan.rejected.push_back({other.Describe(), "nothing that fits was found"});
  }
  const absl::Status status = FitRun(question, source, joint, &best);
  if (!status.ok()) return status;
  return best;
}

absl::Status WithHeadAdvice(const PlanSource& source, const JointRequest& joint,
                            const absl::Status& why) {
  if (!absl::IsFailedPrecondition(why) || !source.spec || !source.runs_here) return why;
  const auto smallest = std::min_element(joint.settings.begin(), joint.settings.end(),
                                         [](const PlanSetting& a, const PlanSetting& b) {
                                           return a.micro_batch_size < b.micro_batch_size;
                                         });
  if (smallest == joint.settings.end()) return why;
  const absl::StatusOr<Machines> machines = joint.price(*smallest);
  if (!machines.ok() || !machines->memory_limit) return why;
  const std::string advice =
      HeadAdvice(*source.spec, {smallest->micro_batch_size, source.batch.seq}, source.dtype,
                 source.kernels->head_limits, *machines->memory_limit);
  if (advice.empty()) return why;
  return absl::FailedPreconditionError(absl::StrCat(why.message(), ". ", advice));
}

}  // namespace sluice
