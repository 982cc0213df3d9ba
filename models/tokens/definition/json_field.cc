#include "models/tokens/definition/json_field.h"

#include "absl/strings/str_cat.h"
#include "models/spec/json.h"
#include "models/spec/show_text.h"
#include "models/tokens/text/unicode.h"

namespace sluice {
namespace {

const nlohmann::json& Null() {
  static const auto& null = *new nlohmann::json;
  return null;
}

constexpr size_t kLongestName = 60;

}  // namespace

JsonField JsonField::At(const std::string& name) const {
  JsonField field = *this;
  const std::string shown = ShowText(name.substr(0, kLongestName));
  field.path_ = path_.empty() ? shown : absl::StrCat(path_, ".", shown);
  field.value_ = &Null();
  if (!value_->is_object()) {
    Fail("an object");
    return field;
  }
  const auto found = value_->find(name);
  if (found != value_->end()) field.value_ = &*found;
  return field;
}

JsonField JsonField::At(size_t index) const {
  JsonField field = *this;
  field.path_ = absl::StrCat(path_, "[", index, "]");
  field.value_ = &(*value_)[index];
  return field;
}

size_t JsonField::Size() const {
  if (value_->is_array()) return value_->size();
  Fail("an array");
  return 0;
}

std::string JsonField::String() const {
  if (value_->is_string()) return value_->get<std::string>();
  Fail("a string");
  return "";
}

bool JsonField::Bool() const {
  if (value_->is_boolean()) return value_->get<bool>();
  Fail("true or false");
  return false;
}

int32_t JsonField::Id() const {
  constexpr uint64_t kMost = 0x7FFFFFFE;
  // nlohmann keeps every whole number that is not negative as an unsigned one.
  if (value_->is_number_unsigned() && value_->get<uint64_t>() <= kMost) {
    return value_->get<int32_t>();
  }
  Fail(absl::StrCat("a whole number from 0 to ", kMost));
  return 0;
}

std::string JsonField::Character() const {
  std::string text = String();
  size_t bytes = 0;
  if (!text.empty()) NextCodePoint(text, &bytes);
  if (ok() && (text.empty() || bytes != text.size())) Fail("one character");
  return text;
}

void JsonField::Fail(absl::string_view expected) const {
  if (!ok()) return;
  const std::string what = path_.empty() ? "the document" : absl::StrCat("field '", path_, "'");
  *status_ = absl::InvalidArgumentError(absl::StrCat(
      file_, ": ", what, IsNull() ? " is null or missing" : absl::StrCat(" is ", ShowJson(*value_)),
      "; expected ", expected));
}

}  // namespace sluice
