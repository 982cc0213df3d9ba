// The readers of data, behind `--data`, `--chat-template` and `tokenize`.
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "fuzz_folder.h"
#include "models/data/corpora/token_file.h"
#include "models/data/documents/chat_template.h"
#include "models/data/documents/json_lines.h"
#include "models/tokens/tokenizer.h"
#include "promises.h"
#include "readers.h"

namespace sluice {
namespace {

constexpr int32_t kVocabulary = 50257;
constexpr int64_t kSeq = 16;

void RequireNamedRefusal(const absl::Status& error, const std::string& folder) {
  Require(absl::IsInvalidArgument(error) || absl::IsDataLoss(error), "bad input is named so");
  Require(absl::StartsWith(error.message(), folder + "/"), "an error begins with its file");
}

// Every token can be read, or is refused with the name of its file.
void RequireReadable(const TokenSource& source, const std::string& folder) {
  std::vector<int32_t> tokens(static_cast<size_t>(source.size()));
  const absl::Status status = source.Read(0, absl::MakeSpan(tokens));
  if (!status.ok()) return RequireNamedRefusal(status, folder);
  for (const int32_t token : tokens) {
    Require(token >= 0 && token < kVocabulary, "a token is one of the vocabulary");
  }
}

void RequireBoundaries(const std::vector<int64_t>& begins, int64_t tokens) {
  Require(!begins.empty() && begins.front() == 0 && begins.back() == tokens,
          "documents are all of the tokens");
  for (size_t i = 1; i < begins.size(); ++i) {
    Require(begins[i] >= begins[i - 1], "documents stand in their order");
  }
}

std::unique_ptr<const Tokenizer> SmallTokenizer() {
  auto tokenizer = Tokenizer::Load(
      R"({"added_tokens":[],"normalizer":null,"pre_tokenizer":null,"post_processor":null,)"
      R"("decoder":null,"model":{"type":"BPE","dropout":null,"unk_token":"?","fuse_unk":false,)"
      R"("continuing_subword_prefix":null,"end_of_word_suffix":null,"byte_fallback":false,)"
      R"("vocab":{"?":0,"a":1,"b":2," ":3,"ab":4,".":5},"merges":["a b"]}})",
      "tokenizer.json");
  Require(tokenizer.ok(), "the tokenizer of the fuzzer is one");
  return *std::move(tokenizer);
}

}  // namespace

void TryJsonLines(absl::string_view text) {
  static const FuzzFolder folder;
  static const std::unique_ptr<const Tokenizer> tokenizer = SmallTokenizer();
  TextFormat format = {.tokenizer = tokenizer.get(), .end = "."};
  format.render_chat = [](const Conversation& conversation, LossOn) {
    std::vector<ChatPiece> pieces;
    for (const ChatMessage& each : conversation.messages)
      pieces.push_back({each.content, each.role == "a"});
    return pieces;
  };
  const std::string path = folder.Write("input.jsonl", text);
  for (const LossOn loss_on : {LossOn::kAssistant, LossOn::kAll}) {
    const auto lines = ReadJsonLines({path}, format, {.loss_on = loss_on, .seq = kSeq});
    if (!lines.ok()) {
      RequireNamedRefusal(lines.status(), folder.path());
      return Require(absl::StrContains(lines.status().message(), ": line "),
                     "an error names its line");
    }
    const Documents& documents = lines->documents;
    RequireBoundaries(documents.begins, documents.tokens->size());
    Require(documents.count() + lines->without_target == lines->lines, "no line is lost");
  }
}

void TryTokenFile(absl::string_view text) {
  static const FuzzFolder folder;
  const std::string path = folder.Write("input.bin", text);
  const auto file = OpenTokenFile(path, kVocabulary);
  if (!file.ok()) return RequireNamedRefusal(file.status(), folder.path());
  RequireReadable(*file->tokens, folder.path());
}

void TryMegatronIndex(absl::string_view text) {
  static const FuzzFolder folder;
  // Some tokens of 0, in as many bytes as small indices ask for.
  for (const size_t bytes : {size_t{0}, size_t{12}, size_t{64}}) {
    folder.Write("input.idx", text);
    const std::string path = folder.Write("input.bin", std::string(bytes, '\0'));
    const auto file = OpenTokenFile(path, kVocabulary);
    if (!file.ok()) {
      RequireNamedRefusal(file.status(), folder.path());
      continue;
    }
    RequireBoundaries(file->documents, file->tokens->size());
    RequireReadable(*file->tokens, folder.path());
  }
}

// With limits that are soon reached: otherwise a few inputs that take a second each would be most
// of a search.
void TryChatTemplate(absl::string_view text) {
  const auto render = ParseChatTemplate(
      text, kFuzzedFile, {{"bos_token", "<s>"}, {"eos_token", "</s>"}},
      {.statements = 10'000, .text = size_t{1} << 20, .work = 10'000, .kept = 5'000});
  if (!render.ok()) return RequireRefusal(render.status());
  const nlohmann::ordered_json call = {
      {"role", "assistant"},
      {"content", nullptr},
      {"tool_calls",
       {{{"type", "function"},
         {"function", {{"name", "f"}, {"arguments", {{"x", {1, -2.5e-7, "\n"}}, {"y", {}}}}}}}}}};
  const std::vector<Conversation> chats = {
      {{{"user", "a"}, {"assistant", " b\n"}, {"user", "\u00e9"}, {"assistant", ""}}},
      {{{"system", "s"}, {"user", "{{ x }}"}, {"assistant", "b"}}},
      {{{"user", "a"}, {"assistant", "", call}, {"tool", "t"}}, {{{"name", "f"}}}}};
  for (const Conversation& chat : chats) {
    const auto prompt = render->prompt(chat);
    if (!prompt.ok()) RequireRefusal(prompt.status());
    for (const LossOn loss_on : {LossOn::kAssistant, LossOn::kAll}) {
      const auto pieces = render->chat(chat, loss_on);
      if (!pieces.ok()) {
        RequireRefusal(pieces.status());
        continue;
      }
      for (const ChatPiece& piece : *pieces) Require(!piece.text.empty(), "no piece is empty");
    }
  }
}

}  // namespace sluice
