#include "tools/train/running/replanned_run.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "comm/collectives/collectives.h"
#include "comm/collectives/machine_sum.h"
#include "models/device/device.h"
#include "models/device/host_memory.h"
#include "models/device/instant.h"
#include "models/device/out_of_memory.h"
#include "models/failpoints/failpoints.h"
#include "pipeline/trace/trace_event.h"
#include "pipeline/trace/trace_parts.h"
#include "pipeline/train/trainer.h"
#include "schedules/counted.h"
#include "schedules/partition.h"
#include "tools/command.h"

namespace sluice {
namespace {

// What `world`'s rank 0 has in `*text`, on every rank.
absl::Status ShareText(Communicator& world, absl::Duration timeout, std::string* text) {
  const auto mine = static_cast<double>(text->size());
  std::vector<double> sizes(static_cast<size_t>(world.size()));
  absl::Status status =
      world.AllGather({&mine, 1}, absl::MakeSpan(sizes), Instant::Now() + timeout);
  if (!status.ok()) return status;
  text->resize(static_cast<size_t>(sizes[0]));
  std::vector<int64_t> bounds(sizes.size() + 1, static_cast<int64_t>(sizes[0]));
  bounds[0] = 0;
  const SlicedBytes all = {.data = text->data(), .bounds = bounds};
  return AllGatherSlices(world, {&all, 1}, timeout);
}

// Ranks of which one is slow may differ by so many times in how long they take to compile a plan.
constexpr double kSlowest = 10;

}  // namespace

absl::Status ReplannedRun::Check(const TrainQuestion& question, const RunPlan& plan) {
  const char* why = nullptr;
  if (question.commands) {
    why = "a program that directs the run (--commands) asks each rank by its number";
  } else if (!MayReplan(question)) {
    why = "--partition, --plan and --stage-replicas say what each rank does; leave them out";
  } else if (plan.asynchronous()) {
    why =
        "the losses of an asynchronous schedule depend on which rank has which layers; choose a "
        "synchronous one";
  } else if (plan.lowered.placement.copies() > 1) {
    why = "each rank has a part of two copies of the model; choose a schedule with one";
  }
  return why == nullptr ? absl::OkStatus()
                        : absl::InvalidArgumentError(absl::StrCat("--replan: ", why));
}

ReplannedRun::ReplannedRun(const TrainQuestion& question, RunOutput* output,
                           std::function<void(TrainOptions*)> set_up,
                           std::function<absl::Status(CompiledJob*)> open_devices,
                           Communicator& world)
    : question_(question),
      output_(output),
      set_up_(std::move(set_up)),
      open_devices_(std::move(open_devices)),
      world_(world),
      traced_(static_cast<size_t>(world.size())) {}

absl::StatusOr<TrainResult> ReplannedRun::Train(const std::atomic<bool>* stop,
                                                CompiledJob* compiled) {
  if (output_ != nullptr) {
    watch_.emplace(question_, compiled->job.data, RankNumbers::kFixed,
                   [this](const Replan& wanted) {
                     wanted_ = wanted.speeds.ToText();
                     asked_.store(true);
                     return true;
                   });
  }
  while (true) {
    asked_.store(false);
    ++plans_;
    TrainEvents events;
    if (output_ != nullptr) events = Events(*compiled);
    Regrouping regrouping;
    regrouping.held = &held_;
    regrouping.all = &world_;
    regrouping.world = [this]() -> absl::StatusOr<Communicator*> { return &world_; };
    regrouping.regroup = &asked_;
    regrouping.vouched_step = vouched_step_;
    regrouping.resumed = &resumed_;
    absl::StatusOr<TrainResult> result = TrainMember(
        compiled->plan, *compiled->job.data, compiled->job.options, events, stop, regrouping);
    if (!result.ok()) return result.status();
    KeepTrace(*compiled->plan, std::move(result->trace));
    if (!result->summary.regroups) return result;
    if (absl::Status status = GoOver(compiled); !status.ok()) {
      world_.Abort(status);
      return status;
    }
  }
}

TrainEvents ReplannedRun::Events(const CompiledJob& compiled) {
  TrainEvents events = output_->Events(compiled);
  watch_->Begin(compiled.plan, world_.size(), speeds_, output_, &events);
  events.on_vouched = [this](int64_t step) { vouched_step_ = step; };
  if (plans_ == 1) return events;
  events.on_begin = [this, &compiled, begin = events.on_begin](int64_t step) {
    begin(step);
    // Where a rank has refused the plan, all go on as before.
    if (!watch_->made().has_value()) return;
    output_->Continued({.step = step,
                        .ranks = world_.size(),
                        .stages = compiled.plan->ranks(),
                        .replicas = compiled.plan->replicas(),
                        .partition = FormatPartition(compiled.plan->request.partition),
                        .source = "memory",
                        .replanned = watch_->made()->why,
                        .bound_seconds = watch_->made()->bound_seconds});
  };
  return events;
}

void ReplannedRun::KeepTrace(const RunPlan& plan, std::vector<TraceEvent> events) {
  if (output_ == nullptr || question_.trace.empty()) return;
  TraceGroup group = TraceGroupOf(plan);
  group.number = plans_;
  const auto no_room = [this](const TraceEvent& event) {
    return ++traced_[static_cast<size_t>(event.rank)] > kMostTraceEvents;
  };
  events.erase(std::remove_if(events.begin(), events.end(), no_room), events.end());
  if (plans_ > 1 && !events.empty()) {
    const auto first = std::min_element(
        events.begin(), events.end(),
        [](const TraceEvent& a, const TraceEvent& b) { return a.start < b.start; });
    group.marks.push_back(
        {.time = first->start, .text = absl::StrCat("plan ", plans_, ", from step ", first->step)});
  }
  group.events = std::move(events);
  trace_.push_back(std::move(group));
}

// To the plan that rank 0 has asked for, if all ranks can.
absl::Status ReplannedRun::GoOver(CompiledJob* compiled) {
  const absl::Duration timeout = compiled->job.options.watching.timeout;
  std::string text = wanted_;
  absl::Status status = ShareText(world_, timeout, &text);
  if (!status.ok()) return status;
  const absl::StatusOr<MeasuredSpeeds> speeds =
      ParseMeasuredSpeeds(text, static_cast<int>(compiled->plan->layers.size()));
  if (!speeds.ok()) return speeds.status();
  const Instant start = Instant::Now();
  absl::StatusOr<CompiledJob> next =
      OrExhausted("preparing to divide the work anew", [&] { return Prepare(*speeds, *compiled); });
  const Instant late = Instant::Now() + timeout + kSlowest * (Instant::Now() - start);
  const absl::StatusOr<int64_t> bytes =
      HostBytes(next.ok() ? next->plan.get() : nullptr, *compiled, late);
  if (!bytes.ok()) return bytes.status();
  if (next.ok()) {
    if (status = CheckHostMemory(*bytes); !status.ok()) next = status;
  }
  const double mine[] = {next.ok() ? 1.0 : 0.0, static_cast<double>(vouched_step_)};
  std::vector<double> all(2 * static_cast<size_t>(world_.size()));
  status = world_.AllGather(mine, absl::MakeSpan(all), late);
  if (!status.ok()) return status;
  vouched_step_ = static_cast<int64_t>(all[1]);
  for (size_t rank = 0; rank < all.size(); rank += 2) {
    if (all[rank] != 0) continue;
    if (!next.ok()) {
      PrintNotice(absl::StrCat("rank ", world_.rank(),
                               ": the work is not divided anew: ", DescribeError(next.status())));
    }
    if (watch_.has_value()) watch_->Refused();
    return absl::OkStatus();
  }
  next->devices = std::move(compiled->devices);
  *compiled = *std::move(next);
  speeds_ = *speeds;
  return open_devices_(compiled);
}

absl::StatusOr<CompiledJob> ReplannedRun::Prepare(const MeasuredSpeeds& speeds,
                                                  const CompiledJob& last) {
  absl::StatusOr<CompiledJob> next = Compile(question_, speeds, world_.size(), last.job.data);
  if (!next.ok()) return next;
  if (next->plan->world_size() != world_.size()) {
    const int planned = next->plan->world_size();
    return absl::FailedPreconditionError(
        absl::StrCat("the plan has ", Counted(planned, "rank"), ", and the run ", world_.size()));
  }
  if (HitFailpoint("memory", "new-plan").error != 0)
    return absl::ResourceExhaustedError("the failpoint memory.new-plan fails");
  set_up_(&next->job.options);
  if (!question_.kernels.cuda) return next;
  absl::Status status =
      CheckDeviceMemory(*next->plan, {world_.rank()}, *last.devices->ranks().front().device,
                        /*freed=*/held_.state->arena().bytes());
  if (!status.ok()) return status;
  return next;
}

// How much memory the ranks of this rank's host need beside what they have, until what they hold
// has moved. `next`: the plan that this rank goes over to; null: it cannot.
absl::StatusOr<int64_t> ReplannedRun::HostBytes(const RunPlan* next, const CompiledJob& last,
                                                Instant deadline) {
  int64_t mine = 0;
  if (next != nullptr && !question_.kernels.cuda) {
    mine = next->arenas[static_cast<size_t>(world_.rank())].memory.total;
  } else if (next != nullptr) {
    // What it holds waits in the host's memory where the device has no room for both.
    Device& device = *last.devices->ranks().front().device;
    const bool fits = CheckDeviceMemory(*next, {world_.rank()}, device).ok();
    mine = fits ? 0 : held_.state->step_region();
  }
  return SumOverMachine(world_, mine, deadline);
}

}  // namespace sluice
