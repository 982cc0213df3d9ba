#ifndef SLUICE_MODELS_DATA_DOCUMENTS_CHAT_TEMPLATE_H_
#define SLUICE_MODELS_DATA_DOCUMENTS_CHAT_TEMPLATE_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/data/documents/document_encoder.h"
#include "models/data/documents/jinja/render_limits.h"

namespace sluice {

// The special tokens that a template may name: "bos_token": "<s>". Without these two, bos_token and
// eos_token are empty.
using SpecialWords = std::map<std::string, std::string>;

// What a template writes.
struct ChatTemplate {
  RenderChat chat;      // with LossOn::kAll also where it could not tell what counts
  RenderPrompt prompt;  // as with add_generation_prompt=True; need not tell what counts
};

// The chat template of a Hugging Face folder (Jinja, as much of it as the templates of common models
// use, see models/data/documents/jinja/README.md). Texts are those of transformers'
// apply_chat_template. What counts is what stands between {% generation %} and
// {% endgeneration %}; in a template without them, each turn of the assistant from where the prompt
// for it ends up to the text that ends a turn. InvalidArgument names `name`, the line, and what is
// wrong or not supported.
absl::StatusOr<ChatTemplate> ParseChatTemplate(absl::string_view text, const std::string& name,
                                               const SpecialWords& words,
                                               const jinja::RenderLimits& limits = {});

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_DOCUMENTS_CHAT_TEMPLATE_H_
