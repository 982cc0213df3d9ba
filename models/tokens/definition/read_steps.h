#ifndef SLUICE_MODELS_TOKENS_DEFINITION_READ_STEPS_H_
#define SLUICE_MODELS_TOKENS_DEFINITION_READ_STEPS_H_

#include <vector>

#include "models/tokens/definition/definition.h"
#include "models/tokens/definition/json_field.h"

namespace sluice {

// The fields "normalizer", "pre_tokenizer" and "decoder" of a tokenizer.json: null, one step, or a
// sequence of them. Errors are the field's.
std::vector<NormalizerStep> ReadNormalizers(const JsonField& field);
std::vector<PreTokenizerStep> ReadPreTokenizers(const JsonField& field);
std::vector<DecoderStep> ReadDecoders(const JsonField& field);

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_DEFINITION_READ_STEPS_H_
