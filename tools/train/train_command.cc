#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "comm/nccl/nccl.h"
#include "comm/where.h"
#include "models/device/instant.h"
#include "models/device/out_of_memory.h"
#include "pipeline/run/rank_threads.h"
#include "pipeline/trace/format_trace.h"
#include "pipeline/train/start/agreement.h"
#include "schedules/counted.h"
#include "tools/command.h"
#include "tools/train/commands/command_portions.h"
#include "tools/train/ending/elastic_error.h"
#include "tools/train/ending/final_error.h"
#include "tools/train/ending/hang_end.h"
#include "tools/train/ending/mpi_end.h"
#include "tools/train/running/compiled_job.h"
#include "tools/train/running/member_trainer.h"
#include "tools/train/running/replanned_run.h"
#include "tools/train/running/run_output.h"
#include "tools/train/running/train_signals.h"
#include "tools/train/settings/settings_flags.h"
#include "tools/train/train_flags.h"
#include "tools/train/train_world.h"

namespace sluice {
namespace {

constexpr char kExample[] =
    "Examples:\n"
    "  sluice train --data bible.txt --stages 2 --steps 200 --save out\n"
    "  sluice train --resume out --stages 4 --steps 400\n"
    "  sluice train --config run.toml --steps 50\n"
    "  mpirun -n 4 sluice train --data bible.txt --stages 2 --data-parallel 2\n"
    "  sluice train --model mlp --data /usr/share/datasets/fashion-mnist \\\n"
    "               --micro-batch-size 50 --stages 2 --steps 500";

// The exit code of a process that ends with `status`, of which its launcher is told, and a person if
// `print`.
int EndWith(const absl::Status& status, bool print = true) {
  TellElasticAgent(status, ProcessEnvironment());
  return print ? Fail(status) : ExitCodeOf(status);
}

// Where a program says what the run does: its commands, of which `output` shows the ends. `rank`: the
// first one of this process.
std::unique_ptr<CommandPortions> Commanded(const TrainQuestion& question, CompiledJob* compiled,
                                           int rank, RunOutput* output) {
  if (!question.commands) return nullptr;
  output->Ready(*compiled, rank);
  auto commands = std::make_unique<CommandPortions>(CommandPortions::Parts{
      .fd = STDIN_FILENO,
      .options = &compiled->job.options,
      .saves = rank == 0,
      .first_rank = rank,
      .ended = [output](const absl::StatusOr<TrainSummary>& summary) { output->Ended(summary); }});
  compiled->job.options.portions = commands.get();
  return commands;
}

// All ranks are threads of this process.
int TrainHere(const TrainQuestion& question, const WorldChoice& choice) {
  absl::StatusOr<CompiledJob> compiled = Compile(question);
  if (!compiled.ok()) return EndWith(compiled.status());
  if (absl::Status status = OpenDevices(question, choice, &*compiled); !status.ok())
    return EndWith(status);
  std::unique_ptr<RunDirectory> saving;
  if (absl::Status status = CheckOutputs(question, compiled->job.options, &saving); !status.ok())
    return EndWith(status);
  CatchSignals();
  RunOutput output(question);
  output.Start(*compiled, question);
  const std::unique_ptr<CommandPortions> commands = Commanded(question, &*compiled, 0, &output);
  compiled->job.options.watching.on_hang = [](const Hang& hang) { EndHungProcess(hang, true); };
  const TrainJob& job = compiled->job;
  absl::StatusOr<TrainResult> result = TrainInProcess(
      *compiled->plan, *job.data, job.options, output.Events(*compiled), &Signals().interrupted);
  if (!result.ok()) {
    const int exit_code = EndWith(result.status());
    output.Failed();
    return exit_code;
  }
  return ReportRun(question, *result, &output, [&]() -> absl::StatusOr<std::string> {
    return FormatTrace(result->trace, *compiled->plan);
  });
}

// One rank of many processes.
class WorldTrainer {
 public:
  WorldTrainer(const absl::StatusOr<TrainQuestion>& question, WorldChoice choice, MpiProcess* mpi)
      : question_(question), choice_(std::move(choice)), mpi_(mpi) {}

