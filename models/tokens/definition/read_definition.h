#ifndef SLUICE_MODELS_TOKENS_DEFINITION_READ_DEFINITION_H_
#define SLUICE_MODELS_TOKENS_DEFINITION_READ_DEFINITION_H_

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/tokens/definition/definition.h"

namespace sluice {

// Reads the text of a tokenizer.json. InvalidArgument begins with `file`; it names the field, its
// value, and what is supported instead. `truncation` and `padding` say how texts become a batch,
// not what the tokens of one are, and are not read.
absl::StatusOr<TokenizerDefinition> ReadTokenizerDefinition(absl::string_view text,
                                                            absl::string_view file);

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_DEFINITION_READ_DEFINITION_H_
