#include "models/spec/fields.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/spec/json.h"
#include "models/spec/json_text.h"

namespace sluice {

using Json = nlohmann::json;

void FieldReader::Int(const char* field, int64_t* value) {
  if (!Require(field)) return;
  const Json& found = json_[field];
  // Unsigned first: nlohmann keeps 2^63 and more only there, and any negative number only in the
  // signed type.
  const bool fits = found.is_number_integer() &&
                    (found.is_number_unsigned()
                         ? found.get<uint64_t>() <= uint64_t{std::numeric_limits<int>::max()}
                         : found.get<int64_t>() >= std::numeric_limits<int>::min());
  if (!fits) return Fail(field, "a whole number");
  *value = found.get<int64_t>();
}

void FieldReader::OptionalInt(const char* field, int64_t* value) {
  if (Has(field)) Int(field, value);
}

void FieldReader::OptionalFloat(const char* field, float* value) {
  if (!Has(field)) return;
  if (!json_[field].is_number()) return Fail(field, "a number");
  *value = json_[field].get<float>();
}

void FieldReader::OptionalBool(const char* field, bool* value) {
  if (!Has(field)) return;
  if (!json_[field].is_boolean()) return Fail(field, "true or false");
  *value = json_[field].get<bool>();
}

void FieldReader::OptionalString(const char* field, std::string* value) {
  if (!Has(field)) return;
  if (!json_[field].is_string()) return Fail(field, "a string");
  *value = json_[field].get<std::string>();
}

void FieldReader::OptionalStrings(const char* field, std::vector<std::string>* value) {
  if (!Has(field)) return;
  const Json& found = json_[field];
  const auto is_string = [](const Json& entry) { return entry.is_string(); };
  if (!found.is_array() || !std::all_of(found.begin(), found.end(), is_string)) {
    return Fail(field, "a list of strings");
  }
  *value = found.get<std::vector<std::string>>();
}

void FieldReader::Number(const char* field, double low, double high, double* value) {
  if (!Require(field)) return;
  const Json& found = json_[field];
  const double read = found.is_number() ? found.get<double>() : 0;
  if (!found.is_number() || read < low || read > high) {
    return Fail(field, absl::StrCat("a number from ", low, " to ", high));
  }
  *value = read;
}

void FieldReader::OptionalNumber(const char* field, double low, double high, double* value) {
  if (Has(field)) Number(field, low, high, value);
}

void FieldReader::OneOf(const char* field, const std::vector<Json>& allowed) {
  if (!Has(field)) return;
  std::string expected;
  for (const Json& value : allowed) {
    if (json_[field] == value) return;
    absl::StrAppend(&expected, expected.empty() ? "" : " or ", JsonText(value));
  }
  Fail(field, expected);
}

void FieldReader::Count(const char* field, int64_t low, int64_t high, int64_t* value) {
  int64_t read = 0;
  Int(field, &read);
  if (!status_.ok()) return;
  if (read < low || read > high) return Fail(field, absl::StrCat(low, " to ", high));
  *value = read;
}

void FieldReader::OptionalCount(const char* field, int64_t low, int64_t high, int64_t* value) {
  if (Has(field)) Count(field, low, high, value);
}

void FieldReader::Within(const char* field, absl::FunctionRef<void(FieldReader&)> read) {
  if (!Require(field)) return;
  if (!json_[field].is_object()) return Fail(field, "an object");
  FieldReader part(json_[field], file_, model_type_);
  part.prefix_ = absl::StrCat(prefix_, field, ".");
  read(part);
  status_ = std::move(part.status_);
}

bool FieldReader::Require(const char* field) {
  if (!Has(field) && status_.ok()) {
    const std::string why =
        model_type_.empty() ? "" : absl::StrCat(" (model_type ", model_type_, " needs it)");
    status_ = absl::InvalidArgumentError(
        absl::StrCat(file_, ": field '", prefix_, field, "' is missing", why));
  }
  return status_.ok();
}

void FieldReader::Fail(const char* field, absl::string_view expected) {
  if (!status_.ok()) return;
  const std::string found = Absent(field) ? "missing" : ShowJson(json_[field]);
  status_ =
      absl::InvalidArgumentError(absl::StrCat(file_, ": field '", prefix_, field, "' is ", found,
                                              ", which is not supported; expected ", expected));
}

}  // namespace sluice