  int Run() {
    if (choice_.transport == Transport::kMpi) {
      Signals().under_mpi.store(true);
      CatchTermination();  // from now on a rank may be lost while the others start
    }
    // An error that only this rank knows is sent to the others, which would otherwise wait for it.
    absl::StatusOr<CompiledJob> compiled =
        OrExhausted("preparing the run", [this]() -> absl::StatusOr<CompiledJob> {
          return question_.ok() ? Compile(*question_, choice_.launch.size) : question_.status();
        });
    absl::Status ready = Ready(compiled);
    if (ready.ok()) ready = CheckSize(*compiled->plan, choice_.launch.size);
    if (ready.ok()) ready = OpenDevices(*question_, choice_, &*compiled);
    if (ready.ok() && question_->replan) ready = ReplannedRun::Check(*question_, *compiled->plan);
    const absl::Duration timeout =
        compiled.ok() ? compiled->job.options.watching.timeout : TrainOptions().watching.timeout;
    std::optional<FinalErrorPrinter> final_error;
    if (Signals().under_mpi.load()) {
      const Instant late = Instant::Now() + timeout;
      final_error.emplace([this, timeout] { return Starting(timeout); },
                          [late] { return Signals().terminated.load() || Instant::Now() > late; },
                          kUnderMpirun,
                          [](const absl::Status& lost) {
                            if (FirstOfSiblings()) EndWith(lost);
                          });
    }
    absl::StatusOr<std::unique_ptr<Communicator>> world = OpenWorld(
        choice_, timeout, compiled.ok() ? EdgeCapacity(*compiled->plan) : kCapacityToSayWhy,
        &Signals().terminated, mpi_);
    final_error.reset();
    if (!world.ok()) return FailAlone(ready.ok() ? world.status() : ready);
    rank_ = (*world)->rank();
    if (ready.ok()) ready = CheckSize(*compiled->plan, (*world)->size());
    if (!ready.ok()) {
      (*world)->Abort(Named(ready));
      return FailTogether(ready, **world);
    }
    if (absl::Status alike = AgreeOnReplanning(timeout, **world); !alike.ok()) {
      (*world)->Abort(alike);
      return FailTogether(alike, **world);
    }
    const absl::StatusOr<int> exit_code = OrExhausted(
        "preparing to train", [&] { return absl::StatusOr<int>(Train(&*compiled, **world)); });
    if (exit_code.ok()) return *exit_code;
    (*world)->Abort(Named(exit_code.status()));
    return FailTogether(exit_code.status(), **world);
  }

 private:
  static constexpr size_t kCapacityToSayWhy = 64;
  // mpirun kills a rank one second after it has told it to stop.
  static constexpr absl::Duration kUnderMpirun = absl::Milliseconds(600);

  bool leads() const { return rank_ == 0; }

  absl::Status Ready(const absl::StatusOr<CompiledJob>& compiled) {
    if (!compiled.ok()) return compiled.status();
    if (choice_.launch.rank != 0) return absl::OkStatus();
    return CheckOutputs(*question_, compiled->job.options, &saving_);
  }

  // What the number of ranks is made of: "of its stages 2 + 1", "2 of the pipeline x 3 replicas".
  static std::string Made(const RunPlan& plan) {
    if (plan.has_stage_members()) {
      return absl::StrCat("of its stages ", absl::StrJoin(plan.request.stage_members, " + "));
    }
    return absl::StrCat(plan.ranks(), " of the pipeline x ", Counted(plan.replicas(), "replica"));
  }

