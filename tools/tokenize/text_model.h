#ifndef SLUICE_TOOLS_TOKENIZE_TEXT_MODEL_H_
#define SLUICE_TOOLS_TOKENIZE_TEXT_MODEL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "models/data/documents/document_encoder.h"
#include "models/tokens/tokenizer.h"

namespace sluice {

// What a Hugging Face folder says about text.
struct TextModel {
  std::unique_ptr<const Tokenizer> tokenizer;
  TextFormat format;
};

// The tokenizer.json that `path` names or that is in the folder `path`, and, where they are beside
// it, tokenizer_config.json (special tokens, `chat_template`), chat_template.jinja and
// additional_chat_templates/tool_use.jinja, which come first. Of several templates, conversations
// that have tools take "tool_use". `chat_template`: a file with a template instead; empty: none.
// InvalidArgument names the file and the field.
absl::StatusOr<TextModel> ReadTextModel(const std::string& path, const std::string& chat_template);

// The tokenizer.json of a model that is given as a folder or as its config.json; empty where there
// is none.
std::string TokenizerOf(const std::string& model);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TOKENIZE_TEXT_MODEL_H_
