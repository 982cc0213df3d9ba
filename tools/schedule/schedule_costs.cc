#include "tools/schedule/schedule_costs.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "schedules/optimise/choose.h"
#include "tools/files.h"

namespace sluice {
namespace {

using Values = std::vector<double>;

// What --cost may say.
constexpr absl::string_view kNames[] = {"F", "I", "W", "B", "RECOMPUTE", "send", "overlap"};

absl::StatusOr<ScheduleCosts> ReadUniform(const std::string& text, const Placement& placement) {
  const int stages = placement.stages();
  std::map<std::string, double> given;
  for (absl::string_view item : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(item, absl::MaxSplits('=', 1));
    const auto& [name, number] = parts;
    if (std::find(std::begin(kNames), std::end(kNames), name) == std::end(kNames)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--cost: '", name, "' is not a cost; there are ", absl::StrJoin(kNames, ", ")));
    }
    double value = 0;
    if (!absl::SimpleAtod(number, &value) || !std::isfinite(value) || value < 0) {
      return absl::InvalidArgumentError(absl::StrCat("--cost: ", name, " is '", number,
                                                     "'; it must be a finite number, at least 0"));
    }
    if (!given.emplace(name, value).second) {
      return absl::InvalidArgumentError(absl::StrCat("--cost: ", name, " is given twice"));
    }
  }
  const auto all_stages = [&](const char* name) -> std::optional<Values> {
    const auto it = given.find(name);
    return it == given.end() ? std::nullopt : std::optional<Values>(Values(stages, it->second));
  };
  const auto one = [&](const char* name, double otherwise) {
    const auto it = given.find(name);
    return it == given.end() ? otherwise : it->second;
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

}  // namespace

absl::StatusOr<ScheduleCosts> ReadScheduleCosts(const CostFlags& flags,
                                                const Placement& placement) {
  if (flags.parts > 1) {
    CostFlags whole = flags;
    whole.parts = 1;
    absl::StatusOr<ScheduleCosts> costs =
        ReadScheduleCosts(whole, Placement::Looped(placement.ranks()));
    if (costs.ok()) costs->stages = SplitStages(costs->stages, flags.parts);
    return costs;
  }
  if (flags.file.empty()) return ReadUniform(flags.uniform, placement);
  const absl::StatusOr<std::string> text = ReadFile(flags.file);
  if (!text.ok()) return text.status();
  return ParseCostsJson(*text, flags.file, placement);
}

}  // namespace sluice