  absl::Status CheckSize(const RunPlan& plan, int size) const {
    if (size == plan.world_size()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(LaunchSourceName(choice_.launch.source), " started ", Counted(size, "process"),
                     ", but the run has ", Counted(plan.world_size(), "rank"), " (", Made(plan),
                     "); start ", plan.world_size()));
  }

  // Of a rank that only answers commands: what a run keeps for people is rank 0's.
  static TrainQuestion AnswersAlone(TrainQuestion question) {
    question.log.clear();
    question.tensorboard.clear();
    question.options.saving.directory.clear();
    return question;
  }

  absl::Status Named(const absl::Status& status) const {
    return WithWhere(status, {.rank = rank_});
  }

  // Ranks that replan meet in other ways than the others.
  absl::Status AgreeOnReplanning(absl::Duration timeout, Communicator& world) const {
    const bool replans = question_->replan;
    return CheckAgreement({{.name = "--replan",
                            .hash = replans ? uint64_t{1} : uint64_t{0},
                            .shown = replans ? "given" : "not given",
                            .advice = "start all ranks with the same flags"}},
                          world, timeout);
  }

  int Train(CompiledJob* compiled, Communicator& world) {
    PinRankThreads(choice_.launch.local_rank, compiled->plan->request.threads_per_stage,
                   compiled->job.options.running.pin_threads);
    CatchSignals();
    std::optional<RunOutput> output;
    if (leads()) output.emplace(*question_).Start(*compiled, *question_);
    if (!leads() && question_->commands) output.emplace(AnswersAlone(*question_));
    std::unique_ptr<CommandPortions> commands;
    if (output.has_value()) commands = Commanded(*question_, compiled, rank_, &*output);
    std::atomic<Action> at{Action()};
    const auto set_up = [&](TrainOptions* options) {
      options->running.program = ProgramHash();
      options->watching.at = &at;
      options->watching.on_hang = [this](const Hang& hang) {
        EndHungProcess(hang, hang.after_failure || PrintsError(rank_, hang.status));
      };
    };
    set_up(&compiled->job.options);
    std::optional<ReplannedRun> replanned;
    if (question_->replan)
      replanned.emplace(
          *question_, leads() ? &*output : nullptr, set_up,
          [this](CompiledJob* next) { return OpenDevices(*question_, choice_, next); }, world);
    absl::StatusOr<TrainResult> result = absl::UnknownError("");
    {
      std::optional<FinalErrorPrinter> final_error;
      if (Signals().under_mpi.load()) {
        final_error.emplace(
            [&] { return world.failure(); }, [] { return Signals().terminated.load(); },
            kUnderMpirun, [&](const absl::Status& lost) { FailTogether(AtWork(at, lost), world); });
      }
      if (replanned.has_value()) {
        result = replanned->Train(&Signals().interrupted, compiled);
      } else {
        result = TrainRank(*compiled->plan, *compiled->job.data, compiled->job.options,
                           leads() ? output->Events(*compiled) : TrainEvents(),
                           &Signals().interrupted, world);
      }
    }
    if (!result.ok()) {
      const int exit_code = FailTogether(result.status(), world);
      if (output.has_value()) output->Failed();
      return exit_code;
    }
    if (leads()) {
      return ReportRun(*question_, *result, &*output, [&]() -> absl::StatusOr<std::string> {
        return replanned.has_value() ? FormatTrace(replanned->trace())
                                     : FormatTrace(result->trace, *compiled->plan);
      });
    }
    if (output.has_value()) {
      output->Finish().IgnoreError();  // its portions have been shown
      return kExitDone;
    }
    // A rank that was told to stop after the last step has ended as the others have.
    return result->summary.interrupted ? kExitInterrupted : kExitDone;
  }

  absl::Status Starting(absl::Duration timeout) const {
    const std::string what = Signals().terminated.load()
                                 ? "was told to stop (SIGTERM) before the ranks had met"
                                 : absl::StrCat("waited ", absl::FormatDuration(timeout),
                                                " for all ranks to meet, but not all came");
    return absl::UnavailableError(absl::StrCat(
        "rank ", rank_, " ", what, "; another rank of the job was probably lost or stopped"));
  }

