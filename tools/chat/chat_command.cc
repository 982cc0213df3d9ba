#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/tokens/encoder.h"
#include "pipeline/sample/generate.h"
#include "schedules/counted.h"
#include "tools/command.h"
#include "tools/sample/loaded_model.h"
#include "tools/sample/sampling_flags.h"
#include "tools/sample/shown_text.h"

namespace sluice {
namespace {

constexpr char kExample[] =
    "Each line of standard input is a message; /exit or the end of the input ends\n"
    "the talk. At a terminal, Ctrl-C ends an answer, and between answers the talk.\n"
    "Example:\n"
    "  echo 'What is a pipeline?' | sluice chat --load out --temperature 0";

struct ChatFlags {
  LoadFlags model;
  std::string chat_template;
  std::string system;
  int64_t context = 0;
  int64_t count = 512;
  SamplingOptions sampling = {};
  int stages = 1;
  int threads = 1;
};

volatile std::sig_atomic_t interrupted = 0;

// While it lives, the first Ctrl-C at a terminal sets `interrupted` instead of ending the program.
class CatchesInterrupt {
 public:
  explicit CatchesInterrupt(bool at_terminal) {
    interrupted = 0;
    if (!at_terminal) return;
    struct sigaction action = {};
    action.sa_handler = [](int) { interrupted = 1; };
    action.sa_flags = SA_RESTART | SA_RESETHAND | SA_ONSTACK;  // kernel_threads.h
    sigemptyset(&action.sa_mask);
    caught_ = sigaction(SIGINT, &action, &before_) == 0;
  }
  ~CatchesInterrupt() {
    if (caught_) sigaction(SIGINT, &before_, nullptr);
  }
  CatchesInterrupt(const CatchesInterrupt&) = delete;
  CatchesInterrupt& operator=(const CatchesInterrupt&) = delete;

 private:
  struct sigaction before_ = {};
  bool caught_ = false;
};

// A conversation, and the keys and values of its tokens so far.
class ChatSession {
 public:
  static absl::StatusOr<std::unique_ptr<ChatSession>> Begin(const ChatFlags& flags,
                                                            const LoadedModel& loaded) {
    std::unique_ptr<ChatSession> talk(new ChatSession(flags, loaded));
    constexpr int64_t kUsualContext = 4096;
    const int64_t max_seq = loaded.model->config().max_seq;
    if (flags.context > max_seq) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--context ", flags.context, ": ", loaded.model->path(), " takes 1 to ", max_seq));
    }
    auto model = loaded.model->MakeCached(
        {.positions = flags.context > 0 ? flags.context : std::min(max_seq, kUsualContext),
         .stages = flags.stages,
         .threads = flags.threads});
    if (!model.ok()) return model.status();
    talk->model_ = *std::move(model);
    absl::StatusOr<CachedSequence> sequence = talk->model_->NewSequence();
    if (!sequence.ok()) return sequence.status();
    talk->sequence_ = *std::move(sequence);
    if (!flags.system.empty()) talk->conversation_.messages.push_back({"system", flags.system});
    return talk;
  }

  // Shows the answer to `message` as it comes, as far as it comes before `interrupted` is set.
  absl::Status Answer(const std::string& message) {
    conversation_.messages.push_back({"user", message});
    absl::StatusOr<std::vector<int32_t>> tokens = PromptTokens();
    if (!tokens.ok()) return tokens.status();
    ShownText shown(loaded_);
    std::string answer;
    const auto show = [&answer](const std::string& text) {
      answer += text;
      std::fwrite(text.data(), 1, text.size(), stdout);
      std::fflush(stdout);
    };
    for (int64_t i = 0; i < flags_.count && std::ferror(stdout) == 0 && interrupted == 0; ++i) {
      absl::StatusOr<int32_t> token = Next(*tokens);
      if (!token.ok()) return token.status();
      const std::vector<int32_t>& stop = loaded_.stop;
      if (std::find(stop.begin(), stop.end(), *token) != stop.end()) break;
      tokens->push_back(*token);
      show(shown.Take(*token));
    }
    show(shown.Finish());
    conversation_.messages.push_back({"assistant", answer});
    std::fputc('\n', stdout);
    std::fflush(stdout);
    return absl::OkStatus();
  }

