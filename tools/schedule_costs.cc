#include "tools/schedule_costs.h"

#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "schedules/optimise/choose.h"
#include "tools/files.h"

namespace sluice {
namespace {

using Values = std::vector<double>;

absl::StatusOr<ScheduleCosts> ReadUniform(const std::string& text, const Placement& placement) {
  const int stages = placement.stages();
  std::map<std::string, double> given;
  for (absl::string_view item : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(item, absl::MaxSplits('=', 1));
    const auto& [name, number] = parts;
    if (name != "F" && name != "I" && name != "W" && name != "B" && name != "send" &&
        name != "overlap") {
      return absl::InvalidArgumentError(absl::StrCat(
          "--cost: '", name, "' is not a cost; there are F, I, W, B, send and overlap"));
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
