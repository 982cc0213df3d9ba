#include "tools/plan/plan_search.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/spec/units.h"
#include "partitioner/planning/leanest_plan.h"
#include "partitioner/planning/planner.h"
#include "schedules/partition.h"
#include "tools/plan/layer_memory.h"

namespace sluice {
namespace {

// How often a plan that turns out too large is made again for less memory.
constexpr int kMostRepairs = 8;
// Seconds that a choice among many settings may take where no flag says: with reading, and
// describing what was found, ten.
constexpr double kPatience = 8;
// Orders of different devices that are tried.
constexpr size_t kMostOrders = 128;

// Every order in which ranks could hold devices of different kinds; one empty order where all are
// alike.
absl::StatusOr<std::vector<std::vector<int>>> Orders(const std::vector<int>& kinds, int shared,
                                                     int pipeline) {
  if (kinds.size() <= 1) return std::vector<std::vector<int>>{{}};
  std::vector<int> order;
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    if (kinds[kind] % shared != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          kinds[kind], " devices of one kind do not share out over stages of ", shared));
    }
    order.insert(order.end(), kinds[kind] / shared, static_cast<int>(kind));
  }
  if (static_cast<int>(order.size()) != pipeline) {
    return absl::InvalidArgumentError(
        "a cluster of different devices is planned as a whole: give --devices all of them");
  }
  std::vector<std::vector<int>> orders;
  do {
    orders.push_back(order);
    if (orders.size() > kMostOrders) {
      return absl::InvalidArgumentError(
          absl::StrCat("there are more than ", kMostOrders,
                       " orders of these devices; give them higher data or tensor degrees"));
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return orders;
}

absl::StatusOr<std::vector<PlanSetting>> Settings(const PlanFlags& flags,
                                                  const PlanChoices& choices,
                                                  const PlanSource& source) {
  SettingChoices wanted;
  wanted.devices = flags.devices;
  wanted.data = choices.data_parallel;
  wanted.tensor = choices.tensor_parallel;
  wanted.most_tensor = source.most_tensor;
  wanted.layers = source.layers;
  if (!choices.any_micro_batch_size) wanted.micro_batch_size = source.batch.size;
  const absl::StatusOr<int64_t> samples = GlobalBatch(flags, choices, source.batch.size);
  if (!samples.ok()) return samples.status();
  wanted.global_batch = *samples;
  const absl::StatusOr<std::vector<PlanSetting>> listed = ListSettings(wanted);
  if (!listed.ok()) return listed.status();
  std::vector<PlanSetting> settings;
  absl::Status first_failure;
  for (const PlanSetting& setting : *listed) {
    absl::StatusOr<std::vector<std::vector<int>>> orders =
        Orders(source.kinds, setting.data * setting.tensor, setting.pipeline);
    if (!orders.ok()) {
      first_failure.Update(orders.status());
      continue;
    }
    for (std::vector<int>& order : *orders) {
      settings.push_back(setting);
      settings.back().rank_devices = std::move(order);
    }
  }
  if (settings.empty()) return first_failure;
  return settings;
}

// Replaces the bytes that the planner counted by what a run allocates.
absl::Status SetRunMemory(const PlanChoices& choices, const PlanSource& source,
                          const PlanSetting& setting, Plan* plan) {
  const BatchShape batch{setting.micro_batch_size, source.batch.seq};
  absl::StatusOr<std::vector<int64_t>> exact = RunMemory(
      *source.context.spec, batch, source.context.dtype, choices.optimizer, plan->timetable,
      AssignmentOf(*plan), setting.data, source.context.zero, *source.kernels);
  if (!exact.ok()) return exact.status();
  plan->peak_bytes = *std::move(exact);
  return absl::OkStatus();
}

// Limits the layers' own bytes so that the device that was over saves what it was over.
int64_t TightenedLimit(const std::vector<int64_t>& declared, const std::vector<int64_t>& run,
                       int64_t limit, int64_t tightened) {
  for (size_t rank = 0; rank < run.size(); ++rank) {
    if (run[rank] > limit) tightened = std::min(tightened, declared[rank] - (run[rank] - limit));
  }
  return tightened;
}

// The leanest plan, with what a run of it allocates; FailedPrecondition when that is too much.
absl::StatusOr<Plan> LeanestRun(const PlanChoices& choices, const PlanSource& source,
                                const PlanSetting& setting, const PlanRequest& request,
                                int64_t limit) {
  absl::StatusOr<Plan> leanest = MakeLeanestPlan(request);
  if (!leanest.ok()) return leanest.status();
  if (absl::Status status = SetRunMemory(choices, source, setting, &*leanest); !status.ok()) {
    return status;
  }
  if (leanest->largest_peak_bytes() > limit) return NothingFits(*leanest, limit);
  return leanest;
}

// `best` was planned by the layers' own bytes, which are a little less than a run allocates
// (alignment, messages ahead of their use, the packing of buffers). What does not fit after all is
// made again for less memory; the bound of the first one, made with more memory than there is,
// still holds.
absl::Status FitRun(const PlanChoices& choices, const PlanSource& source, const JointRequest& joint,
                    JointPlan* best) {
  PlanRequest request = RequestOf(joint, best->setting, best->machines);
  const std::optional<int64_t> limit = request.machines.memory_limit;
  const double lower_bound = best->plan.lower_bound;
  for (int repair = 0; repair <= kMostRepairs; ++repair) {
    const std::vector<int64_t> declared = best->plan.peak_bytes;
    if (absl::Status status = SetRunMemory(choices, source, best->setting, &best->plan);
        !status.ok()) {
      return status;
    }
    best->plan.SetLowerBound(lower_bound);
    if (!limit || best->plan.largest_peak_bytes() <= *limit) return absl::OkStatus();
    request.machines.memory_limit =
        TightenedLimit(declared, best->plan.peak_bytes, *limit, *request.machines.memory_limit);
    if (repair == kMostRepairs || *request.machines.memory_limit <= 0) break;
    absl::StatusOr<Plan> plan = MakePlan(request);
    if (!plan.ok() && plan.status().code() != absl::StatusCode::kFailedPrecondition) {
      return plan.status();
    }
    if (!plan.ok()) break;
    best->plan = *std::move(plan);
  }
  absl::StatusOr<Plan> leanest = LeanestRun(choices, source, best->setting, request, *limit);
  if (!leanest.ok()) return leanest.status();
  leanest->SetLowerBound(lower_bound);
  best->plan = *std::move(leanest);
  return absl::OkStatus();
}

// Where nothing fits, says so in the bytes that a run of the one setting allocates.
absl::Status WhyNoRun(const PlanChoices& choices, const PlanSource& source,
                      const JointRequest& joint, const absl::Status& why) {
  if (why.code() != absl::StatusCode::kFailedPrecondition) return why;
  const PlanSetting& setting = joint.settings.front();
  const absl::StatusOr<Machines> machines = joint.price(setting);
  if (!machines.ok() || !machines->memory_limit) return why;
  const absl::StatusOr<Plan> leanest = LeanestRun(
      choices, source, setting, RequestOf(joint, setting, *machines), *machines->memory_limit);
  return leanest.ok() ? why : leanest.status();
}

// One line that rewrites itself on a terminal.
class ProgressLine {
 public:
  ~ProgressLine() {
    if (shown_) fmt::print(stderr, "\r\x1b[K");
  }
  void Show(const PlanProgress& progress) {
    if (isatty(STDERR_FILENO) == 0) return;
    shown_ = true;
    std::string best = "no plan yet";
    if (std::isfinite(progress.best_seconds)) {
      const double gap = progress.best_seconds / progress.lower_bound - 1;
      best = fmt::format("best {}, within {} of the least there can be",
                         FormatSeconds(progress.best_seconds), FormatShare(gap));
    }
    fmt::print(stderr, "\r\x1b[K  {} of {} settings, {}", progress.settings_done, progress.settings,
               best);
    std::fflush(stderr);
  }

 private:
  bool shown_ = false;
};

}  // namespace

