#include "partitioner/costs/json_fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/spec/json.h"

namespace sluice {

absl::StatusOr<nlohmann::json> JsonFields::ParseObject(absl::string_view text,
                                                       absl::string_view file) {
  return ParseJsonObject(text, file, "expected one {...} with named fields");
}

JsonFields::JsonFields(const nlohmann::json& object, std::string file, std::string path)
    : object_(object), file_(std::move(file)), path_(std::move(path)) {}

bool JsonFields::Has(const char* field) const { return object_.contains(field); }

void JsonFields::RefuseOthers(std::initializer_list<const char*> known) {
  for (const auto& item : object_.items()) {
    const auto same = [&item](const char* field) { return item.key() == field; };
    if (std::any_of(known.begin(), known.end(), same)) continue;
    Fail(item.key().c_str(), absl::StrCat("is not known; there are: ", absl::StrJoin(known, ", ")));
  }
}

void JsonFields::Fail(const char* field, absl::string_view what) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(
      absl::StrCat(file_, ": field '", path_, path_.empty() ? "" : ".", field, "' ", what));
}

void JsonFields::Merge(const absl::Status& status) {
  if (status_.ok()) status_ = status;
}

const nlohmann::json* JsonFields::Find(const char* field) {
  const auto found = object_.find(field);
  if (found != object_.end()) return &*found;
  Fail(field, "is missing");
  return nullptr;
}

std::string JsonFields::String(const char* field) {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) return "";
  if (!value->is_string()) {
    Fail(field, absl::StrCat("is ", ShowJson(*value), "; expected a string"));
    return "";
  }
  return value->get<std::string>();
}

double JsonFields::Number(const char* field, double least, double most) {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) return 0;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!std::isfinite(number) || number < least) {
    Fail(field, absl::StrCat("is ", ShowJson(*value), "; expected a number of at least ", least));
    return 0;
  }
  if (number > most) {
    Fail(field, absl::StrCat("is ", ShowJson(*value), "; expected a number of at most ", most));
    return 0;
  }
  return number;
}

int64_t JsonFields::Integer(const char* field, int64_t least) {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) return 0;
  if (!value->is_number_integer() || value->get<int64_t>() < least) {
    Fail(field,
         absl::StrCat("is ", ShowJson(*value), "; expected a whole number of at least ", least));
    return 0;
  }
  return value->get<int64_t>();
}

bool JsonFields::Bool(const char* field) {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) return false;
  if (!value->is_boolean()) {
    Fail(field, absl::StrCat("is ", ShowJson(*value), "; expected true or false"));
    return false;
  }
  return value->get<bool>();
}

const nlohmann::json* JsonFields::Objects(const char* field) {
  const nlohmann::json* value = Find(field);
  if (value == nullptr) return nullptr;
  bool good = value->is_array() && !value->empty();
  if (good) {
    for (const nlohmann::json& element : *value) good = good && element.is_object();
  }
  if (good) return value;
  Fail(field, "must be a non-empty array of objects");
  return nullptr;
}

}  // namespace sluice
