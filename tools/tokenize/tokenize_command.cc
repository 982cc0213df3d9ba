#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "models/data/data_files.h"
#include "models/data/documents/document_encoder.h"
#include "models/data/documents/documents.h"
#include "models/files/positioned_file.h"
#include "models/tokens/encoder.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/tokenize/text_model.h"
#include "tools/tokenize/token_file.h"

namespace sluice {
namespace {

constexpr char kExample[] =
    "The tokens are those of Hugging Face's tokenizers, with the special tokens that\n"
    "the tokenizer puts around a text. Without -o and --json they are printed with\n"
    "spaces between. -o writes them without a header: 16 bits each where the\n"
    "vocabulary has at most 65,536 words, else 32 bits, little-endian.\n"
    "Examples:\n"
    "  sluice tokenize --tokenizer llama --data text.txt -o text.bin\n"
    "  echo 'In the beginning' | sluice tokenize --tokenizer gpt2 --data - --json";

struct TokenizeFlags {
  std::string tokenizer;
  std::string data;
  std::string output;
  std::string chat_template;
  bool chat = false;
  bool no_special_tokens = false;
  bool json = false;
};

// What is asked for, read from the flags once.
struct TokenizeQuestion {
  TextModel model;
  std::string text;
  std::string text_name;
  SpecialTokens special = SpecialTokens::kAdd;
};

absl::StatusOr<std::string> ReadText(const std::string& path, bool chat) {
  if (path == "-") return ReadStandardInput();
  for (const absl::string_view ending : {".bin", ".idx", ".jsonl"}) {
    if (!absl::EndsWithIgnoreCase(path, ending) || (chat && ending == ".jsonl")) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--data ", path, ": a ", ending, " file holds ",
        ending == ".jsonl" ? "JSON, whose marks would become tokens too" : "tokens already",
        "; expected text in UTF-8", ending == ".jsonl" ? "; --chat reads the documents" : ""));
  }
  if (absl::Status status = CheckIsNoJsonArray(path); !status.ok()) return status;
  return ReadWholeFile(path, kMostTextBytes);
}

absl::StatusOr<TokenizeQuestion> ReadQuestion(const TokenizeFlags& flags) {
  TokenizeQuestion question;
  absl::StatusOr<TextModel> model = ReadTextModel(flags.tokenizer, flags.chat_template);
  if (!model.ok()) return model.status();
  question.model = *std::move(model);
  absl::StatusOr<std::string> text = ReadText(flags.data, flags.chat);
  if (!text.ok()) return text.status();
  question.text = *std::move(text);
  question.text_name = flags.data == "-" ? "standard input" : flags.data;
  if (flags.no_special_tokens) question.special = SpecialTokens::kLeaveOut;
  return question;
}

std::string Summary(const TokenizeQuestion& question, size_t tokens, const std::string& path) {
  const Tokenizer& tokenizer = *question.model.tokenizer;
  const double each = tokens == 0 ? 0 : double(question.text.size()) / double(tokens);
  return absl::StrFormat(
      "tokens      %d from %d bytes, %.2f bytes per token\n"
      "vocabulary  %d words\n"
      "saved       %s, %d bytes per token\n",
      tokens, question.text.size(), each, tokenizer.vocabulary_size(), path,
      TokenBytes(tokenizer.vocabulary_size()));
}

absl::Status Answer(const TokenizeQuestion& question, const std::string& output, bool json) {
  std::vector<int32_t> tokens;
  Encoder encoder(*question.model.tokenizer);
  absl::Status status = encoder.Append(question.text, question.special, &tokens);
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat(question.text_name, ": ", status.message()));
  }
  if (!output.empty()) {
    absl::Status written = WriteTokens(output, tokens, question.model.tokenizer->vocabulary_size());
    if (!written.ok()) return written;
  }
  if (json)
    return WriteOutput("", absl::StrCat("{\"tokens\":[", absl::StrJoin(tokens, ","), "]}\n"));
  if (!output.empty()) return WriteOutput("", Summary(question, tokens.size(), output));
  return WriteOutput("", absl::StrCat(absl::StrJoin(tokens, " "), "\n"));
}

