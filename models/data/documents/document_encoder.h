#ifndef SLUICE_MODELS_DATA_DOCUMENTS_DOCUMENT_ENCODER_H_
#define SLUICE_MODELS_DATA_DOCUMENTS_DOCUMENT_ENCODER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/data/documents/document.h"
#include "models/tokens/encoder.h"

namespace sluice {

// Which targets count: those of the assistant's turns and of completions (a text counts as a whole),
// or all.
enum class LossOn : uint8_t { kAssistant, kAll };

// A conversation as text, in pieces that count as targets or do not.
struct ChatPiece {
  std::string text;
  bool counts = false;
};
// With LossOn::kAll the pieces need not tell what counts.
using RenderChat =
    std::function<absl::StatusOr<std::vector<ChatPiece>>(const Conversation&, LossOn loss_on)>;
// A conversation up to where the assistant's next turn begins, which is for a model to write.
using RenderPrompt = std::function<absl::StatusOr<std::string>(const Conversation&)>;

// How a model reads text.
struct TextFormat {
  const Tokenizer* tokenizer = nullptr;
  std::string end = {};             // the word that ends a document; empty: none
  RenderChat render_chat = {};      // empty: there is no template, and messages cannot be read
  RenderPrompt render_prompt = {};  // likewise
};

// Turns documents into tokens, those that do not count as WithoutCounting. A text has the tokens of
// `tokenizers` with special tokens, and `end` unless it ends with it; a prompt and its completion are
// encoded as one text, of which the tokens count that the prompt alone does not begin with. One
// thread.
class DocumentEncoder {
 public:
  // `format` lives longer.
  DocumentEncoder(const TextFormat& format, LossOn loss_on)
      : format_(format), loss_on_(loss_on), encoder_(*format.tokenizer) {}

  // InvalidArgument says which field is wrong, and how.
  absl::StatusOr<std::vector<int32_t>> Encode(const Document& document);

 private:
  absl::StatusOr<std::vector<int32_t>> EncodeText(const std::string& text);
  absl::StatusOr<std::vector<int32_t>> EncodePrompt(const Document& document);
  absl::StatusOr<std::vector<int32_t>> EncodeMessages(const Document& document);
  absl::Status LeaveOutPieces(const std::vector<ChatPiece>& pieces, absl::string_view text,
                              const std::vector<TokenPlace>& places, std::vector<int32_t>* tokens);
  absl::Status AddEnd(std::vector<int32_t>* tokens) const;

  const TextFormat& format_;
  const LossOn loss_on_;
  Encoder encoder_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_DOCUMENTS_DOCUMENT_ENCODER_H_
