#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/data/open_dataset.h"
#include "models/spec/json_text.h"
#include "pipeline/sample/score.h"
#include "schedules/counted.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/sample/loaded_model.h"

namespace sluice {
namespace {

constexpr char kExample[] =
    "The loss is the mean of -log p over the tokens that count, the perplexity e to\n"
    "the loss. Each document of --data is scored by itself; text and tokens are cut\n"
    "into windows of --seq, and what is shorter than a window is left out.\n"
    "Examples:\n"
    "  sluice score --load gpt2 --tokens 464,3290,318 --json\n"
    "  sluice score --load out --data chats.jsonl --stages 2";

struct ScoreFlags {
  LoadFlags model;
  std::string tokens;
  std::string data;
  std::string chat_template;
  int64_t seq = 0;
  int stages = 1;
  int threads = 1;
  bool json = false;
};

// The sum of what was predicted so far.
struct Total {
  int64_t tokens = 0;
  double loss = 0;
  double mean() const { return loss / static_cast<double>(tokens); }
};

// A model ready to score texts of up to `positions` tokens.
class Scorer {
 public:
  static absl::StatusOr<Scorer> Make(const GptModel& model, const ScoreFlags& flags,
                                     int64_t positions) {
    Scorer scorer(model, flags.stages);
    absl::StatusOr<std::unique_ptr<CachedModel>> cached = model.MakeCached(
        {.positions = positions, .stages = flags.stages, .threads = flags.threads});
    if (!cached.ok()) return cached.status();
    scorer.cached_ = *std::move(cached);
    absl::StatusOr<CachedSequence> sequence = scorer.cached_->NewSequence();
    if (!sequence.ok()) return sequence.status();
    scorer.sequence_ = *std::move(sequence);
    return scorer;
  }

  // log p of targets[i] behind tokens 0 to i, NaN where it is kNoTarget.
  absl::StatusOr<std::vector<double>> Score(absl::Span<const int32_t> tokens,
                                            absl::Span<const int32_t> targets) {
    std::vector<double> logprobs(tokens.size(), std::nan(""));
    const auto vocab = static_cast<size_t>(model_->config().vocab);
    bool finite = true;
    const auto take = [&](int64_t first, absl::Span<const float> logits) {
      for (size_t row = 0; row * vocab < logits.size(); ++row) {
        const size_t at = static_cast<size_t>(first) + row;
        if (targets[at] < 0) continue;
        logprobs[at] = LogProbability(logits.subspan(row * vocab, vocab), targets[at]);
        finite = finite && std::isfinite(logprobs[at]);
      }
    };
    absl::Status status = ForwardText(*cached_, sequence_, tokens, stages_, take);
    if (!status.ok()) return status;
    if (finite) return logprobs;
    return absl::InvalidArgumentError(
        absl::StrCat(model_->path(), ": its logits are not finite, so its weights are of no use"));
  }

 private:
  Scorer(const GptModel& model, int stages) : model_(&model), stages_(stages) {}

