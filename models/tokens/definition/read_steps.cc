#include "models/tokens/definition/read_steps.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "models/tokens/text/unicode.h"

namespace sluice {
namespace {

// Reads null, one step, or a sequence of steps, whose elements are in the field `elements`.
template <typename Step, typename Read>
void ReadSequence(const JsonField& field, const char* elements, const Read& read,
                  std::vector<Step>* steps) {
  if (field.IsNull() || !field.ok()) return;
  if (field.At("type").String() != "Sequence") return read(field, steps);
  const JsonField all = field.At(elements);
  for (size_t i = 0, count = all.Size(); i < count; ++i) {
    ReadSequence(all.At(i), elements, read, steps);
  }
}

// {"String": "a"} or {"Regex": "a+"}.
PatternText ReadPattern(const JsonField& field) {
  PatternText pattern;
  pattern.is_regex = !field.At("Regex").IsNull();
  pattern.text = field.At(pattern.is_regex ? "Regex" : "String").String();
  if (field.ok() && pattern.text.empty()) field.Fail("a pattern that is not empty");
  return pattern;
}

void ReadNormalizer(const JsonField& field, std::vector<NormalizerStep>* steps) {
  const std::string type = field.At("type").String();
  if (type == "NFC") {
    steps->push_back(UnicodeNormalizer{NormalizationForm::kNfc});
  } else if (type == "NFD") {
    steps->push_back(UnicodeNormalizer{NormalizationForm::kNfd});
  } else if (type == "NFKC") {
    steps->push_back(UnicodeNormalizer{NormalizationForm::kNfkc});
  } else if (type == "NFKD") {
    steps->push_back(UnicodeNormalizer{NormalizationForm::kNfkd});
  } else if (type == "Lowercase") {
    steps->push_back(LowercaseNormalizer{});
  } else if (type == "Strip") {
    steps->push_back(
        StripNormalizer{field.At("strip_left").Bool(), field.At("strip_right").Bool()});
  } else if (type == "Prepend") {
    steps->push_back(PrependNormalizer{field.At("prepend").String()});
  } else if (type == "Replace") {
    ReplaceNormalizer replace{ReadPattern(field.At("pattern")), field.At("content").String()};
    if (replace.pattern.is_regex && absl::StrContains(replace.content, '$')) {
      field.At("content").Fail("a text without $: references to groups are not supported");
    }
    steps->push_back(std::move(replace));
  } else {
    field.At("type").Fail("NFC, NFD, NFKC, NFKD, Lowercase, Strip, Prepend, Replace or Sequence");
  }
}

SplitBehavior ReadBehavior(const JsonField& field) {
  const std::string behavior = field.String();
  if (behavior == "Removed") return SplitBehavior::kRemoved;
  if (behavior == "Isolated") return SplitBehavior::kIsolated;
  if (behavior == "Contiguous") return SplitBehavior::kContiguous;
  if (behavior == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (behavior == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  field.Fail("Removed, Isolated, Contiguous, MergedWithPrevious or MergedWithNext");
  return SplitBehavior::kIsolated;
}

MetaspaceStep::Prepend ReadPrepend(const JsonField& field) {
  const JsonField scheme = field.At("prepend_scheme");
  const std::string text = scheme.IsNull() ? "always" : scheme.String();
  if (text == "never") return MetaspaceStep::Prepend::kNever;
  if (text != "always" && text != "first") scheme.Fail("always, first or never");
  if (!field.At("add_prefix_space").BoolOr(true)) {
    field.At("add_prefix_space").Fail("true, since prepend_scheme is not never");
  }
  return text == "first" ? MetaspaceStep::Prepend::kFirst : MetaspaceStep::Prepend::kAlways;
}

void ReadPreTokenizer(const JsonField& field, std::vector<PreTokenizerStep>* steps) {
  const std::string type = field.At("type").String();
  if (!steps->empty() && std::holds_alternative<ByteLevelStep>(steps->back())) {
    return field.Fail("nothing after ByteLevel, which has to be the last step");
  }
  if (type == "Split") {
    steps->push_back(SplitStep{ReadPattern(field.At("pattern")), ReadBehavior(field.At("behavior")),
                               field.At("invert").Bool()});
  } else if (type == "Digits") {
    steps->push_back(DigitsStep{field.At("individual_digits").Bool()});
  } else if (type == "Metaspace") {
    steps->push_back(MetaspaceStep{field.At("replacement").Character(), ReadPrepend(field),
                                   field.At("split").BoolOr(true)});
  } else if (type == "ByteLevel") {
    steps->push_back(
        ByteLevelStep{field.At("add_prefix_space").Bool(), field.At("use_regex").BoolOr(true)});
  } else {
    field.At("type").Fail("ByteLevel, Split, Digits, Metaspace or Sequence");
  }
}

bool Lengthens(const ReplaceDecoder& replace) {
  return replace.content.size() > replace.text.size();
}

bool IsLengthening(const DecoderStep& step) {
  const auto* replace = std::get_if<ReplaceDecoder>(&step);
  return replace != nullptr && Lengthens(*replace);
}

void ReadDecoder(const JsonField& field, std::vector<DecoderStep>* steps) {
  const std::string type = field.At("type").String();
  if (type == "ByteLevel") {
    steps->push_back(ByteLevelDecoder{});
  } else if (type == "ByteFallback") {
    steps->push_back(ByteFallbackDecoder{});
  } else if (type == "Fuse") {
    steps->push_back(FuseDecoder{});
  } else if (type == "Strip") {
    const std::string content = field.At("content").Character();
    size_t at = 0;
    steps->push_back(StripDecoder{content.empty() ? 0 : NextCodePoint(content, &at),
                                  static_cast<size_t>(field.At("start").Id()),
                                  static_cast<size_t>(field.At("stop").Id())});
  } else if (type == "Replace") {
    const PatternText pattern = ReadPattern(field.At("pattern"));
    if (pattern.is_regex) field.At("pattern").Fail("{\"String\": ...} in a decoder");
    ReplaceDecoder replace{pattern.text, field.At("content").String()};
    // Several of them could make a word as long as one likes.
    if (Lengthens(replace) && std::any_of(steps->begin(), steps->end(), IsLengthening)) {
      field.At("content").Fail("no second replacement that makes words longer");
    }
    steps->push_back(std::move(replace));
  } else if (type == "Metaspace") {
    steps->push_back(MetaspaceDecoder{field.At("replacement").Character(),
                                      ReadPrepend(field) != MetaspaceStep::Prepend::kNever});
  } else {
    field.At("type").Fail("ByteLevel, ByteFallback, Fuse, Strip, Replace, Metaspace or Sequence");
  }
}

}  // namespace

std::vector<NormalizerStep> ReadNormalizers(const JsonField& field) {
  std::vector<NormalizerStep> steps;
  ReadSequence(field, "normalizers", ReadNormalizer, &steps);
  return steps;
}

std::vector<PreTokenizerStep> ReadPreTokenizers(const JsonField& field) {
  std::vector<PreTokenizerStep> steps;
  ReadSequence(field, "pretokenizers", ReadPreTokenizer, &steps);
  return steps;
}

std::vector<DecoderStep> ReadDecoders(const JsonField& field) {
  std::vector<DecoderStep> steps;
  ReadSequence(field, "decoders", ReadDecoder, &steps);
  return steps;
}

}  // namespace sluice