std::function<bool()> StopAfter(const std::optional<double>& seconds) {
  if (!seconds) return {};
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(*seconds));
  return [end] { return Clock::now() >= end; };
}

absl::StatusOr<JointRequest> MakeJointRequest(const PlanFlags& flags, const PlanChoices& choices,
                                              const PlanSource& source) {
  JointRequest request;
  PlanRequest& common = request.common;
  common.schedule = flags.schedule;
  common.round_robin = flags.format == "megatron";
  common.chunks = flags.chunks.value_or(0);
  common.policies = choices.policies;
  common.objective = choices.objective;
  common.gap = choices.gap;
  if (!flags.partition.empty()) {
    absl::StatusOr<Partition> partition = ParsePartition(flags.partition, source.layers);
    if (!partition.ok()) return partition.status();
    common.partition = *std::move(partition);
  }
  absl::StatusOr<std::vector<PlanSetting>> settings = Settings(flags, choices, source);
  if (!settings.ok()) return settings.status();
  request.settings = *std::move(settings);
  const bool many = request.settings.size() > 1;
  common.stop = StopAfter(many && !choices.time_limit ? std::optional<double>(kPatience)
                                                      : choices.time_limit);
  request.price = source.price;
  return request;
}

absl::StatusOr<JointPlan> FindPlan(const PlanChoices& choices, const PlanSource& source,
                                   const JointRequest& request) {
  ProgressLine line;
  JointRequest shown = request;
  if (request.settings.size() > 1) {
    shown.progress = [&line](const PlanProgress& progress) { line.Show(progress); };
  }
  absl::StatusOr<JointPlan> best = MakeJointPlan(shown);
  if (!source.context.spec || !source.runs_here) return best;
  if (!best.ok()) {
    return request.settings.size() == 1 ? WhyNoRun(choices, source, request, best.status()) : best;
  }
  if (absl::Status status = FitRun(choices, source, request, &*best); !status.ok()) return status;
  return best;
}

}  // namespace sluice
