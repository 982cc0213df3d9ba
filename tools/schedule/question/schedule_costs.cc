#include "tools/schedule/question/schedule_costs.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "models/files/positioned_file.h"
#include "schedules/counted.h"
#include "tools/files.h"
#include "tools/flag_values.h"

namespace sluice {
namespace {

using Values = std::vector<double>;

// The names that --cost accepts.
constexpr absl::string_view kNames[] = {"F", "I", "W", "B", "RECOMPUTE", "send", "overlap"};

// Reads one "F=1" of --cost.
absl::StatusOr<std::pair<std::string, double>> ReadItem(absl::string_view item) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(item, absl::MaxSplits('=', 1));
  const auto& [name, number] = parts;
  if (std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames)) {
    return absl::InvalidArgumentError(absl::StrCat("--cost: '", name, "' is not a cost; there are ",
                                                   absl::StrJoin(kNames, ", ")));
  }
  double value = 0;
  if (!absl::SimpleAtod(number, &value) || !std::isfinite(value) || value < 0) {
    return absl::InvalidArgumentError(absl::StrCat("--cost: ", name, " is '", number,
                                                   "'; it must be a finite number, at least 0"));
  }
  return std::pair(name, value);
}

}  // namespace

absl::StatusOr<GivenCosts> GivenCosts::FromText(const std::string& text) {
  GivenCosts costs;
  if (text.empty()) return costs;
  const absl::StatusOr<std::vector<absl::string_view>> items =
      SplitList("--cost", text, "F=1,B=2,send=0.1");
  if (!items.ok()) return items.status();
  for (const absl::string_view item : *items) {
    absl::StatusOr<std::pair<std::string, double>> read = ReadItem(item);
    if (!read.ok()) return read.status();
    if (!costs.uniform_.insert(*read).second) {
      return absl::InvalidArgumentError(absl::StrCat("--cost: ", read->first, " is given twice"));
    }
  }
  return costs;
}

absl::StatusOr<GivenCosts> GivenCosts::FromFile(const std::string& path) {
  absl::StatusOr<std::string> text = ReadWholeFile(path, kMostJsonBytes);
  return text.ok() ? FromJson(*std::move(text), path) : text.status();
}

absl::StatusOr<GivenCosts> GivenCosts::FromPlan(std::string json, const std::string& plan) {
  absl::StatusOr<GivenCosts> costs =
      FromJson(std::move(json), absl::StrCat(plan, ", field 'costs'"));
  if (costs.ok()) costs->seconds_ = true;
  return costs;
}

absl::StatusOr<GivenCosts> GivenCosts::FromJson(std::string text, const std::string& name) {
  absl::StatusOr<CostsFile> file = CostsFile::Parse(std::move(text), name);
  if (!file.ok()) return file.status();
  GivenCosts costs;
  costs.file_ = *std::move(file);
  return costs;
}

GivenCosts GivenCosts::FromStages(ScheduleCosts costs, std::string source) {
  GivenCosts given;
  given.stages_ = std::move(costs);
  given.source_ = std::move(source);
  return given;
}

absl::StatusOr<ScheduleCosts> GivenCosts::On(const Placement& placement) const {
  if (stages_.has_value()) return OfTimetable(placement.stages());
  absl::StatusOr<ScheduleCosts> costs =
      file_.has_value() ? file_->On(placement) : UniformOn(placement.stages());
  if (costs.ok()) costs->seconds = seconds_;
  return costs;
}

absl::StatusOr<ScheduleCosts> GivenCosts::OfTimetable(int stages) const {
  const size_t count = stages_->stages.forward.size();
  if (count == static_cast<size_t>(stages)) return *stages_;
  return absl::InvalidArgumentError(absl::StrCat(
      source_, " says the costs of ", Counted(count, "stage"), ", not ", stages,
      "; give --cost, which holds for any number of stages, or a schedule of ", count));
}

absl::StatusOr<ScheduleCosts> GivenCosts::UniformOn(int stages) const {
  const auto all_stages = [&](const char* name) -> std::optional<Values> {
    const auto it = uniform_.find(name);
    return it == uniform_.end() ? std::nullopt : std::optional<Values>(Values(stages, it->second));
  };
  const auto one = [&](const char* name, double otherwise) {
    const auto it = uniform_.find(name);
    return it == uniform_.end() ? otherwise : it->second;
  };
  ScheduleCosts costs;
  costs.stages = StageCosts::Uniform(stages, one("F", 1), 1, 1, one("send", 0));
  costs.stages.overlap = one("overlap", -1);
  costs.stages.recompute = all_stages("RECOMPUTE").value_or(Values());
  BackwardCosts{all_stages("I"), all_stages("W"), all_stages("B")}.CompleteInto(stages,
                                                                                costs.stages);
  if (absl::Status ok = CheckCosts(costs.stages, stages); !ok.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--cost: ", std::string(ok.message())));
  }
  return costs;
}

}  // namespace sluice
