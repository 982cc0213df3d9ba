#include "models/spec_json.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

// Far more than any document that is read here needs.
constexpr size_t kDeepest = 32;
constexpr size_t kLongestShown = 60;

// Walks over the text and stops at the first thing that is wrong.
class Checker : public nlohmann::json_sax<Json> {
 public:
  explicit Checker(absl::string_view text) : text_(text) {}
  const std::string& complaint() const { return complaint_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(Json::binary_t&) override { return true; }
  bool start_object(size_t) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool start_array(size_t) override { return Enter(); }
  bool end_array() override { return Leave(); }

  bool key(std::string& name) override {
    if (names_.back().insert(name).second) return true;
    complaint_ = absl::StrCat("field ", ShowJson(name), " is given twice");
    return false;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    const absl::string_view before =
        text_.substr(0, std::min(text_.size(), position > 0 ? position - 1 : 0));
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const size_t start = before.rfind('\n') + 1;  // 0 where there is none
    complaint_ =
        absl::StrCat("not valid JSON at line ", line, ", column ", before.size() - start + 1);
    return false;
  }

 private:
  bool Enter() {
    names_.emplace_back();
    if (names_.size() > kDeepest) {
      complaint_ = absl::StrCat("nested more than ", kDeepest, " deep");
    }
    return complaint_.empty();
  }
  bool Leave() {
    names_.pop_back();
    return true;
  }

  absl::string_view text_;
  std::vector<std::set<std::string>> names_;  // of the objects around; empty ones of arrays
  std::string complaint_;
};

}  // namespace

absl::StatusOr<Json> ParseJsonObject(absl::string_view text, absl::string_view file,
                                     absl::string_view expected) {
  Checker checker(text);
  Json json;
  if (Json::sax_parse(text.begin(), text.end(), &checker)) {
    json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
    if (json.is_object()) return json;
  }
  const std::string& complaint = checker.complaint();
  return absl::InvalidArgumentError(absl::StrCat(file, ": not a JSON object",
                                                 complaint.empty() ? "" : " (", complaint,
                                                 complaint.empty() ? "" : ")", "; ", expected));
}

std::string ShowJson(const Json& value) {
  // Escaped, so that a cut leaves whole characters.
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  if (text.size() > kLongestShown) text.replace(kLongestShown, std::string::npos, "...");
  return text;
}

}  // namespace sluice