// The documents of JSON lines, apart; -o gets their tokens one after another.
absl::Status AnswerChat(const TokenizeQuestion& question, const std::string& output, bool json) {
  DocumentEncoder encoder(question.model.format, LossOn::kAssistant);
  std::vector<int32_t> all;
  std::vector<std::string> documents;
  int64_t number = 0;
  for (const absl::string_view line : absl::StrSplit(question.text, '\n')) {
    ++number;
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    const absl::StatusOr<Document> document = ParseDocument(line);
    absl::StatusOr<std::vector<int32_t>> tokens =
        document.ok() ? encoder.Encode(*document) : document.status();
    if (!tokens.ok()) {
      return absl::Status(
          tokens.status().code(),
          absl::StrCat(question.text_name, ": line ", number, ", ", tokens.status().message()));
    }
    std::string mask;
    for (int32_t& token : *tokens) {
      absl::StrAppend(&mask, mask.empty() ? "" : ",", token < 0 ? 0 : 1);
      token = IdOfToken(token);
    }
    all.insert(all.end(), tokens->begin(), tokens->end());
    documents.push_back(json ? absl::StrCat("{\"tokens\":[", absl::StrJoin(*tokens, ","),
                                            "],\"mask\":[", mask, "]}")
                             : absl::StrCat(absl::StrJoin(*tokens, " "), "\n"));
  }
  if (!output.empty()) {
    absl::Status written = WriteTokens(output, all, question.model.tokenizer->vocabulary_size());
    if (!written.ok()) return written;
  }
  if (json) {
    return WriteOutput("", absl::StrCat("{\"documents\":[", absl::StrJoin(documents, ","), "]}\n"));
  }
  if (!output.empty()) return WriteOutput("", Summary(question, all.size(), output));
  return WriteOutput("", absl::StrJoin(documents, ""));
}

int RunTokenize(const TokenizeFlags& flags) {
  const absl::StatusOr<TokenizeQuestion> question = ReadQuestion(flags);
  if (!question.ok()) return Fail(question.status());
  absl::Status status = flags.chat ? AnswerChat(*question, flags.output, flags.json)
                                   : Answer(*question, flags.output, flags.json);
  return status.ok() ? kExitDone : Fail(status);
}

}  // namespace

void AddTokenizeCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("tokenize", "Turn text into a model's tokens");
  command->footer(kExample);
  auto flags = std::make_shared<TokenizeFlags>();
  command
      ->add_option("--tokenizer", flags->tokenizer,
                   "A tokenizer.json, or the Hugging Face folder that it is in")
      ->required();
  command->add_option("--data", flags->data, "Text in UTF-8; -: standard input")->required();
  command->add_option("-o,--output", flags->output, "Write the tokens to this .bin file");
  CLI::Option* const no_special =
      command->add_flag("--no-special-tokens", flags->no_special_tokens,
                        "Leave out what the tokenizer puts around a text, such as <s>");
  // Of JSON lines the tokens are those that are trained on.
  command
      ->add_flag("--chat", flags->chat,
                 "The data are JSON lines with text, prompt and completion, or messages, which "
                 "the chat template turns into text")
      ->excludes(no_special);
  command
      ->add_option("--chat-template", flags->chat_template,
                   "A file with the chat template, instead of the one beside the tokenizer")
      ->needs("--chat");
  command->add_flag("--json", flags->json,
                    "Print one JSON document: {\"tokens\": [...]}, or with --chat {\"documents\": "
                    "[{\"tokens\": [...], \"mask\": [...]}]}, the mask 1 where the loss counts");
  command->callback([flags, exit_code] { *exit_code = RunTokenize(*flags); });
}

}  // namespace sluice
