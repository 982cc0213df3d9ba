#ifndef SLUICE_MODELS_TOKENS_NORMALIZE_H_
#define SLUICE_MODELS_TOKENS_NORMALIZE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/tokens/definition/definition.h"
#include "models/tokens/text/pattern.h"

namespace sluice {

// A text after all normalizers.
struct NormalizedText {
  absl::string_view text;   // of the input where nothing changed, else of `storage`
  bool keeps_front = true;  // the first character of the input is not taken away
  std::string storage;
};

// The normalizers of a tokenizer, one after another. Any thread.
class Normalizer {
 public:
  // InvalidArgument where a regular expression is not supported.
  static absl::StatusOr<Normalizer> Create(const std::vector<NormalizerStep>& steps);

  // Replaces `*result`; its text lives as long as `text` and `*result`. ResourceExhausted where a
  // regular expression gives up.
  absl::Status Run(absl::string_view text, NormalizedText* result) const;

 private:
  struct Step {
    NormalizerStep what;
    std::optional<Pattern> pattern;  // of a replacement
  };

  std::vector<Step> steps_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_NORMALIZE_H_
