#include <omp.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "pipeline/sample/generate.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/sample/printable_text.h"

namespace sluice {
namespace {

constexpr char kExample[] =
    "Examples:\n"
    "  sluice sample --load out --prompt 'In the beginning' -n 400\n"
    "  sluice sample --load gpt2 --tokens 464,3290 -n 0 --logits logits.json";

struct SampleFlags {
  std::string load;
  std::string prompt;
  std::string tokens;
  int64_t count = 200;
  SamplingOptions sampling;
  int threads = 1;
  std::string logits;
  bool json = false;
};

struct Sample {
  std::vector<int32_t> tokens;  // the generated tokens
  double seconds = 0;
};

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

absl::StatusOr<std::vector<int32_t>> ParseTokens(const std::string& text) {
  std::vector<int32_t> tokens;
  for (const absl::string_view field : absl::StrSplit(text, ',')) {
    int32_t token = 0;
    if (!absl::SimpleAtoi(field, &token) || token < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--tokens ", text, ": '", field, "' is no token; expected numbers such as 464,3290,318"));
    }
    tokens.push_back(token);
  }
  return tokens;
}

// An empty prompt means the start of a line.
absl::StatusOr<std::vector<int32_t>> ReadPrompt(const SampleFlags& flags, const GptModel& model) {
  if (!flags.tokens.empty()) {
    if (!flags.prompt.empty()) {
      return absl::InvalidArgumentError(
          "--prompt and --tokens both say what to continue; give one");
    }
    return ParseTokens(flags.tokens);
  }
  if (!model.reads_bytes()) {
    return absl::InvalidArgumentError(absl::StrCat(
        model.path(), " has a vocabulary of ", model.config().vocab,
        " tokens that are not bytes, so it cannot read text; give --tokens 464,3290,..."));
  }
  const std::string text = flags.prompt.empty() ? "\n" : flags.prompt;
  std::vector<int32_t> tokens;
  for (char byte : text) tokens.push_back(static_cast<uint8_t>(byte));
  return tokens;
}

absl::Status WriteLogits(const std::string& path, GptModel& model,
                         const std::vector<int32_t>& tokens) {
  const absl::StatusOr<absl::Span<const float>> logits = model.Logits(tokens);
  if (!logits.ok()) return logits.status();
  const auto vocab = static_cast<size_t>(model.config().vocab);
  std::string text = absl::StrCat("{\"tokens\":[", absl::StrJoin(tokens, ","), "],\n\"logits\":[");
  for (size_t row = 0; row < tokens.size(); ++row) {
    absl::StrAppend(&text, row > 0 ? ",\n[" : "\n[",
                    absl::StrJoin(logits->subspan(row * vocab, vocab), ",",
                                  [](std::string* out, float logit) {
                                    // JSON has no NaN.
                                    if (std::isfinite(logit)) {
                                      absl::StrAppendFormat(out, "%.9g", logit);
                                    } else {
                                      out->append("null");
                                    }
                                  }),
                    "]");
  }
  return WriteOutput(path, absl::StrCat(text, "\n]}\n"));
}

void Show(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// Generates text and prints it as it is generated, after the prompt.
absl::StatusOr<Sample> Continue(const SampleFlags& flags, const std::vector<int32_t>& prompt,
                                GptModel& model) {
  const bool text = flags.tokens.empty() && !flags.json;
  Sample sample;
  PrintableText printable;
  const double start = Seconds();
  bool first = true;
  absl::Status status = Generate(model, prompt, flags.count, flags.sampling, [&](int32_t token) {
    sample.tokens.push_back(token);
    if (!text) return true;
    if (std::exchange(first, false)) Show(ToPrintable(flags.prompt));
    Show(printable.Feed(static_cast<uint8_t>(token)));
    return std::ferror(stdout) == 0;
  });
  if (!status.ok()) return status;
  if (text && !sample.tokens.empty()) Show(printable.Finish() + "\n");
  sample.seconds = Seconds() - start;
  return sample;
}

void PrintJson(const SampleFlags& flags, const std::vector<int32_t>& prompt, const Sample& sample,
               const GptModel& model) {
  nlohmann::ordered_json json = {{"model", model.path()}, {"prompt_tokens", prompt}};
  if (flags.tokens.empty()) {
    json["prompt"] = ToPrintable(flags.prompt);
    json["text"] = ToPrintable(std::string(sample.tokens.begin(), sample.tokens.end()));
  }
  json["tokens"] = sample.tokens;
  json["temperature"] = flags.sampling.temperature;
  json["top_k"] = flags.sampling.top_k;
  json["seed"] = flags.sampling.seed;
  json["seconds"] = sample.seconds;
  Show(json.dump() + "\n");
}

int RunSample(const SampleFlags& flags) {
  omp_set_num_threads(flags.threads);
  absl::StatusOr<std::unique_ptr<GptModel>> model = GptModel::Load(flags.load);
  if (!model.ok()) return Fail(model.status());
  absl::StatusOr<std::vector<int32_t>> prompt = ReadPrompt(flags, **model);
  if (!prompt.ok()) return Fail(prompt.status());
  if (!flags.logits.empty()) {
    if (absl::Status status = WriteLogits(flags.logits, **model, *prompt); !status.ok()) {
      return Fail(status);
    }
  }
  absl::StatusOr<Sample> sample = Continue(flags, *prompt, **model);
  if (!sample.ok()) return Fail(sample.status());
  if (flags.json) {
    PrintJson(flags, *prompt, *sample, **model);
  } else if (!flags.tokens.empty() && !sample->tokens.empty()) {
    Show(absl::StrCat(absl::StrJoin(sample->tokens, ","), "\n"));
  }
  if (std::ferror(stdout) != 0) {
    return Fail(absl::InvalidArgumentError("standard output: cannot write all of it"));
  }
  return kExitDone;
}

}  // namespace

void AddSampleCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("sample", "Continue text with a trained GPT");
  command->footer(kExample);
  auto flags = std::make_shared<SampleFlags>();
  command
      ->add_option(
          "--load", flags->load,
          "Directory that 'train --save' has written, or the folder of a Hugging Face GPT-2")
      ->required();
  command->add_option("--prompt", flags->prompt, "Text to continue (default: a new line)");
  command->add_option("--tokens", flags->tokens,
                      "Token ids to continue instead of a text, such as 464,3290");
  command->add_option("-n,--count", flags->count, "Number of tokens to generate")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--temperature", flags->sampling.temperature,
                   "0: always the most likely token; higher: more variety")
      ->check(FiniteNumber())
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--top-k", flags->sampling.top_k,
                   "Choose among this number of most likely tokens; 0: among all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--seed", flags->sampling.seed,
                   "Seed of the choice: the same seed gives the same text")
      ->check(WholeSeed())
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "Threads of the kernels")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--logits", flags->logits,
                      "File to which the logits of the prompt are written, as JSON");
  command->add_flag("--json", flags->json, "Print one JSON object instead of text");
  command->callback([flags, exit_code] { *exit_code = RunSample(*flags); });
}

}  // namespace sluice