 private:
  ChatSession(const ChatFlags& flags, const LoadedModel& loaded) : flags_(flags), loaded_(loaded) {}

  absl::StatusOr<std::vector<int32_t>> PromptTokens() const {
    const absl::StatusOr<std::string> text = loaded_.text->format.render_prompt(conversation_);
    if (!text.ok()) return text.status();
    return Encode(*loaded_.text->tokenizer, *text, SpecialTokens::kLeaveOut);
  }

  // The token behind `tokens`: computes those that do not continue what is kept, the last one at
  // least.
  absl::StatusOr<int32_t> Next(absl::Span<const int32_t> tokens) {
    if (static_cast<int64_t>(tokens.size()) > model_->positions()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the conversation has ", Counted(tokens.size(), "token"), ", more than its context of ",
          model_->positions(), "; begin anew, or give a larger --context"));
    }
    std::vector<int32_t>& kept = sequence_.tokens;
    const size_t most = std::min(kept.size(), tokens.size() - 1);
    const auto same = std::mismatch(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(most),
                                    tokens.begin());
    kept.erase(same.first, kept.end());
    tokens.remove_prefix(kept.size());
    while (true) {
      tokens.remove_prefix(static_cast<size_t>(model_->Submit(sequence_, tokens, 1)));
      const absl::StatusOr<Piece> piece = model_->Wait();
      if (!piece.ok()) return piece.status();
      if (tokens.empty()) {
        return NextToken(*loaded_.model, piece->logits, flags_.sampling, drawn_++);
      }
    }
  }

  const ChatFlags& flags_;
  const LoadedModel& loaded_;
  Conversation conversation_;
  CachedSequence sequence_;
  std::unique_ptr<CachedModel> model_;
  uint64_t drawn_ = 0;
};

int RunChat(const ChatFlags& flags) {
  absl::StatusOr<LoadedModel> loaded = LoadModel(flags.model, flags.stages);
  if (!loaded.ok()) return Fail(loaded.status());
  if (absl::Status status = LoadText(flags.chat_template, &*loaded); !status.ok())
    return Fail(status);
  if (!loaded->text || !loaded->text->format.render_prompt) {
    return Fail(absl::InvalidArgumentError(absl::StrCat(
        loaded->model->path(), loaded->text ? " has no chat template" : " has no tokenizer.json",
        "; expected a folder with tokenizer.json and chat_template.jinja, or a chat_template in "
        "tokenizer_config.json",
        loaded->text ? "; or give --chat-template FILE" : "")));
  }
  const auto talk = ChatSession::Begin(flags, *loaded);
  if (!talk.ok()) return Fail(talk.status());
  const bool at_terminal = isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1;
  const auto read = [at_terminal](std::string* line) {
    if (at_terminal) std::fputs("> ", stdout);
    std::fflush(stdout);
    if (std::getline(std::cin, *line)) return *line != "/exit";
    if (at_terminal) std::fputc('\n', stdout);
    return false;
  };
  for (std::string line; read(&line);) {
    if (line.empty()) continue;
    const CatchesInterrupt caught(at_terminal);
    if (absl::Status status = (*talk)->Answer(line); !status.ok()) return Fail(status);
  }
  return std::ferror(stdout) == 0
             ? kExitDone
             : Fail(absl::InvalidArgumentError("standard output: cannot write all of it"));
}

}  // namespace

void AddChatCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("chat", "Talk with a trained model");
  command->footer(kExample);
  auto flags = std::make_shared<ChatFlags>();
  AddLoadFlags(*command, &flags->model);
  command->add_option("--chat-template", flags->chat_template,
                      "Jinja template of conversations instead of the folder's");
  command->add_option("--system", flags->system, "What the model is told before the talk");
  command
      ->add_option("--context", flags->context, "Most tokens of the talk (default: at most 4,096)")
      ->check(CLI::PositiveNumber);
  command->add_option("-n,--count", flags->count, "Most tokens of an answer")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  AddSamplingFlags(*command, "answers", &flags->sampling);
  command->add_option("--stages", flags->stages, "Threads that the layers are dealt to")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "Threads of each stage's kernels")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->callback([flags, exit_code] { *exit_code = RunChat(*flags); });
}

}  // namespace sluice