  const GptModel* model_;
  int stages_;
  CachedSequence sequence_;
  std::unique_ptr<CachedModel> cached_;  // dies first: its threads may use the sequence
};

int Print(const ScoreFlags& flags, nlohmann::ordered_json json, const Total& total) {
  json["loss"] = total.mean();
  json["perplexity"] = std::exp(total.mean());
  const std::string text =
      flags.json ? absl::StrCat(JsonText(json), "\n")
                 : absl::StrFormat("tokens      %d\nloss        %.6f\nperplexity  %.4f\n",
                                   total.tokens, total.mean(), std::exp(total.mean()));
  const absl::Status status = WriteOutput("", text);
  return status.ok() ? kExitDone : Fail(status);
}

int ScoreTokens(const ScoreFlags& flags, const GptModel& model) {
  const absl::StatusOr<std::vector<int32_t>> tokens = ParseTokens(flags.tokens);
  if (!tokens.ok()) return Fail(tokens.status());
  const auto most = static_cast<size_t>(model.config().max_seq);
  if (tokens->size() < 2 || tokens->size() > most + 1) {
    return Fail(absl::InvalidArgumentError(absl::StrCat(
        "--tokens has ", Counted(tokens->size(), "token"), "; expected 2 to ", most + 1)));
  }
  if (absl::Status status = model.CheckTokens(*tokens); !status.ok()) return Fail(status);
  const absl::Span<const int32_t> all = *tokens;
  absl::StatusOr<Scorer> scorer = Scorer::Make(model, flags, static_cast<int64_t>(all.size()) - 1);
  if (!scorer.ok()) return Fail(scorer.status());
  const auto logprobs = scorer->Score(all.first(all.size() - 1), all.subspan(1));
  if (!logprobs.ok()) return Fail(logprobs.status());
  Total total;
  for (const double logprob : *logprobs) total.loss -= logprob;
  total.tokens = static_cast<int64_t>(logprobs->size());
  return Print(flags, {{"tokens", *tokens}, {"logprobs", *logprobs}}, total);
}

// All windows in their order: those of a validation split are not shuffled.
absl::StatusOr<std::unique_ptr<Dataset>> OpenData(const ScoreFlags& flags,
                                                  const LoadedModel& loaded, int64_t seq) {
  return OpenDataset({.path = flags.data,
                      .seq = seq,
                      .vocabulary = static_cast<int32_t>(loaded.model->config().vocab),
                      .validation = {.path = flags.data},
                      .text = loaded.text ? &loaded.text->format : nullptr,
                      .loss_on = LossOn::kAssistant,
                      .threads = flags.threads});
}

// The documents of one window, each as a text of its own.
absl::Status ScoreWindow(const Dataset& data, int64_t index, Scorer& scorer, Total* total) {
  const auto seq = static_cast<size_t>(data.input_size());
  std::vector<int32_t> tokens(seq), targets(seq), starts(seq);
  data.Fill(Split::kValidation, index, 1, DType::kInt32,
            {.input = tokens.data(), .targets = targets.data(), .starts = starts.data()});
  if (!data.status().ok()) return data.status();
  for (size_t begin = 0, end = 0; begin < seq; begin = end) {
    for (end = begin + 1; end < seq && starts[end] == starts[begin];) ++end;
    const auto of = [begin, end](const std::vector<int32_t>& values) {
      return absl::MakeConstSpan(values).subspan(begin, end - begin);
    };
    if (std::all_of(of(targets).begin(), of(targets).end(), [](int32_t t) { return t < 0; })) {
      continue;
    }
    const absl::StatusOr<std::vector<double>> logprobs = scorer.Score(of(tokens), of(targets));
    if (!logprobs.ok()) return logprobs.status();
    for (const double logprob : *logprobs) {
      if (std::isnan(logprob)) continue;
      total->loss -= logprob;
      ++total->tokens;
    }
  }
  return absl::OkStatus();
}

int ScoreData(const ScoreFlags& flags, const LoadedModel& loaded) {
  const GptModel& model = *loaded.model;
  if (flags.seq > model.config().max_seq) {
    return Fail(absl::InvalidArgumentError(absl::StrCat("--seq ", flags.seq, ": ", model.path(),
                                                        " takes 1 to ", model.config().max_seq)));
  }
  constexpr int64_t kUsualWindow = 1024;
  const int64_t seq = flags.seq > 0 ? flags.seq : std::min(model.config().max_seq, kUsualWindow);
  const auto data = OpenData(flags, loaded, seq);
  if (!data.ok()) return Fail(data.status());
  if ((*data)->input_dtype() != DType::kInt32 || (*data)->classes() > model.config().vocab) {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("--data ", flags.data, ": ", (*data)->description(),
                     "; expected tokens of the model's vocabulary of ", model.config().vocab)));
  }
  absl::StatusOr<Scorer> scorer = Scorer::Make(model, flags, seq);
  if (!scorer.ok()) return Fail(scorer.status());
  Total total;
  for (int64_t index = 0; index < (*data)->samples(Split::kValidation); ++index) {
    const absl::Status status = ScoreWindow(**data, index, *scorer, &total);
    if (!status.ok()) return Fail(status);
  }
  for (const std::string& note : (*data)->notes()) PrintNotice(note);
  if (total.tokens == 0) {
    return Fail(absl::InvalidArgumentError(
        absl::StrCat("--data ", flags.data, ": no token of it counts, so there is no loss")));
  }
  return Print(flags, {{"tokens", total.tokens}}, total);
}

int RunScore(const ScoreFlags& flags) {
  if (flags.tokens.empty() == flags.data.empty()) {
    return Fail(absl::InvalidArgumentError(
        "what is to be scored? give --tokens 464,3290,... or --data PATH, one of them"));
  }
  absl::StatusOr<LoadedModel> loaded = LoadModel(flags.model, flags.stages);
  if (!loaded.ok()) return Fail(loaded.status());
  if (flags.data.empty()) return ScoreTokens(flags, *loaded->model);
  if (absl::Status status = LoadText(flags.chat_template, &*loaded); !status.ok())
    return Fail(status);
  return ScoreData(flags, *loaded);
}

}  // namespace

void AddScoreCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("score", "Say how likely a model finds a text");
  command->footer(kExample);
  auto flags = std::make_shared<ScoreFlags>();
  AddLoadFlags(*command, &flags->model);
  command->add_option("--tokens", flags->tokens, "Token ids, such as 464,3290");
  command->add_option("--data", flags->data, "Text, tokens or JSON lines, as 'train' reads them");
  command->add_option("--chat-template", flags->chat_template,
                      "Jinja template of conversations instead of the folder's");
  command->add_option("--seq", flags->seq, "Tokens of a window of --data (default: at most 1,024)")
      ->check(CLI::PositiveNumber);
  command->add_option("--stages", flags->stages, "Threads that the layers are dealt to")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "Threads of each stage's kernels")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print one JSON object instead of text");
  command->callback([flags, exit_code] { *exit_code = RunScore(*flags); });
}

}  // namespace sluice
