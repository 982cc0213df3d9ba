#include "models/tokens/pre_tokenize.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "models/tokens/split.h"
#include "models/tokens/text/unicode.h"

namespace sluice {
namespace {

using Word = SplitText::Word;

// https://github.com/openai/gpt-2/blob/master/src/encoder.py
constexpr char kGpt2[] =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

std::optional<PatternText> PatternOf(const PreTokenizerStep& step) {
  if (const auto* split = std::get_if<SplitStep>(&step)) return split->pattern;
  const auto* bytes = std::get_if<ByteLevelStep>(&step);
  if (bytes != nullptr && bytes->use_regex) return PatternText{kGpt2, true};
  return std::nullopt;
}

// Llama 3's expression, and that of Qwen 2, which takes numbers one by one.
constexpr char kLlama3[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                           R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr char kQwen2[] = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                          R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// In these expressions nothing but white space follows a newline in a match, and none looks at what
// stands before it.
bool LinesBeginWords(const std::vector<PreTokenizerStep>& steps) {
  bool known = false;  // whether there is such an expression
  for (const PreTokenizerStep& step : steps) {
    if (std::holds_alternative<DigitsStep>(step)) continue;
    if (const auto* split = std::get_if<SplitStep>(&step)) {
      const PatternText& pattern = split->pattern;
      if (!pattern.is_regex || (pattern.text != kLlama3 && pattern.text != kQwen2) ||
          split->behavior != SplitBehavior::kIsolated || split->invert) {
        return false;
      }
      known = true;
      continue;
    }
    const auto* bytes = std::get_if<ByteLevelStep>(&step);
    if (bytes == nullptr || bytes->add_prefix_space) return false;
    known |= bytes->use_regex;
  }
  return known;
}

// Appends those words of `word` that are not empty.
void Append(const Word& word, const std::vector<Part>& parts, std::vector<Word>* words) {
  for (const Part& part : parts) {
    if (part.begin == part.end) continue;
    words->push_back(
        {word.text.substr(part.begin, part.end - part.begin), word.at_start && part.begin == 0});
  }
}

// The words of a text on their way through the steps.
class Passage {
 public:
  explicit Passage(SplitText* result) : result_(result) {}

  absl::Status Take(const PreTokenizerStep& step, const Pattern* pattern) {
    if (const auto* split = std::get_if<SplitStep>(&step)) {
      return Split(*pattern, split->behavior, split->invert);
    }
    if (const auto* digits = std::get_if<DigitsStep>(&step)) {
      SplitAtCharacters(IsNumber,
                        digits->individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
    } else if (const auto* metaspace = std::get_if<MetaspaceStep>(&step)) {
      Metaspace(*metaspace);
    } else if (const auto* bytes = std::get_if<ByteLevelStep>(&step)) {
      if (bytes->add_prefix_space) PutInFront(" ", [](const Word&) { return true; });
      if (pattern != nullptr) return Split(*pattern, SplitBehavior::kIsolated, false);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Split(const Pattern& pattern, SplitBehavior behavior, bool invert) {
    std::vector<Word> words;
    std::vector<Part> parts;
    for (const Word& word : result_->words) {
      absl::Status status = pattern.FindAll(word.text, &parts);
      if (!status.ok()) return status;
      ApplyBehavior(behavior, invert, &parts);
      Append(word, parts, &words);
    }
    result_->words = std::move(words);
    return absl::OkStatus();
  }

  template <typename IsMatch>
  void SplitAtCharacters(const IsMatch& is_match, SplitBehavior behavior) {
    std::vector<Word> words;
    std::vector<Part> parts;
    for (const Word& word : result_->words) {
      FindCharacters(word.text, is_match, &parts);
      ApplyBehavior(behavior, /*invert=*/false, &parts);
      Append(word, parts, &words);
    }
    result_->words = std::move(words);
  }

  void Metaspace(const MetaspaceStep& step) {
    for (Word& word : result_->words) {
      if (!absl::StrContains(word.text, ' ')) continue;
      Store(absl::StrReplaceAll(word.text, {{" ", step.replacement}}), &word);
    }
    PutInFront(step.replacement, [&step](const Word& word) {
      return step.prepend == MetaspaceStep::Prepend::kAlways ||
             (step.prepend == MetaspaceStep::Prepend::kFirst && word.at_start);
    });
    if (!step.split) return;
    size_t at = 0;
    const char32_t replacement = NextCodePoint(step.replacement, &at);
    SplitAtCharacters([replacement](char32_t code_point) { return code_point == replacement; },
                      SplitBehavior::kMergedWithNext);
  }

  // Puts `prefix` in front of the words which `wants` it and do not begin with it.
  template <typename Wants>
  void PutInFront(absl::string_view prefix, const Wants& wants) {
    for (Word& word : result_->words) {
      if (!wants(word) || absl::StartsWith(word.text, prefix)) continue;
      Store(absl::StrCat(prefix, word.text), &word);
    }
  }

  void Store(std::string text, Word* word) {
    result_->storage.push_back(std::move(text));
    word->text = result_->storage.back();
  }

  SplitText* const result_;
};

}  // namespace

absl::StatusOr<PreTokenizer> PreTokenizer::Create(const std::vector<PreTokenizerStep>& steps) {
  PreTokenizer pre_tokenizer;
  pre_tokenizer.lines_begin_words_ = LinesBeginWords(steps);
  for (const PreTokenizerStep& step : steps) {
    pre_tokenizer.byte_level_ |= std::holds_alternative<ByteLevelStep>(step);
    pre_tokenizer.steps_.push_back({step, std::nullopt});
    const std::optional<PatternText> text = PatternOf(step);
    if (!text.has_value()) continue;
    absl::StatusOr<Pattern> pattern = Pattern::Compile(*text);
    if (!pattern.ok()) return pattern.status();
    pre_tokenizer.steps_.back().pattern = *std::move(pattern);
  }
  return pre_tokenizer;
}

absl::Status PreTokenizer::Run(absl::string_view text, bool at_start, SplitText* result) const {
  result->storage.clear();
  result->words.clear();
  if (text.empty()) return absl::OkStatus();
  result->words.push_back({text, at_start});
  Passage passage(result);
  for (const Step& step : steps_) {
    const Pattern* pattern = step.pattern.has_value() ? &*step.pattern : nullptr;
    absl::Status status = passage.Take(step.what, pattern);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace sluice
