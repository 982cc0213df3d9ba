#include "partitioner/planning/answer/variants.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/spec/units.h"
#include "partitioner/candidate.h"
#include "partitioner/memory/in_flight.h"
#include "partitioner/planning/answer/search.h"
#include "partitioner/planning/plan/plan_builder.h"

namespace sluice {
namespace {

constexpr int64_t kMoreMemory = int64_t{10} << 30;
constexpr double kMoreBandwidth = 2;
constexpr size_t kMostPoints = 20;
constexpr double kSmaller = 0.98;
// Variants are for orientation: near the best will do.
constexpr double kGoodEnough = 0.002;

PlanVariant Describe(std::string what, const absl::StatusOr<JointPlan>& found) {
  PlanVariant variant;
  variant.what = std::move(what);
  if (!found.ok()) {
    variant.why = std::string(found.status().message());
    return variant;
  }
  const Plan& plan = found->plan;
  variant.description = absl::StrCat(plan.description, "; ", found->setting.Describe());
  variant.bytes = plan.largest_peak_bytes();
  variant.seconds = plan.objective_seconds();
  variant.step_seconds = plan.step_seconds;
  return variant;
}

void AddMemory(Machines* machines) {
  if (machines->memory_limit) *machines->memory_limit += kMoreMemory;
  for (int64_t& bytes : machines->rank_memory) {
    bytes = std::min(bytes, std::numeric_limits<int64_t>::max() - kMoreMemory) + kMoreMemory;
  }
}

// Gives no rank more than `limit` bytes, and none more than it has.
void CapMemory(int64_t limit, Machines* machines) {
  if (machines->rank_memory.empty()) machines->SetMemory(limit);
  for (int64_t& bytes : machines->rank_memory) bytes = std::min(bytes, limit);
}

void DoubleBandwidth(Machines* machines) {
  machines->link.bandwidth *= kMoreBandwidth;
  for (Link& link : machines->rank_links) link.bandwidth *= kMoreBandwidth;
}

// `known` on the machines that `request` now has for its setting, as fast or slow as they make it.
// The bytes and the audits stay as they were: neither more memory nor faster links add to them.
absl::StatusOr<JointPlan> PriceAgain(const JointRequest& request, JointPlan known) {
  absl::StatusOr<Machines> machines = request.price(known.setting);
  if (!machines.ok()) return machines.status();
  known.machines = *std::move(machines);
  Plan& plan = known.plan;
  const Candidate candidate{plan.schedule, plan.chunks, plan.timetable,
                            std::make_shared<const InFlight>(plan.timetable)};
  absl::StatusOr<Plan> again = BuildPlan(RequestOf(request.common, known.setting, known.machines),
                                         candidate, AssignmentOf(plan));
  if (!again.ok()) return again.status();
  again->peak_bytes = std::move(plan.peak_bytes);
  again->audit_bytes = std::move(plan.audit_bytes);
  again->audit_seconds = plan.audit_seconds;
  again->step_seconds += plan.audit_seconds;
  plan = *std::move(again);
  return known;
}

// Answers one question again for other circumstances, which `what` names.
class Replanner {
 public:
  using Change = std::function<void(Machines*)>;

  Replanner(const PlanQuestion& question, const PlanSource& source,
            const ProgressCallback& progress)
      : question_(question), source_(source), progress_(progress) {}

  // Plans with what `change` makes of the memory and links of each setting.
  absl::StatusOr<JointPlan> With(const std::string& what, const Change& change) const {
    const absl::StatusOr<JointRequest> request = RequestWith(change);
    if (!request.ok()) return request.status();
    return Find(what, *request);
  }

  // The same for a `change` that gives more memory or faster links, where `known` is a plan that is
  // possible without it: it is the answer where a search that ends early finds nothing as fast.
  absl::StatusOr<JointPlan> WithMore(const std::string& what, const Change& change,
                                     const JointPlan& known) const {
    const absl::StatusOr<JointRequest> request = RequestWith(change);
    if (!request.ok()) return request.status();
    absl::StatusOr<JointPlan> found = Find(what, *request);
    absl::StatusOr<JointPlan> again = PriceAgain(*request, known);
    if (!again.ok()) return found;
    const bool faster =
        found.ok() && found->plan.objective_seconds() <= again->plan.objective_seconds();
    return faster ? found : again;
  }

  absl::StatusOr<JointPlan> Unchanged(const std::string& what) const {
    return With(what, [](Machines*) {});
  }

