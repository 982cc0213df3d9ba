#include "partitioner/planning/answer/variants.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "partitioner/planning/answer/search.h"

namespace sluice {
namespace {

constexpr int64_t kMoreMemory = 10'000'000'000;
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
  return variant;
}

void AddMemory(Machines* machines) {
  if (machines->memory_limit) *machines->memory_limit += kMoreMemory;
  for (int64_t& bytes : machines->rank_memory) {
    bytes = std::min(bytes, std::numeric_limits<int64_t>::max() - kMoreMemory) + kMoreMemory;
  }
}

void DoubleBandwidth(Machines* machines) {
  machines->link.bandwidth *= kMoreBandwidth;
  for (Link& link : machines->rank_links) link.bandwidth *= kMoreBandwidth;
}

// Answers one question again for other circumstances.
class Replanner {
 public:
  using Change = std::function<void(Machines*)>;

  Replanner(const PlanQuestion& question, const PlanSource& source,
            const ProgressCallback& progress)
      : question_(question), source_(source), progress_(progress) {}

  // Plans with what `change` makes of the memory and links of each setting.
  absl::StatusOr<JointPlan> With(const Change& change) const {
    absl::StatusOr<JointRequest> request = MakeJointRequest(question_, source_);
    if (!request.ok()) return request.status();
    request->common.gap = std::max(request->common.gap, kGoodEnough);
    request->price = [price = request->price, &change](const PlanSetting& setting) {
      absl::StatusOr<Machines> machines = price(setting);
      if (machines.ok()) change(&*machines);
      return machines;
    };
    return FindPlan(question_, source_, *request, progress_);
  }

  absl::StatusOr<JointPlan> Unchanged() const {
    return With([](Machines*) {});
  }

 private:
  const PlanQuestion& question_;
  const PlanSource& source_;
  const ProgressCallback& progress_;
};

// One more rank of what the plan has: devices that share a stage stay together.
PlanVariant MoreDevices(const PlanQuestion& question, const PlanSource& source,
                        const JointPlan& best, const ProgressCallback& progress) {
  const bool open = !question.data_parallel || !question.tensor_parallel;
  const int more = open ? question.devices : best.setting.data * best.setting.tensor;
  PlanQuestion larger = question;
  larger.devices += more;
  const std::string what =
      open ? "twice the devices" : absl::StrCat(more, " more ", more == 1 ? "device" : "devices");
  // What was measured stays as it is.
  if (source.kinds.empty()) return Describe(what, Replanner(larger, source, progress).Unchanged());
  const absl::StatusOr<PlanSource> again = MakeSource(larger);
  if (!again.ok()) return Describe(what, again.status());
  return Describe(what, Replanner(larger, *again, progress).Unchanged());
}

}  // namespace

std::vector<PlanVariant> WhatIf(const PlanQuestion& question, const PlanSource& source,
                                const JointPlan& best, const ProgressCallback& progress) {
  std::vector<PlanVariant> variants;
  if (!question.cluster) variants.push_back(MoreDevices(question, source, best, progress));
  const Replanner replan(question, source, progress);
  if (best.machines.limits_memory()) {
    variants.push_back(Describe("10 GB more memory per device", replan.With(AddMemory)));
    const auto without = [](Machines* machines) { machines->SetMemory(std::nullopt); };
    variants.push_back(Describe("unlimited memory", replan.With(without)));
  }
  variants.push_back(Describe("twice the bandwidth", replan.With(DoubleBandwidth)));
  return variants;
}

std::vector<PlanVariant> ParetoFront(const PlanQuestion& question, const PlanSource& source,
                                     const ProgressCallback& progress) {
  const Replanner replan(question, source, progress);
  std::vector<PlanVariant> front;
  std::optional<int64_t> limit = question.memory;
  while (front.size() < kMostPoints && !(question.stop && question.stop())) {
    const absl::StatusOr<JointPlan> found = replan.With([&](Machines* machines) {
      if (limit || !front.empty()) machines->SetMemory(limit);
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
