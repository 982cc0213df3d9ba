#ifndef SLUICE_MODELS_TOKENS_DEFINITION_JSON_FIELD_H_
#define SLUICE_MODELS_TOKENS_DEFINITION_JSON_FIELD_H_

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sluice {

// A value of a JSON document together with its place in it, for readers of nested fields. All
// fields of one document share a status: the first error is kept, and whatever is read after it is
// a default that nobody uses.
class JsonField {
 public:
  // The whole document. `file` begins every message.
  JsonField(const nlohmann::json& value, absl::string_view file, absl::Status* status)
      : value_(&value), file_(file), status_(status) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& path() const { return path_; }
  bool ok() const { return status_->ok(); }

  // The field of an object: null where it is missing. An error where this is no object.
  JsonField At(const std::string& name) const;
  // The element of an array that is long enough.
  JsonField At(size_t index) const;
  bool IsNull() const { return value_->is_null(); }
  // The elements of an array; an error, and 0, where this is none.
  size_t Size() const;

  // Errors where the value is of another type (or is missing).
  std::string String() const;
  bool Bool() const;
  bool BoolOr(bool otherwise) const { return IsNull() ? otherwise : Bool(); }
  int32_t Id() const;             // 0 to 2^31 - 2: one more is still an int32
  std::string Character() const;  // a text of one code point

  // "FILE: field 'model.type' is "WordPiece"; expected ...".
  void Fail(absl::string_view expected) const;

 private:
  const nlohmann::json* value_;
  absl::string_view file_;
  absl::Status* status_;
  std::string path_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_DEFINITION_JSON_FIELD_H_
