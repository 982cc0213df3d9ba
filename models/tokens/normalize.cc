#include "models/tokens/normalize.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/tokens/text/unicode.h"

namespace sluice {
namespace {

// Replacements after replacements could make a text as long as one likes. NFKD makes at most 11
// bytes of one.
constexpr size_t kMostGrowth = 64;
constexpr size_t kMostGrowthBytes = size_t{64} << 10;

// Takes white space from the ends of a text.
absl::string_view Strip(const StripNormalizer& strip, absl::string_view text) {
  while (strip.left && !text.empty()) {
    size_t at = 0;
    if (!IsWhitespace(NextCodePoint(text, &at))) break;
    text.remove_prefix(at);
  }
  while (strip.right && !text.empty()) {
    const size_t last = LastCodePoint(text);
    size_t at = last;
    if (!IsWhitespace(NextCodePoint(text, &at))) break;
    text = text.substr(0, last);
  }
  return text;
}

// One text on its way through the steps.
class Passage {
 public:
  Passage(absl::string_view text, NormalizedText* result)
      : given_(text.size()), most_(kMostGrowth * given_ + kMostGrowthBytes), result_(result) {
    result_->text = text;
    result_->keeps_front = true;
  }

  // `pattern` is that of a replacement.
  absl::Status Take(const NormalizerStep& step, const Pattern* pattern) {
    if (const auto* form = std::get_if<UnicodeNormalizer>(&step)) {
      std::string normalized;
      if (Normalize(form->form, text(), &normalized)) Keep(std::move(normalized));
    } else if (std::holds_alternative<LowercaseNormalizer>(step)) {
      Keep(ToLowercase(text()));
    } else if (const auto* strip = std::get_if<StripNormalizer>(&step)) {
      const absl::string_view stripped = Strip(*strip, text());
      if (stripped.data() != text().data()) result_->keeps_front = false;
      Keep(std::string(stripped));
    } else if (const auto* prepend = std::get_if<PrependNormalizer>(&step)) {
      if (!text().empty()) Keep(absl::StrCat(prepend->prefix, text()));
    } else if (const auto* replace = std::get_if<ReplaceNormalizer>(&step)) {
      return Replace(*pattern, replace->content);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Replace(const Pattern& pattern, absl::string_view content) {
    std::vector<Part> parts;
    absl::Status status = pattern.FindAll(text(), &parts);
    if (!status.ok() || (parts.size() == 1 && !parts[0].is_match)) return status;
    if (parts[0].is_match && content.empty()) result_->keeps_front = false;
    size_t size = 0;
    for (const Part& part : parts) size += part.is_match ? content.size() : part.end - part.begin;
    if (size > most_) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the normalizer makes a text of ", given_, " bytes longer than ", most_));
    }
    std::string replaced;
    replaced.reserve(size);
    for (const Part& part : parts) {
      const absl::string_view kept = text().substr(part.begin, part.end - part.begin);
      absl::StrAppend(&replaced, part.is_match ? content : kept);
    }
    Keep(std::move(replaced));
    return status;
  }

  absl::string_view text() const { return result_->text; }
  void Keep(std::string text) {
    result_->storage = std::move(text);
    result_->text = result_->storage;
  }

  const size_t given_;  // bytes
  const size_t most_;
  NormalizedText* const result_;
};

}  // namespace

absl::StatusOr<Normalizer> Normalizer::Create(const std::vector<NormalizerStep>& steps) {
  Normalizer normalizer;
  for (const NormalizerStep& step : steps) {
    normalizer.steps_.push_back({step, std::nullopt});
    const auto* replace = std::get_if<ReplaceNormalizer>(&step);
    if (replace == nullptr) continue;
    absl::StatusOr<Pattern> pattern = Pattern::Compile(replace->pattern);
    if (!pattern.ok()) return pattern.status();
    normalizer.steps_.back().pattern = *std::move(pattern);
  }
  return normalizer;
}

absl::Status Normalizer::Run(absl::string_view text, NormalizedText* result) const {
  Passage passage(text, result);
  for (const Step& step : steps_) {
    // ICU's lengths are int32.
    if (result->text.size() > size_t{std::numeric_limits<int32_t>::max()}) {
      return absl::ResourceExhaustedError("the normalizer makes a text longer than 2 GiB");
    }
    const Pattern* pattern = step.pattern.has_value() ? &*step.pattern : nullptr;
    absl::Status status = passage.Take(step.what, pattern);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace sluice
