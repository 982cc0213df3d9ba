#include <omp.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "models/files/positioned_file.h"
#include "models/spec/json_text.h"
#include "pipeline/sample/generate.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/sample/loaded_model.h"
#include "tools/sample/sampling_flags.h"
#include "tools/sample/shown_text.h"

namespace sluice {
namespace {

constexpr char kExample[] =
    "Examples:\n"
    "  sluice sample --load out --prompt 'In the beginning' -n 400\n"
    "  sluice sample --load gpt2 --tokens 464,3290 -n 0 --logits logits.json";

struct SampleFlags {
  LoadFlags model;
  std::vector<std::string> prompts;
  std::string prompts_file;
  std::string tokens;
  int stages = 1;
  int64_t count = 200;
  SamplingOptions sampling;
  int threads = 1;
  std::string logits;
  bool json = false;
};

struct Sample {
  std::vector<int32_t> tokens;  // the generated tokens
  std::string text;
  double seconds = 0;
};

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// An empty prompt means the start of a line.
absl::StatusOr<std::vector<std::vector<int32_t>>> ReadPrompts(SampleFlags& flags,
                                                              const LoadedModel& model) {
  std::vector<std::vector<int32_t>> prompts;
  if (!flags.tokens.empty()) {
    if (!flags.prompts.empty() || !flags.prompts_file.empty()) {
      return absl::InvalidArgumentError(
          "--prompt and --tokens both say what to continue; give one");
    }
    absl::StatusOr<std::vector<int32_t>> tokens = ParseTokens(flags.tokens);
    if (!tokens.ok()) return tokens.status();
    prompts.push_back(*std::move(tokens));
    return prompts;
  }
  if (!flags.prompts_file.empty()) {
    const absl::StatusOr<std::string> file = ReadWholeFile(flags.prompts_file, kMostTextBytes);
    if (!file.ok()) return file.status();
    const size_t before = flags.prompts.size();
    for (const absl::string_view line : absl::StrSplit(*file, '\n')) {
      const absl::string_view text = absl::StripSuffix(line, "\r");  // as Windows ends lines
      if (!text.empty()) flags.prompts.emplace_back(text);
    }
    if (flags.prompts.size() == before) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--prompts ", flags.prompts_file, ": has no text to continue; expected one on a line"));
    }
  }
  if (flags.prompts.empty()) flags.prompts.emplace_back();
  for (const std::string& prompt : flags.prompts) {
    absl::StatusOr<std::vector<int32_t>> tokens = TokensOf(model, prompt.empty() ? "\n" : prompt);
    if (!tokens.ok()) return tokens.status();
    prompts.push_back(*std::move(tokens));
  }
  return prompts;
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

// Generates texts, one prompt's or all, and prints a single one as it comes, after its prompt.
absl::StatusOr<std::vector<Sample>> Continue(const SampleFlags& flags,
                                             const std::vector<std::vector<int32_t>>& prompts,
                                             const LoadedModel& model) {
  const bool stream = flags.tokens.empty() && !flags.json && prompts.size() == 1;
  std::vector<Sample> samples(prompts.size());
  std::deque<ShownText> shown;  // which cannot move
  for (size_t prompt = 0; prompt < prompts.size(); ++prompt) shown.emplace_back(model);
  const double start = Seconds();
  if (stream && flags.count > 0) Show(ToPrintable(flags.prompts.front()));
  absl::Status status = GenerateAll(*model.model, prompts,
                                    {.count = flags.count,
                                     .sampling = flags.sampling,
                                     .stop = model.stop,
                                     .stages = flags.stages,
                                     .threads = flags.threads},
                                    [&](size_t prompt, int32_t token) {
                                      samples[prompt].tokens.push_back(token);
                                      const std::string text = shown[prompt].Take(token);
                                      samples[prompt].text += text;
                                      if (stream) Show(text);
                                      return std::ferror(stdout) == 0;
                                    });
  if (!status.ok()) return status;
  for (size_t prompt = 0; prompt < prompts.size(); ++prompt) {
    const std::string rest = shown[prompt].Finish();
    samples[prompt].text += rest;
    samples[prompt].seconds = Seconds() - start;
    if (stream && flags.count > 0) Show(rest + "\n");
  }
  return samples;
}

// An object a prompt, a line each.
void PrintJson(const SampleFlags& flags, const std::vector<std::vector<int32_t>>& prompts,
               const std::vector<Sample>& samples, const GptModel& model) {
  for (size_t prompt = 0; prompt < prompts.size(); ++prompt) {
    nlohmann::ordered_json json = {{"model", model.path()}, {"prompt_tokens", prompts[prompt]}};
    if (flags.tokens.empty()) {
      json["prompt"] = ToPrintable(flags.prompts[prompt]);
      json["text"] = samples[prompt].text;
    }
    json["tokens"] = samples[prompt].tokens;
    json["temperature"] = flags.sampling.temperature;
    json["top_k"] = flags.sampling.top_k;
    json["top_p"] = flags.sampling.top_p;
    json["seed"] = flags.sampling.seed;
    json["seconds"] = samples[prompt].seconds;
    Show(JsonText(json) + "\n");
  }
}

void PrintTexts(const SampleFlags& flags, const std::vector<Sample>& samples) {
  if (!flags.tokens.empty()) {
    const std::vector<int32_t>& tokens = samples.front().tokens;
    if (!tokens.empty()) Show(absl::StrCat(absl::StrJoin(tokens, ","), "\n"));
    return;
  }
  if (samples.size() == 1) return;  // shown as it came
  for (size_t prompt = 0; prompt < samples.size(); ++prompt) {
    Show(absl::StrCat(prompt > 0 ? "\n" : "", ToPrintable(flags.prompts[prompt]),
                      samples[prompt].text, "\n"));
  }
}

int RunSample(SampleFlags& flags) {
  omp_set_num_threads(flags.threads);
  absl::StatusOr<LoadedModel> model = LoadModel(flags.model, flags.stages);
  if (!model.ok()) return Fail(model.status());
  // Tokens in, tokens out: no text is read or shown.
  if (flags.tokens.empty()) {
    if (absl::Status status = LoadText("", &*model); !status.ok()) return Fail(status);
  }
  const auto prompts = ReadPrompts(flags, *model);
  if (!prompts.ok()) return Fail(prompts.status());
  if (!flags.logits.empty()) {
    if (prompts->size() > 1) {
      return Fail(absl::InvalidArgumentError(
          absl::StrCat("--logits ", flags.logits, ": ", prompts->size(), " prompts are given, and ",
                       "the file has the logits of one; expected one prompt with --logits")));
    }
    absl::Status status = WriteLogits(flags.logits, *model->model, prompts->front());
    if (!status.ok()) return Fail(status);
  }
  const absl::StatusOr<std::vector<Sample>> samples = Continue(flags, *prompts, *model);
  if (!samples.ok()) return Fail(samples.status());
  if (flags.json) {
    PrintJson(flags, *prompts, *samples, *model->model);
  } else {
    PrintTexts(flags, *samples);
  }
  if (std::ferror(stdout) != 0) {
    return Fail(absl::InvalidArgumentError("standard output: cannot write all of it"));
  }
  return kExitDone;
}

}  // namespace

void AddSampleCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("sample", "Continue text with a trained language model");
  command->footer(kExample);
  auto flags = std::make_shared<SampleFlags>();
  AddLoadFlags(*command, &flags->model);
  command
      ->add_option("--prompt", flags->prompts,
                   "Text to continue (default: a new line); given again: several texts")
      ->allow_extra_args(false);
  command->add_option("--prompts", flags->prompts_file,
                      "File with a text to continue on each line");
  command->add_option("--tokens", flags->tokens,
                      "Token ids to continue instead of a text, such as 464,3290; the tokenizer is "
                      "not read then");
  command->add_option("-n,--count", flags->count, "Number of tokens to generate")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  AddSamplingFlags(*command, "text", &flags->sampling);
  command
      ->add_option("--stages", flags->stages,
                   "Threads that the layers are dealt to; they compute several texts at a time")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "Threads of each stage's kernels")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--logits", flags->logits,
                      "File to which the logits of the one prompt are written, as JSON");
  command->add_flag("--json", flags->json, "Print one JSON object instead of text");
  command->callback([flags, exit_code] { *exit_code = RunSample(*flags); });
}

}  // namespace sluice
