#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "models/tokens/encoder.h"
#include "models/tokens/tokenizer.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/tokenize/token_file.h"

namespace sluice {
namespace {

constexpr char kExample[] =
    "The tokens are those of Hugging Face's tokenizers, with the special tokens that the\n"
    "tokenizer puts around a text. Without -o and --json they are printed with spaces between.\n"
    "-o writes them without a header: 16 bits each where the vocabulary has at most 65,536 words,\n"
    "else 32 bits, little-endian.\n"
    "Examples:\n"
    "  sluice tokenize --tokenizer llama --data text.txt -o text.bin\n"
    "  echo 'In the beginning' | sluice tokenize --tokenizer gpt2/tokenizer.json --data - --json";

struct TokenizeFlags {
  std::string tokenizer;
  std::string data;
  std::string output;
  bool chat = false;
  bool no_special_tokens = false;
  bool json = false;
};

// What is asked for, read from the flags once.
struct TokenizeQuestion {
  std::unique_ptr<const Tokenizer> tokenizer;
  std::string text;
  std::string text_name;
  SpecialTokens special = SpecialTokens::kAdd;
};

absl::StatusOr<std::unique_ptr<const Tokenizer>> ReadTokenizer(const std::string& path) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  const std::string file =
      is_folder ? (std::filesystem::path(path) / "tokenizer.json").string() : path;
  const absl::StatusOr<std::string> json = ReadFile(file);
  if (!json.ok()) return json.status();
  return Tokenizer::Load(*json, file);
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  if (path == "-") return ReadFile("/dev/stdin");
  for (const absl::string_view ending : {".bin", ".idx", ".jsonl"}) {
    if (!absl::EndsWithIgnoreCase(path, ending)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "--data ", path, ": a ", ending, " file holds ",
        ending == ".jsonl" ? "JSON, whose marks would become tokens too" : "tokens already",
        "; expected text in UTF-8"));
  }
  return ReadFile(path);
}

absl::StatusOr<TokenizeQuestion> ReadQuestion(const TokenizeFlags& flags) {
  if (flags.chat) {
    return absl::InvalidArgumentError(
        "--chat is not supported yet: it needs the chat template of the model; give the text as "
        "the template writes it, with its special tokens");
  }
  TokenizeQuestion question;
  absl::StatusOr<std::unique_ptr<const Tokenizer>> tokenizer = ReadTokenizer(flags.tokenizer);
  if (!tokenizer.ok()) return tokenizer.status();
  question.tokenizer = *std::move(tokenizer);
  absl::StatusOr<std::string> text = ReadText(flags.data);
  if (!text.ok()) return text.status();
  question.text = *std::move(text);
  question.text_name = flags.data == "-" ? "standard input" : flags.data;
  if (flags.no_special_tokens) question.special = SpecialTokens::kLeaveOut;
  return question;
}

std::string Summary(const TokenizeQuestion& question, size_t tokens, const std::string& path) {
  const Tokenizer& tokenizer = *question.tokenizer;
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
  Encoder encoder(*question.tokenizer);
  absl::Status status = encoder.Append(question.text, question.special, &tokens);
  if (!status.ok()) {
    return absl::Status(status.code(), absl::StrCat(question.text_name, ": ", status.message()));
  }
  if (!output.empty()) {
    absl::Status written = WriteTokens(output, tokens, question.tokenizer->vocabulary_size());
    if (!written.ok()) return written;
  }
  if (json)
    return WriteOutput("", absl::StrCat("{\"tokens\":[", absl::StrJoin(tokens, ","), "]}\n"));
  if (!output.empty()) return WriteOutput("", Summary(question, tokens.size(), output));
  return WriteOutput("", absl::StrCat(absl::StrJoin(tokens, " "), "\n"));
}

int RunTokenize(const TokenizeFlags& flags) {
  const absl::StatusOr<TokenizeQuestion> question = ReadQuestion(flags);
  if (!question.ok()) return Fail(question.status());
  absl::Status status = Answer(*question, flags.output, flags.json);
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
  command->add_flag("--no-special-tokens", flags->no_special_tokens,
                    "Leave out what the tokenizer puts around a text, such as <s>");
  command->add_flag("--chat", flags->chat, "Not supported yet");
  command->add_flag("--json", flags->json, "Print one JSON document: {\"tokens\": [...]}");
  command->callback([flags, exit_code] { *exit_code = RunTokenize(*flags); });
}

}  // namespace sluice
