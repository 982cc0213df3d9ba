#ifndef SLUICE_MODELS_SPEC_FIELDS_H_
#define SLUICE_MODELS_SPEC_FIELDS_H_

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "models/spec/json.h"

namespace sluice {

// Reads fields one by one; the first that is wrong is kept as the status, and names the file and
// the field.
class FieldReader {
 public:
  FieldReader(const nlohmann::json& json, absl::string_view file, absl::string_view model_type)
      : json_(json), file_(file), model_type_(model_type) {}

  const absl::Status& status() const { return status_; }

  // A whole number of 32 bits.
  void Int(const char* field, int64_t* value) {
    if (!Require(field)) return;
    const nlohmann::json& found = json_[field];
    // Unsigned first: nlohmann keeps 2^63 and more only there, and any negative number only in the
    // signed type.
    const bool fits = found.is_number_integer() &&
                      (found.is_number_unsigned()
                           ? found.get<uint64_t>() <= uint64_t{std::numeric_limits<int>::max()}
                           : found.get<int64_t>() >= std::numeric_limits<int>::min());
    if (!fits) return Fail(field, "a whole number");
    *value = found.get<int64_t>();
  }
  void OptionalInt(const char* field, int64_t* value) {
    if (Has(field)) Int(field, value);
  }
  void OptionalFloat(const char* field, float* value) {
    if (!Has(field)) return;
    if (!json_[field].is_number()) return Fail(field, "a number");
    *value = json_[field].get<float>();
  }
  void OptionalBool(const char* field, bool* value) {
    if (!Has(field)) return;
    if (!json_[field].is_boolean()) return Fail(field, "true or false");
    *value = json_[field].get<bool>();
  }
  void OptionalString(const char* field, std::string* value) {
    if (!Has(field)) return;
    if (!json_[field].is_string()) return Fail(field, "a string");
    *value = json_[field].get<std::string>();
  }
  // The field, where present, must hold one of `allowed`.
  void OneOf(const char* field, const std::vector<nlohmann::json>& allowed) {
    if (!Has(field)) return;
    for (const nlohmann::json& value : allowed) {
      if (json_[field] == value) return;
    }
    std::string expected;
    for (const nlohmann::json& value : allowed) {
      absl::StrAppend(&expected, expected.empty() ? "" : " or ", value.dump());
    }
    Fail(field, expected);
  }
  // As Int(), within bounds.
  void Count(const char* field, int64_t low, int64_t high, int64_t* value) {
    int64_t read = 0;
    Int(field, &read);
    if (!status_.ok()) return;
    if (read < low || read > high) return Fail(field, absl::StrCat(low, " to ", high));
    *value = read;
  }
  void OptionalCount(const char* field, int64_t low, int64_t high, int64_t* value) {
    if (Has(field)) Count(field, low, high, value);
  }
  bool Require(const char* field) {
    if (!Has(field) && status_.ok()) {
      status_ = absl::InvalidArgumentError(absl::StrCat(
          file_, ": field '", field, "' is missing (model_type ", model_type_, " needs it)"));
    }
    return status_.ok();
  }

  // Present, and not null.
  bool Has(const char* field) const { return json_.contains(field) && !json_[field].is_null(); }
  // Makes the status an error about `field`, unless there is one already.
  void Fail(const char* field, absl::string_view expected) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(
        absl::StrCat(file_, ": field '", field, "' is ", ShowJson(json_[field]),
                     ", which is not supported; expected ", expected));
  }

 private:
  const nlohmann::json& json_;
  absl::string_view file_;
  absl::string_view model_type_;
  absl::Status status_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_FIELDS_H_
