#include "models/data/documents/document_encoder.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "models/data/documents/document_tokens.h"

namespace sluice {
namespace {

absl::Status InField(absl::string_view field, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat("field '", field, "': ", status.message()));
}

void DoNotCount(int64_t begin, int64_t end, std::vector<int32_t>* tokens) {
  for (int64_t i = begin; i < end; ++i) {
    int32_t& token = (*tokens)[static_cast<size_t>(i)];
    token = WithoutCounting(token);
  }
}

// The first token from `from` on in which the tokens of a whole and of its beginning, of which
// `beginning` has those from `first` on, differ.
int64_t BorderOf(const std::vector<int32_t>& beginning, const std::vector<int32_t>& whole,
                 int64_t from, size_t first = 0) {
  size_t at = std::max(static_cast<size_t>(from), first);
  while (at < std::min(first + beginning.size(), whole.size()) &&
         beginning[at - first] == IdOfToken(whole[at])) {
    ++at;
  }
  return static_cast<int64_t>(at);
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> DocumentEncoder::Encode(const Document& document) {
  switch (document.form) {
    case Document::Form::kText: {
      absl::StatusOr<std::vector<int32_t>> tokens = EncodeText(document.text);
      return tokens.ok() ? tokens : InField("text", tokens.status());
    }
    case Document::Form::kPrompt:
      return EncodePrompt(document);
    case Document::Form::kMessages:
      return EncodeMessages(document);
  }
  return absl::InternalError("unknown form of a document");
}

absl::Status DocumentEncoder::AddEnd(std::vector<int32_t>* tokens) const {
  if (format_.end.empty()) return absl::OkStatus();
  const std::optional<int32_t> end = format_.tokenizer->IdOf(format_.end);
  if (!end) {
    return absl::InvalidArgumentError(absl::StrCat("the tokenizer has no word '", format_.end,
                                                   "', which tokenizer_config.json gives as the "
                                                   "one that ends a text"));
  }
  if (tokens->empty() || tokens->back() != *end) tokens->push_back(*end);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> DocumentEncoder::EncodeText(const std::string& text) {
  std::vector<int32_t> tokens;
  if (text.empty()) return tokens;
  absl::Status status = encoder_.Append(text, SpecialTokens::kAdd, &tokens);
  if (status.ok()) status = AddEnd(&tokens);
  if (!status.ok()) return status;
  return tokens;
}

absl::StatusOr<std::vector<int32_t>> DocumentEncoder::EncodePrompt(const Document& document) {
  std::vector<int32_t> prompt;
  absl::Status status = encoder_.Append(document.text, SpecialTokens::kAdd, &prompt);
  if (!status.ok()) return InField("prompt", status);
  absl::StatusOr<std::vector<int32_t>> tokens = EncodeText(document.text + document.completion);
  if (!tokens.ok()) return InField("completion", tokens.status());
  if (loss_on_ == LossOn::kAssistant) DoNotCount(0, BorderOf(prompt, *tokens, 0), &*tokens);
  return tokens;
}

absl::StatusOr<std::vector<int32_t>> DocumentEncoder::EncodeMessages(const Document& document) {
  if (!format_.render_chat) {
    return InField("messages", absl::InvalidArgumentError(
                                   "the model's folder has no chat template; give one with "
                                   "--chat-template FILE"));
  }
  const absl::StatusOr<std::vector<ChatPiece>> pieces =
      format_.render_chat(document.conversation, loss_on_);
  if (!pieces.ok()) return InField("messages", pieces.status());
  std::string text;
  for (const ChatPiece& piece : *pieces) text += piece.text;
  std::vector<int32_t> tokens;
  std::vector<TokenPlace> places;
  absl::Status status = encoder_.Append(text, SpecialTokens::kLeaveOut, &tokens, &places);
  if (status.ok() && loss_on_ == LossOn::kAssistant) {
    status = LeaveOutPieces(*pieces, text, places, &tokens);
  }
  if (!status.ok()) return InField("messages", status);
  return tokens;
}

// A border between pieces lies where the tokens of all before it stop being those of the whole. Of all
// before it, those before the last place are known to be the same.
absl::Status DocumentEncoder::LeaveOutPieces(const std::vector<ChatPiece>& pieces,
                                             absl::string_view text,
                                             const std::vector<TokenPlace>& places,
                                             std::vector<int32_t>* tokens) {
  int64_t done = 0;
  size_t end = 0;
  TokenPlace last;  // that ends within the pieces so far
  auto next = places.begin();
  for (size_t i = 0; i < pieces.size(); ++i) {
    end += pieces[i].text.size();
    for (; next != places.end() && next->end <= end; ++next) last = *next;
    auto until = static_cast<int64_t>(tokens->size());
    if (i + 1 < pieces.size()) {
      std::vector<int32_t> before;
      absl::Status status = encoder_.Append(text.substr(last.begin, end - last.begin),
                                            SpecialTokens::kLeaveOut, &before);
      if (!status.ok()) return status;
      until = std::max(done, BorderOf(before, *tokens, done, last.at));
    }
    if (!pieces[i].counts) DoNotCount(done, until, tokens);
    done = until;
  }
  return absl::OkStatus();
}

}  // namespace sluice
