#ifndef SLUICE_MODELS_SPEC_FIELDS_H_
#define SLUICE_MODELS_SPEC_FIELDS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Reads fields one by one; the first that is wrong is kept as the status, and names the file, the
// field, what was found and what was expected. What is optional and null counts as absent.
class FieldReader {
 public:
  // `model_type` is empty for a document that describes no model.
  FieldReader(const nlohmann::json& json, absl::string_view file, absl::string_view model_type)
      : json_(json), file_(file), model_type_(model_type) {}

  const absl::Status& status() const { return status_; }

  // A whole number of 32 bits.
  void Int(const char* field, int64_t* value);
  void OptionalInt(const char* field, int64_t* value);
  void OptionalFloat(const char* field, float* value);
  void OptionalBool(const char* field, bool* value);
  void OptionalString(const char* field, std::string* value);
  void OptionalStrings(const char* field, std::vector<std::string>* value);
  // A number from `low` to `high`, both included.
  void Number(const char* field, double low, double high, double* value);
  void OptionalNumber(const char* field, double low, double high, double* value);
  // The field, where present, must hold one of `allowed`.
  void OneOf(const char* field, const std::vector<nlohmann::json>& allowed);
  // As Int(), within bounds.
  void Count(const char* field, int64_t low, int64_t high, int64_t* value);
  void OptionalCount(const char* field, int64_t low, int64_t high, int64_t* value);
  // Hands a reader of the object in `field` to `read`; messages call what is in it "field.name".
  void Within(const char* field, absl::FunctionRef<void(FieldReader&)> read);
  bool Require(const char* field);

  // Not there at all, null neither.
  bool Absent(const char* field) const { return !json_.contains(field); }
  // Present, and not null.
  bool Has(const char* field) const { return json_.contains(field) && !json_[field].is_null(); }
  // Present, neither null nor an object without fields.
  bool HasFields(const char* field) const { return Has(field) && !json_[field].empty(); }
  // Makes the status an error about `field`, unless there is one already.
  void Fail(const char* field, absl::string_view expected);

 private:
  const nlohmann::json& json_;
  absl::string_view file_;
  absl::string_view model_type_;
  std::string prefix_;  // of the names in messages: "rope_parameters."
  absl::Status status_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_FIELDS_H_
