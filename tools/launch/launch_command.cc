#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "comm/membership/core_set.h"
#include "comm/tcp/greeting_proof.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/launch/picture/quiet_run.h"
#include "tools/launch/picture/run_picture.h"
#include "tools/launch/supervisor.h"

namespace sluice {
namespace {

constexpr char kExample[] =
    "A process that is lost is replaced; the others keep what they hold and go on\n"
    "with it, from memory where the whole state of the last step is left, else from\n"
    "the newest checkpoint. The losses and the final weights are those of a run that\n"
    "nothing happened to.\n"
    "\n"
    "Signals: SIGINT and SIGTERM save and end the run after its step. SIGUSR1 adds a\n"
    "process, SIGUSR2 lets one leave if --min-ranks stay, and SIGTERM to a process\n"
    "lets that one leave. It first gives what it holds to the others. SIGTERM to all\n"
    "of them, as batch systems send it, is one to the run.\n"
    "\n"
    "Examples:\n"
    "  sluice launch --processes 2 -- train --data bible.txt --stages 2 --save out\n"
    "  sluice launch --processes 4 --min-ranks 2 --max-restarts 10 -- train \\\n"
    "      --data bible.txt --stages auto --data-parallel auto --micro-batches 12 \\\n"
    "      --save out --save-every 50";

struct LaunchCommandFlags {
  int processes = 0;
  int min_ranks = 0;  // 0: as many as processes
  int max_restarts = 3;
  bool no_replan = false;
  std::string picture, beside;
  std::vector<std::string> command;
};

// Whether the help of what is to be launched is asked for, which takes no processes.
bool AsksForHelp(const std::vector<std::string>& words) {
  return words.front() == "train" && std::any_of(words.begin(), words.end(), [](const auto& word) {
           return word == "--help" || word == "-h";
         });
}

// Whether --json is among the words, or --json=true, which `sluice train` takes for the same. The
// last one counts.
bool AsksForJson(const std::vector<std::string>& words) {
  bool asks = false;
  for (absl::string_view word : words) {
    if (!absl::ConsumePrefix(&word, "--json")) continue;
    if (word.empty()) asks = true;
    // What is no truth value is refused by the processes.
    if (absl::ConsumePrefix(&word, "=")) CLI::detail::lexical_cast(std::string(word), asks);
  }
  return asks;
}

absl::StatusOr<int> Launch(const LaunchCommandFlags& flags) {
  if (flags.command.front() != "train") {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", flags.command.front(), "' cannot be launched; expected -- train and its flags"));
  }
  if (flags.min_ranks > flags.processes) {
    return absl::InvalidArgumentError(absl::StrCat("--min-ranks ", flags.min_ranks,
                                                   " is more than --processes ", flags.processes));
  }
  QuietRun quiet;
  if (!flags.beside.empty()) {
    absl::StatusOr<QuietRun> read = ReadQuietRun(flags.beside);
    if (!read.ok()) return read.status();
    quiet = *std::move(read);
  }
  if (!flags.picture.empty()) {
    if (absl::Status status = CheckOutput(flags.picture); !status.ok()) return status;
  }
  const absl::StatusOr<Nonce> secret = DrawNonce();
  if (!secret.ok()) return secret.status();
  SuperviseRequest request;
  request.roster.processes = flags.processes;
  request.roster.min_ranks = flags.min_ranks > 0 ? flags.min_ranks : flags.processes;
  request.roster.max_restarts = flags.max_restarts;
  request.roster.replans = !flags.no_replan;
  request.roster.cores = UsableCores();
  request.roster.secret =
      absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(secret->data()), 12));
  request.arguments = {"sluice"};
  request.arguments.insert(request.arguments.end(), flags.command.begin(), flags.command.end());
  request.json = AsksForJson(flags.command);
  if (flags.picture.empty()) return Supervise(request);
  LaunchHistory history;
  const int exit_code = Supervise(request, &history);
  // Also of a run that has failed: it may say why.
  const absl::Status drawn = WriteOutput(flags.picture, DrawRun(history, quiet));
  return drawn.ok() || exit_code != kExitDone ? exit_code : Fail(drawn);
}

}  // namespace

void AddLaunchCommand(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("launch", "Train in several processes, replacing lost ones");
  command->footer(kExample);
  auto flags = std::make_shared<LaunchCommandFlags>();
  command->add_option("--processes", flags->processes, "Processes, each of them a rank")
      ->check(CLI::Range(1, 4096))
      ->required();
  command
      ->add_option("--min-ranks", flags->min_ranks,
                   "Go on with fewer processes, but not with fewer than these, while others are "
                   "started or where no more may be (default: as many as --processes)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--max-restarts", flags->max_restarts,
                   "How many processes may be started in place of lost ones")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_flag("--no-replan", flags->no_replan,
                    "Keep each rank's layers and timetable, also where a rank stays slower than "
                    "planned");
  CLI::Option* const picture = command->add_option(
      "--picture", flags->picture,
      "Draw who was there, what was decided when, and the losses: an SVG, written at the end");
  command
      ->add_option("--beside", flags->beside,
                   "Compare with another run in the picture: the output of train --json, or a log "
                   "of train --log FILE.jsonl")
      ->needs(picture);
  command->add_option("command", flags->command, "After --: train, with its flags")->required();
  command->callback([flags, exit_code, &app] {
    if (AsksForHelp(flags->command)) {
      const absl::Status printed =
          WriteOutput("", app.get_subcommand("train")->help(app.get_name()));
      *exit_code = printed.ok() ? kExitDone : Fail(printed);
      return;
    }
    const absl::StatusOr<int> ended = Launch(*flags);
    *exit_code = ended.ok() ? *ended : Fail(ended.status());
  });
}

}  // namespace sluice
