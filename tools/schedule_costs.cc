#include "tools/schedule_costs.h"

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/files.h"

namespace sluice {
namespace {

using Values = std::vector<double>;
using nlohmann::json;

// I, W and B from those that are given; nothing means 1.
struct Backward {
  std::optional<Values> input_grad, weight_grad, whole;

  static Values Combine(const Values& a, const Values& b, double (*rule)(double, double)) {
    Values result;
    for (size_t s = 0; s < a.size() && s < b.size(); ++s) result.push_back(rule(a[s], b[s]));
    return result;
  }

  void Complete(int stages) {
    const auto minus = [](double a, double b) { return a - b; };
    const auto plus = [](double a, double b) { return a + b; };
    if (whole.has_value() && !input_grad.has_value() && !weight_grad.has_value()) {
      input_grad = *whole;
      for (double& value : *input_grad) value /= 2;
      weight_grad = input_grad;
    } else if (whole.has_value() && !input_grad.has_value()) {
      input_grad = Combine(*whole, *weight_grad, minus);
    } else if (whole.has_value() && !weight_grad.has_value()) {
      weight_grad = Combine(*whole, *input_grad, minus);
    }
    if (!input_grad.has_value()) input_grad = Values(stages, 1);
    if (!weight_grad.has_value()) weight_grad = Values(stages, 1);
    if (!whole.has_value()) whole = Combine(*input_grad, *weight_grad, plus);
  }

  void MoveTo(StageCosts& costs) {
    costs.input_grad = *std::move(input_grad);
    costs.weight_grad = *std::move(weight_grad);
    costs.backward = *std::move(whole);
  }
};

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
  Backward backward{all_stages("I"), all_stages("W"), all_stages("B")};
  backward.Complete(stages);
  backward.MoveTo(costs.stages);
  if (absl::Status ok = CheckCosts(costs.stages, stages); !ok.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--cost: ", std::string(ok.message())));
  }
  return costs;
}

// One field of the file: an array of numbers with a value per stage (or edge, or rank), or one
// number for all.
absl::StatusOr<Values> ReadValues(const json& field, const std::string& name, int count,
                                  bool one_for_all) {
  if (field.is_number() && one_for_all) return Values(count, field.get<double>());
  if (!field.is_array()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, " must be ", one_for_all ? "a number or " : "", "a list of ", count, " numbers"));
  }
  Values values;
  for (const json& item : field) {
    if (!item.is_number()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, "[", values.size(), "] is ", item.dump(), ", not a number"));
    }
    values.push_back(item.get<double>());
  }
  if (static_cast<int>(values.size()) != count) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " has ", values.size(), " values, expected ", count));
  }
  return values;
}

absl::StatusOr<ScheduleCosts> ReadDocument(const json& document, const Placement& placement) {
  const int stages = placement.stages();
  if (!document.is_object())
    return absl::InvalidArgumentError("expected an object with F, I, W, ...");
  ScheduleCosts costs;
  costs.stages = StageCosts::Uniform(stages, 1, 1, 1);
  Backward backward;
  for (const auto& [name, field] : document.items()) {
    if (name == "overlap") {
      if (!field.is_number() || !(field.get<double>() >= 0)) {
        return absl::InvalidArgumentError(
            absl::StrCat("overlap is ", field.dump(), "; it must be a number, at least 0"));
      }
      costs.stages.overlap = field.get<double>();
      continue;
    }
    const bool per_edge = name == "send";
    const bool per_rank = name == "device_memory";
    absl::StatusOr<Values> values = ReadValues(field, name,
                                               per_edge   ? stages - 1
                                               : per_rank ? placement.ranks()
                                                          : stages,
                                               /*one_for_all=*/per_edge);
    if (!values.ok()) return values.status();
    if (name == "F") {
      costs.stages.forward = *std::move(values);
    } else if (name == "I") {
      backward.input_grad = *std::move(values);
    } else if (name == "W") {
      backward.weight_grad = *std::move(values);
    } else if (name == "B") {
      backward.whole = *std::move(values);
    } else if (per_edge) {
      costs.stages.send = *std::move(values);
    } else if (name == "activation_bytes") {
      costs.stages.activation_bytes = *std::move(values);
    } else if (name == "weight_grad_bytes") {
      costs.stages.weight_grad_bytes = *std::move(values);
    } else if (per_rank) {
      costs.device_memory = *std::move(values);
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", name, "' is not a field; there are F, I, W, B, send, overlap, activation_bytes, ",
          "weight_grad_bytes and device_memory"));
    }
  }
  backward.Complete(stages);
  backward.MoveTo(costs.stages);
  if (absl::Status ok = CheckCosts(costs.stages, stages); !ok.ok()) return ok;
  return costs;
}

absl::StatusOr<ScheduleCosts> ReadCostsFile(const std::string& path, const Placement& placement) {
  absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  try {
    absl::StatusOr<ScheduleCosts> costs = ReadDocument(json::parse(*text), placement);
    if (costs.ok()) return costs;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", std::string(costs.status().message())));
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": not valid JSON: ", error.what()));
  }
}

}  // namespace

absl::StatusOr<ScheduleCosts> ReadScheduleCosts(const CostFlags& flags,
                                                const Placement& placement) {
  return flags.file.empty() ? ReadUniform(flags.uniform, placement)
                            : ReadCostsFile(flags.file, placement);
}

}  // namespace sluice