 private:
  // Refers to `change`.
  absl::StatusOr<JointRequest> RequestWith(const Change& change) const {
    absl::StatusOr<JointRequest> request = MakeJointRequest(question_, source_);
    if (!request.ok()) return request.status();
    request->common.gap = std::max(request->common.gap, kGoodEnough);
    request->price = [price = request->price, &change](const PlanSetting& setting) {
      absl::StatusOr<Machines> machines = price(setting);
      if (machines.ok()) change(&*machines);
      return machines;
    };
    return request;
  }

  absl::StatusOr<JointPlan> Find(const std::string& what, const JointRequest& request) const {
    ProgressCallback named;
    if (progress_) {
      named = [&](PlanProgress progress) {
        progress.what = what;
        progress_(progress);
      };
    }
    return FindPlan(question_, source_, request, named);
  }

  const PlanQuestion& question_;
  const PlanSource& source_;
  const ProgressCallback& progress_;
};

// The plan for `devices` devices.
PlanVariant OtherDevices(const PlanQuestion& question, const PlanSource& source, int devices,
                         const std::string& what, const ProgressCallback& progress) {
  PlanQuestion other = question;
  other.devices = devices;
  // What was measured stays as it is.
  if (source.kinds.empty()) {
    return Describe(what, Replanner(other, source, progress).Unchanged(what));
  }
  const absl::StatusOr<PlanSource> again = MakeSource(other);
  if (!again.ok()) return Describe(what, again.status());
  return Describe(what, Replanner(other, *again, progress).Unchanged(what));
}

// Twice and half the devices where the plan chooses how they share the work, else one rank more and
// one fewer of what the plan has: devices that share a stage stay together.
void AddOtherDevices(const PlanQuestion& question, const PlanSource& source, const JointPlan& best,
                     const ProgressCallback& progress, std::vector<PlanVariant>* variants) {
  const bool open = !question.data_parallel || !question.tensor_parallel;
  const int rank = best.setting.data * best.setting.tensor;
  const auto some = [&](const char* than) {
    return absl::StrCat(rank, " ", than, " ", rank == 1 ? "device" : "devices");
  };
  const auto add = [&](int devices, const std::string& what) {
    variants->push_back(OtherDevices(question, source, devices, what, progress));
  };
  add(question.devices + (open ? question.devices : rank),
      open ? "twice the devices" : some("more"));
  if (open && question.devices % 2 == 0) {
    add(question.devices / 2, "half the devices");
  } else if (question.devices > rank) {
    add(question.devices - rank, some("fewer"));
  }
}

}  // namespace

std::vector<PlanVariant> WhatIf(const PlanQuestion& question, const PlanSource& source,
                                const JointPlan& best, const ProgressCallback& progress) {
  std::vector<PlanVariant> variants;
  if (!question.cluster) AddOtherDevices(question, source, best, progress, &variants);
  const Replanner replan(question, source, progress);
  const auto add = [&](const std::string& what, const Replanner::Change& change,
                       const JointPlan& known) {
    absl::StatusOr<JointPlan> found = replan.WithMore(what, change, known);
    variants.push_back(Describe(what, found));
    return found.ok() ? *std::move(found) : known;
  };
  if (best.machines.limits_memory()) {
    const JointPlan more = add("10 GiB more memory per device", AddMemory, best);
    const auto unlimited = [](Machines* machines) { machines->SetMemory(std::nullopt); };
    add("unlimited memory", unlimited, more);
  }
  add("twice the bandwidth", DoubleBandwidth, best);
  return variants;
}

std::vector<PlanVariant> ParetoFront(const PlanQuestion& question, const PlanSource& source,
                                     const ProgressCallback& progress) {
  const Replanner replan(question, source, progress);
  std::vector<PlanVariant> front;
  std::optional<int64_t> limit = question.memory;
  while (front.size() < kMostPoints && !(question.stop && question.stop())) {
    const std::string what =
        limit ? absl::StrCat("at most ", FormatBytes(static_cast<double>(*limit))) : "the fastest";
    const absl::StatusOr<JointPlan> found = replan.With(what, [&](Machines* machines) {
      if (limit) CapMemory(*limit, machines);
    });
    if (!found.ok()) break;
    PlanVariant point = Describe("", found);
    limit = static_cast<int64_t>(static_cast<double>(point.bytes) * kSmaller);
    // A smaller one that is no slower takes the place of the one before.
    if (!front.empty() && point.seconds <= front.back().seconds * (1 + kGoodEnough)) {
      front.pop_back();
    }
    front.push_back(std::move(point));
  }
  return front;
}

}  // namespace sluice
