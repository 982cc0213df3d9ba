#ifndef SLUICE_MODELS_TOKENS_DEFINITION_READ_MODEL_H_
#define SLUICE_MODELS_TOKENS_DEFINITION_READ_MODEL_H_

#include "models/tokens/definition/definition.h"
#include "models/tokens/definition/json_field.h"

namespace sluice {

// The field "model" of a tokenizer.json: byte pair encoding. Errors are the field's.
BpeDefinition ReadBpe(const JsonField& field);

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_DEFINITION_READ_MODEL_H_
