#include "tools/schedule/question/json_position.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace sluice {
namespace {

// Walks over a valid JSON text without building anything.
class Walker {
 public:
  explicit Walker(absl::string_view text) : text_(text) { SkipSpace(); }

  size_t at() const { return at_; }
  bool TakeIf(char wanted) {
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    SkipSpace();
    return true;
  }

  // Skips a string and returns the text between its quotes, with its escapes.
  absl::string_view TakeString() {
    const size_t begin = at_;
    SkipValue();
    const size_t end = std::min(text_.find_last_of('"', at_ - 1), text_.size());
    return end > begin ? text_.substr(begin + 1, end - begin - 1) : absl::string_view();
  }

  // Skips one value of any kind, and the space after it.
  void SkipValue() {
    int depth = 0;
    do {
      if (at_ >= text_.size()) return;
      const char c = text_[at_];
      if (c == '"') {
        SkipString();
      } else {
        if (c == '[' || c == '{') ++depth;
        if (c == ']' || c == '}') --depth;
        ++at_;
        if (depth == 0 && c != ']' && c != '}') SkipScalar();
      }
    } while (depth > 0);
    SkipSpace();
  }

 private:
  void SkipString() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    at_ = std::min(at_ + 1, text_.size());
  }
  void SkipScalar() { at_ = std::min(text_.find_first_of(",]} \t\r\n", at_), text_.size()); }
  void SkipSpace() {
    while (at_ < text_.size() && absl::ascii_isspace(text_[at_])) ++at_;
  }

  absl::string_view text_;
  size_t at_ = 0;
};

}  // namespace

size_t FindJsonValue(absl::string_view text, absl::string_view field, int index) {
  Walker walker(text);
  const size_t start = walker.at();
  if (!walker.TakeIf('{')) return start;
  do {
    const absl::string_view key = walker.TakeString();
    if (!walker.TakeIf(':')) return start;
    const size_t value = walker.at();
    if (key != field) {
      walker.SkipValue();
      continue;
    }
    if (index < 0 || !walker.TakeIf('[')) return value;
    for (int i = 0; i < index; ++i) {
      walker.SkipValue();
      if (!walker.TakeIf(',')) return value;
    }
    return walker.at();
  } while (walker.TakeIf(','));
  return start;
}

}  // namespace sluice
