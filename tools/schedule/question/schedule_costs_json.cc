#include "tools/schedule/question/schedule_costs_json.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "models/spec/json.h"
#include "models/spec/show_text.h"
#include "tools/schedule/question/json_position.h"

namespace sluice {
namespace {

using Values = std::vector<double>;
using nlohmann::json;

enum class Per { kStage, kEdge, kRank, kTable };

struct Field {
  const char* name;
  Per per;
  bool above_zero;  // 0 is not allowed
};

constexpr Field kFields[] = {
    {"F", Per::kStage, false},
    {"I", Per::kStage, false},
    {"W", Per::kStage, false},
    {"B", Per::kStage, false},
    {"RECOMPUTE", Per::kStage, false},
    {"overlap", Per::kTable, false},
    {"send", Per::kEdge, false},
    {"send_bytes", Per::kEdge, false},
    {"bandwidth", Per::kEdge, true},
    {"rank_speed", Per::kRank, true},
    {"activation_bytes", Per::kStage, false},
    {"device_memory", Per::kRank, false},
    {"weight_grad_bytes", Per::kStage, false},
    {"checkpoint_bytes", Per::kStage, false},
};

// What a list has one value for.
const char* NameOf(Per per) {
  return per == Per::kStage  ? "stage"
         : per == Per::kEdge ? "edge between stages"
         : per == Per::kRank ? "rank"
                             : "table";
}

Values Combine(const Values& a, const Values& b, double (*rule)(double, double)) {
  Values result;
  for (size_t s = 0; s < a.size() && s < b.size(); ++s) result.push_back(rule(a[s], b[s]));
  return result;
}

// "a string", "an object".
std::string TypeOf(const json& value) {
  const absl::string_view type = value.type_name();
  return absl::StrCat(type == "array" || type == "object" ? "an " : "a ", type);
}

absl::Status ErrorAt(absl::string_view text, absl::string_view name, size_t offset,
                     const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": ", LineAndColumn(text, offset), ": ", what));
}

// Reads the fields of a file for one placement.
class CostsReader {
 public:
  CostsReader(absl::string_view text, absl::string_view name, const json& document,
              const Placement& placement)
      : text_(text), name_(name), document_(document), placement_(placement) {}

  absl::StatusOr<ScheduleCosts> Read() {
    if (absl::Status ok = Collect(); !ok.ok()) return ok;
    return Assemble();
  }

 private:
  absl::Status Collect();
  absl::StatusOr<Values> ReadField(const Field& field, const json& value) const;
  absl::StatusOr<ScheduleCosts> Assemble();
  absl::Status AddTransfers(StageCosts& costs);

  absl::Status ErrorIn(absl::string_view field, int index, const std::string& what) const {
    return ErrorAt(text_, name_, FindJsonValue(text_, field, index), what);
  }
  int CountOf(Per per) const {
    return per == Per::kStage  ? placement_.stages()
           : per == Per::kEdge ? placement_.stages() - 1
           : per == Per::kRank ? placement_.ranks()
                               : 1;
  }
  std::optional<Values> Take(const char* field) {
    const auto it = given_.find(field);
    return it == given_.end() ? std::nullopt : std::optional<Values>(std::move(it->second));
  }

  const absl::string_view text_;
  const absl::string_view name_;
  const json& document_;
  const Placement& placement_;
  std::map<std::string, Values> given_;
};

absl::Status CostsReader::Collect() {
  for (const auto& [name, value] : document_.items()) {
    const Field* known = nullptr;
    for (const Field& field : kFields) {
      if (name == field.name) known = &field;
    }
    if (known == nullptr) {
      std::string names;
      for (const Field& field : kFields)
        absl::StrAppend(&names, names.empty() ? "" : ", ", field.name);
      return ErrorIn(name, -1,
                     absl::StrCat("'", ShowText(name), "' is not a field; there are ", names));
    }
    absl::StatusOr<Values> values = ReadField(*known, value);
    if (!values.ok()) return values.status();
    given_[name] = *std::move(values);
  }
  return absl::OkStatus();
}