  // The error that the rank would report for a lost rank if it were not computing.
  absl::Status AtWork(const Action& action, const absl::Status& lost) const {
    if (action.op == Op::kIdle) return Named(lost);
    return WithWhere(lost, {.rank = rank_,
                            .stage = action.stage,
                            .micro_batch = action.micro_batch,
                            .action = ToString(action)});
  }

  // Before the ranks are connected nobody else can know the reason, so each rank prints its own; of
  // the ranks that mpirun has told to stop, only one does.
  int FailAlone(const absl::Status& status) const {
    const bool another_prints =
        Signals().under_mpi.load() && Signals().terminated.load() && !FirstOfSiblings();
    return EndWith(status, !another_prints);
  }
  static int FailTogether(const absl::Status& status, const Communicator& world) {
    return EndWith(status, PrintsError(world, status));
  }

  const absl::StatusOr<TrainQuestion>& question_;
  const WorldChoice choice_;
  MpiProcess* const mpi_;
  int rank_ = choice_.launch.rank;
  std::unique_ptr<RunDirectory> saving_;  // rank 0's, where the run saves
};

int RunTrain(const TrainFlags& flags) {
  const absl::StatusOr<TrainQuestion> question = QuestionOf(flags);
  const bool on_gpus = question.ok() && question->kernels.cuda;
  const bool is_member = ProcessEnvironment()(kMemberVariable).has_value();
  if (is_member && on_gpus) PrepareEnvironmentForNccl();
  absl::StatusOr<std::unique_ptr<Member>> member =
      Member::Open(ProcessEnvironment(), &Signals().terminated, &Signals().interrupted);
  if (!member.ok()) return EndWith(member.status());
  if (*member != nullptr && question.ok() && question->commands) {
    return EndWith(absl::InvalidArgumentError(
        "--commands: the ranks of 'sluice launch' come and go, and cannot be asked one by one; "
        "start a fixed number of them, by torchrun or mpirun"));
  }
  if (*member != nullptr) {
    Signals().leaves_alone.store(true);
    return TrainAsMember(question, flags.world, member->get());
  }
  const absl::StatusOr<WorldChoice> choice = ChooseWorld(flags.world, ProcessEnvironment());
  if (!choice.ok()) return EndWith(choice.status());
  const bool apart = choice->transport != Transport::kInProcess;
  if (apart && on_gpus) PrepareEnvironmentForNccl();
  if (!apart && question.ok() && question->replan) {
    return EndWith(absl::InvalidArgumentError(
        "--replan: all ranks are threads of this process; it is for ranks that are processes, "
        "which mpirun, torchrun, --rank or 'sluice launch' start"));
  }
  if (!apart) return question.ok() ? TrainHere(*question, *choice) : EndWith(question.status());
  MpiProcess mpi;
  const absl::StatusOr<int> exit_code = OrExhausted("joining the other ranks", [&] {
    return absl::StatusOr<int>(WorldTrainer(question, *choice, &mpi).Run());
  });
  if (exit_code.ok()) return EndMpi(mpi, *exit_code);
  const int failed = EndWith(exit_code.status());
  if (mpi.initialised()) mpi.Abort(failed);  // the others may wait for this rank
  return failed;
}

}  // namespace

void AddTrainCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("train", "Train a model across pipeline stages");
  command->footer(kExample);
  auto flags = std::make_shared<TrainFlags>();
  AddConfigFlag(*command);
  AddTrainFlags(*command, flags.get());
  TakeSettingsOfResumedRuns(*command);
  command->callback([flags, command, exit_code] {
    flags->question.settings = SettingsText(*command);
    flags->question.given = GivenFlags(*command);
    *exit_code = RunTrain(*flags);
  });
}

}  // namespace sluice
