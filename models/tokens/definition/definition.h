#ifndef SLUICE_MODELS_TOKENS_DEFINITION_DEFINITION_H_
#define SLUICE_MODELS_TOKENS_DEFINITION_DEFINITION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "models/tokens/text/pattern_text.h"
#include "models/tokens/text/unicode.h"

// What a tokenizer.json says, typed: the parts that are supported, and nothing else. A sequence of
// steps is a vector; a sequence inside a sequence is flattened. Names are the file's.
namespace sluice {

// --- Normalizers: rewrite the text before it is split.
struct UnicodeNormalizer {
  NormalizationForm form = NormalizationForm::kNfc;
};
struct LowercaseNormalizer {};
struct StripNormalizer {
  bool left = true;
  bool right = true;
};
struct PrependNormalizer {
  std::string prefix;  // in front of every text that is not empty
};
struct ReplaceNormalizer {
  PatternText pattern;
  std::string content;
};
using NormalizerStep = std::variant<UnicodeNormalizer, LowercaseNormalizer, StripNormalizer,
                                    PrependNormalizer, ReplaceNormalizer>;

// --- Pre-tokenizers: cut the text into words. What the model merges never crosses a cut.
// What becomes of the matches of a split's pattern.
enum class SplitBehavior {
  kRemoved,
  kIsolated,            // each match is a word
  kContiguous,          // matches that touch each other are one word
  kMergedWithPrevious,  // a match belongs to the word before it
  kMergedWithNext,
};
struct SplitStep {
  PatternText pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // what lies between the matches takes their part
};
struct DigitsStep {
  bool individual = false;  // each digit is a word; else each row of digits
};
// Spaces become `replacement`, which may be put in front, and words begin with it.
struct MetaspaceStep {
  enum class Prepend { kAlways, kFirst, kNever };  // kFirst: to the start of the whole text only
  std::string replacement;                         // one character
  Prepend prepend = Prepend::kAlways;
  bool split = true;
};
// Puts a space in front of what does not begin with one, cuts with GPT-2's expression where
// `use_regex`, and makes the model see bytes instead of characters. Always the last step.
struct ByteLevelStep {
  bool add_prefix_space = true;
  bool use_regex = true;
};
using PreTokenizerStep = std::variant<SplitStep, DigitsStep, MetaspaceStep, ByteLevelStep>;

// --- Decoders: from words of the vocabulary back to text.
struct ByteLevelDecoder {};
struct ByteFallbackDecoder {};  // <0xE5> and the like back to bytes
struct FuseDecoder {};          // all words become one
struct StripDecoder {
  char32_t content = 0;
  size_t start = 0;  // of each word: at most so many of `content` from its start
  size_t stop = 0;   // and from its end
};
struct ReplaceDecoder {
  std::string text;  // not empty
  std::string content;
};
struct MetaspaceDecoder {
  std::string replacement;
  bool drop_in_first = true;  // the first word loses it, in others it is a space
};
using DecoderStep = std::variant<ByteLevelDecoder, ByteFallbackDecoder, FuseDecoder, StripDecoder,
                                 ReplaceDecoder, MetaspaceDecoder>;

// --- The model.
struct Merge {
  int32_t left = 0;
  int32_t right = 0;
  int32_t result = 0;
};
struct BpeDefinition {
  std::vector<std::pair<std::string, int32_t>> words;  // each word and each id once
  std::vector<Merge> merges;                           // the first is merged first
  std::optional<std::string> unknown;                  // stands for a character that is no word
  bool fuse_unknown = false;                           // one for a row of such characters
  bool byte_fallback = false;  // such a character becomes <0xE5> <0x8F> <0xAB> instead
  bool ignore_merges = false;  // a word of the vocabulary is one token, whatever the merges
};

// Found in the text before the model sees it.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // only where no letter or digit stands beside it
  bool left_strip = false;   // takes the white space before it
  bool right_strip = false;  // and after it
  bool normalized = false;   // is looked for in the normalized text
  bool special = false;      // Decode can leave it out
};

struct TokenizerDefinition {
  std::vector<AddedToken> added;
  std::vector<NormalizerStep> normalizers;
  std::vector<PreTokenizerStep> pre_tokenizers;
  BpeDefinition model;
  std::vector<int32_t> before;  // what the post-processor puts before the tokens of a text
  std::vector<int32_t> after;   // and after them
  std::vector<DecoderStep> decoders;
  bool has_decoder = false;  // without one, words are joined by spaces
};

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_DEFINITION_DEFINITION_H_