// Reads an array of numbers with one value per stage, edge or rank; or one number for all edges.
absl::StatusOr<Values> CostsReader::ReadField(const Field& field, const json& value) const {
  const int count = CountOf(field.per);
  const bool one_for_all = field.per == Per::kEdge || field.per == Per::kTable;
  const bool one = value.is_number() && one_for_all;
  if (!one && (!value.is_array() || field.per == Per::kTable)) {
    const std::string list = absl::StrCat("a list of ", count, " numbers");
    return ErrorIn(field.name, -1,
                   absl::StrCat(field.name, " is ", TypeOf(value), "; expected ",
                                field.per == Per::kTable ? "a number"
                                : one_for_all            ? absl::StrCat("a number or ", list)
                                                         : list));
  }
  Values values;
  for (const json& item : one ? json::array({value}) : value) {
    const int index = one ? -1 : static_cast<int>(values.size());
    const std::string what =
        one ? std::string(field.name) : absl::StrCat(field.name, "[", index, "]");
    if (!item.is_number()) {
      return ErrorIn(field.name, index, absl::StrCat(what, " is ", TypeOf(item), ", not a number"));
    }
    const double number = item.get<double>();
    if (!std::isfinite(number) || number < 0 || (field.above_zero && number == 0)) {
      return ErrorIn(field.name, index,
                     absl::StrCat(what, " is ", number, "; it must be a finite number, ",
                                  field.above_zero ? "above 0" : "at least 0"));
    }
    values.push_back(number);
  }
  if (one) values.resize(static_cast<size_t>(count), values[0]);
  if (static_cast<int>(values.size()) == count) return values;
  return ErrorIn(field.name, -1,
                 absl::StrCat(field.name, " has ", values.size(), " values, expected ", count,
                              ", one for each ", NameOf(field.per)));
}

absl::StatusOr<ScheduleCosts> CostsReader::Assemble() {
  const int stages = placement_.stages();
  ScheduleCosts costs;
  costs.stages = StageCosts::Uniform(stages, 1, 1, 1);
  if (auto values = Take("F")) costs.stages.forward = *std::move(values);
  if (auto values = Take("RECOMPUTE")) costs.stages.recompute = *std::move(values);
  if (auto values = Take("send")) costs.stages.send = *std::move(values);
  if (auto values = Take("overlap")) costs.stages.overlap = values->at(0);
  if (auto values = Take("activation_bytes")) costs.stages.activation_bytes = *std::move(values);
  if (auto values = Take("weight_grad_bytes")) costs.stages.weight_grad_bytes = *std::move(values);
  if (auto values = Take("checkpoint_bytes")) costs.stages.checkpoint_bytes = *std::move(values);
  if (auto values = Take("device_memory")) costs.device_memory = *std::move(values);
  BackwardCosts{Take("I"), Take("W"), Take("B")}.CompleteInto(stages, costs.stages);
  if (absl::Status ok = AddTransfers(costs.stages); !ok.ok()) return ok;
  if (const auto speeds = Take("rank_speed")) {
    if (costs.stages.overlap >= 0) {
      return ErrorIn("rank_speed", -1,
                     "rank_speed and overlap cannot be given together: one duration of a pair "
                     "does not hold for ranks of several speeds; leave overlap out");
    }
    ApplyRankSpeeds(placement_, *speeds, &costs.stages);
  }
  // Sums, differences and quotients of finite values may still be out of range.
  if (absl::Status ok = CheckCosts(costs.stages, stages); !ok.ok()) {
    return ErrorIn("", -1, std::string(ok.message()));
  }
  return costs;
}

absl::Status CostsReader::AddTransfers(StageCosts& costs) {
  const std::optional<Values> bytes = Take("send_bytes");
  const std::optional<Values> bandwidth = Take("bandwidth");
  if (bytes.has_value() != bandwidth.has_value()) {
    const char* given = bytes.has_value() ? "send_bytes" : "bandwidth";
    return ErrorIn(
        given, -1,
        absl::StrCat(given, " is given without ", bytes.has_value() ? "bandwidth" : "send_bytes",
                     "; a transfer takes send_bytes / bandwidth"));
  }
  if (!bytes.has_value()) return absl::OkStatus();
  costs.link_busy = Combine(*bytes, *bandwidth, [](double a, double b) { return a / b; });
  for (size_t edge = 0; edge < costs.send.size(); ++edge) {
    costs.send[edge] += costs.link_busy[edge];
  }
  return absl::OkStatus();
}

}  // namespace

void BackwardCosts::CompleteInto(int stages, StageCosts& costs) {
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
  const Values ones(static_cast<size_t>(stages), 1);
  costs.input_grad = std::move(input_grad).value_or(ones);
  costs.weight_grad = std::move(weight_grad).value_or(ones);
  costs.backward =
      whole.has_value() ? *std::move(whole) : Combine(costs.input_grad, costs.weight_grad, plus);
}

absl::StatusOr<CostsFile> CostsFile::Parse(std::string text, std::string name) {
  absl::StatusOr<json> document = ParseJson(text);
  if (!document.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", std::string(document.status().message())));
  }
  if (!document->is_object()) {
    return ErrorAt(text, name, 0,
                   absl::StrCat("expected an object with F, I, W, ..., not ",
                                std::string(document->type_name())));
  }
  CostsFile file;
  file.text_ = std::move(text);
  file.name_ = std::move(name);
  file.document_ = std::make_shared<const json>(*std::move(document));
  return file;
}

absl::StatusOr<ScheduleCosts> CostsFile::On(const Placement& placement) const {
  return CostsReader(text_, name_, *document_, placement).Read();
}

}  // namespace sluice
