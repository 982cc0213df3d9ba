#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/spec/units.h"
#include "tools/plan/plan_search.h"

namespace sluice {
namespace {

constexpr int64_t kMoreMemory = 10'000'000'000;
constexpr double kMoreBandwidth = 2;
constexpr size_t kMostPoints = 20;
constexpr double kSmaller = 0.98;
// Variants are for orientation: near the best will do.
constexpr double kGoodEnough = 0.002;

// Plans with what `change` makes of each setting's memory and links.
template <typename Change>
absl::StatusOr<JointPlan> Replan(const PlanFlags& flags, const PlanChoices& choices,
                                 const PlanSource& source, const Change& change) {
  absl::StatusOr<JointRequest> request = MakeJointRequest(flags, choices, source);
  if (!request.ok()) return request.status();
  request->common.gap = std::max(request->common.gap, kGoodEnough);
  request->price = [&](const PlanSetting& setting) {
    absl::StatusOr<Machines> machines = source.price(setting);
    if (machines.ok()) change(&*machines);
    return machines;
  };
  return FindPlan(choices, source, *request);
}

PlanVariant Variant(std::string what, const absl::StatusOr<JointPlan>& found) {
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

// One more rank of what the plan has: devices that share a stage stay together.
PlanVariant MoreDevices(const PlanFlags& flags, const PlanChoices& choices,
                        const PlanSource& source, const JointPlan& best) {
  const bool open = !choices.data_parallel || !choices.tensor_parallel;
  const int more = open ? flags.devices : best.setting.data * best.setting.tensor;
  PlanFlags larger = flags;
  larger.devices += more;
  const std::string what =
      open ? "twice the devices" : absl::StrCat(more, " more ", more == 1 ? "device" : "devices");
  const auto same = [](Machines*) {};
  // What was measured stays as it is.
  if (source.kinds.empty()) return Variant(what, Replan(larger, choices, source, same));
  const absl::StatusOr<PlanSource> again = LoadPlanSource(larger, choices);
  if (!again.ok()) return Variant(what, again.status());
  return Variant(what, Replan(larger, choices, *again, same));
}

}  // namespace

std::vector<PlanVariant> WhatIf(const PlanFlags& flags, const PlanChoices& choices,
                                const PlanSource& source, const JointPlan& best) {
  std::vector<PlanVariant> variants;
  if (flags.cluster.empty()) variants.push_back(MoreDevices(flags, choices, source, best));
  const auto with = [&](const char* what, const auto& change) {
    variants.push_back(Variant(what, Replan(flags, choices, source, change)));
  };
  if (best.machines.limits_memory()) {
    with("10 GB more memory a device", [](Machines* machines) {
      if (machines->memory_limit) *machines->memory_limit += kMoreMemory;
      for (int64_t& bytes : machines->rank_memory) {
        bytes = std::min(bytes, std::numeric_limits<int64_t>::max() - kMoreMemory) + kMoreMemory;
      }
    });
    with("memory without end", [](Machines* machines) { machines->SetMemory(std::nullopt); });
  }
  with("twice the bandwidth", [](Machines* machines) {
    machines->link.bandwidth *= kMoreBandwidth;
    for (Link& link : machines->rank_links) link.bandwidth *= kMoreBandwidth;
  });
  return variants;
}

std::vector<PlanVariant> ParetoFront(const PlanFlags& flags, const PlanChoices& choices,
                                     const PlanSource& source) {
  std::vector<PlanVariant> front;
  std::optional<int64_t> limit = choices.memory;
  while (front.size() < kMostPoints) {
    const absl::StatusOr<JointPlan> found = Replan(flags, choices, source, [&](Machines* machines) {
      if (limit || !front.empty()) machines->SetMemory(limit);
    });
    if (!found.ok()) break;
    PlanVariant point = Variant("", found);
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
