#include "tools/train/running/member_trainer.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/spin.h"
#include "comm/tcp/diagnosis.h"
#include "comm/where.h"
#include "models/device/cuda_device.h"
#include "models/device/out_of_memory.h"
#include "pipeline/checkpoint/directory/replaced_run.h"
#include "pipeline/checkpoint/files/checkpoint.h"
#include "pipeline/run/marks.h"
#include "pipeline/run/rank_threads.h"
#include "pipeline/trace/format_trace.h"
#include "pipeline/trace/trace_parts.h"
#include "schedules/counted.h"
#include "schedules/partition.h"
#include "tools/command.h"
#include "tools/train/ending/hang_end.h"
#include "tools/train/running/compiled_job.h"
#include "tools/train/running/replan_watch.h"
#include "tools/train/running/run_output.h"
#include "tools/train/running/train_signals.h"

namespace sluice {
namespace {

// All of a group are ready when they meet, so one that does not come was lost just then.
constexpr absl::Duration kMeetingPatience = absl::Seconds(3);
constexpr size_t kCapacityToGive = 64;

bool IsLoss(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

// Each process has a GPU to itself.
absl::Status CheckGpus(int place) {
  const int count = CudaDeviceCount();
  // Where there is none, opening one says why.
  if (count == 0 || place < count) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "process ", place + 1, " of this machine needs a GPU of its own, and CUDA shows ", count,
      "; start at most as many (sluice launch --processes), or show more (CUDA_VISIBLE_DEVICES)"));
}

absl::Status CheckQuestion(const TrainQuestion& question, const WorldFlags& world, int place) {
  if (question.kernels.cuda) {
    if (absl::Status status = CheckGpus(place); !status.ok()) return status;
  }
  const LaunchFlags& launch = world.launch;
  const bool placed = !world.transport.empty() || launch.rank || launch.world_size ||
                      !launch.master_addr.empty() || launch.master_port ||
                      !world.secret_file.empty();
  if (!placed) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "sluice launch says which rank a process is and how it reaches the others; leave out "
      "--transport, --rank, --world-size, --master-addr, --master-port and --secret-file");
}

class MemberTrainer {
 public:
  MemberTrainer(const TrainQuestion& question, Member* member)
      : question_(question), member_(*member) {
    // One run at a time has this supervisor.
    if (!question.trace.empty())
      parts_.emplace(absl::StrCat(question.trace, ".", getppid(), ".parts"));
  }

  // That it trains on is lost: another process may take this one's place.
  bool lost_device() const { return !held_.device.ok(); }

  absl::StatusOr<int> Run() {
    absl::StatusOr<int> exit_code = TrainInGroups();
    // Nobody will put them together.
    if (parts_.has_value() && (!exit_code.ok() || run_is_over_)) parts_->Remove();
    return exit_code;
  }

 private:
  absl::StatusOr<int> TrainInGroups() {
    CatchSignals();
    while (true) {
      saving_ = nullptr;
      candidate_.held_rank = held_.state != nullptr && held_.whole ? held_.state->world_rank() : -1;
      candidate_.timeout = question_.options.watching.timeout;
      const absl::StatusOr<GroupPlace> place = member_.Join(candidate_);
      run_is_over_ = absl::IsCancelled(place.status());
      if (run_is_over_) return kExitInterrupted;
      if (!place.ok()) return place.status();
      candidate_.missing = -1;
      candidate_.spare = false;
      const absl::StatusOr<std::optional<int>> exit_code = InGroup(*place);
      if (exit_code.ok() && *exit_code) return **exit_code;
      const absl::Status& status = exit_code.status();
      if (!held_.device.ok()) return held_.device;
      if (held_.lie.found()) {
        member_.TellLied(held_.lie, DescribeError(status));
        ForgetWhatIsWrong(held_.lie);
        held_.lie = {};
        continue;
      }
      if (status.ok() || absl::IsAborted(status)) continue;
      if (!IsLoss(status)) return status;
      if (absl::IsDeadlineExceeded(status)) candidate_.missing = WhereOf(status).peer.value_or(-1);
    }
  }

  // How long the steps have taken is as true as it was.
  void ForgetWhatIsWrong(const LyingRank& lie) {
    if (!lie.found()) return;
    held_.history.saved = std::min(held_.history.saved, lie.good_step);
    held_.history.evaluated = std::min(held_.history.evaluated, lie.good_step);
    if (lie.others_hold_right) return;
    RunHistory history = std::move(held_.history);
    held_ = {};
    held_.history = std::move(history);
  }

  // Cores that have computed wrong, before this process computes anything more.
  void LeaveOut(const CoreSet& cores) {
    if ((sound_ & cores).none()) return;
    sound_ &= ~cores;
    KeepProcessTo(sound_);
  }

  // An exit code where this process has nothing more to do.
  absl::StatusOr<std::optional<int>> InGroup(const GroupPlace& place) {
    ForgetWhatIsWrong(place.lie);
    LeaveOut(place.left_out);
    const int ranks = place.size - place.givers;
    if (absl::Status status = Prepare(ranks, place.work); !status.ok()) return status;
    const int world_size = compiled_.plan->world_size();
    if (world_size > ranks) {
      return absl::InvalidArgumentError(absl::StrCat(
          "sluice launch has ", Counted(ranks, "process"), ", but the run has ",
          Counted(world_size, "rank"), "; start as many (--processes, --min-ranks), or let ",
          "their number decide: --stages auto, --data-parallel auto"));
    }
    const CoreSet own = question_.options.running.pin_threads && place.rank < world_size
                            ? CoresOfRank(sound_, place.rank, question_.threads_per_stage)
                            : CoreSet();
    KeepProcessTo(own.any() ? own : sound_);
    if (place.rank < world_size) {
      if (absl::Status status = OpenDevice(place); !status.ok()) return status;
    }
    // What computes wrong on a GPU is no core.
    const CoreSet told = question_.kernels.cuda ? CoreSet() : own;
    if (absl::Status status = member_.Prepared(told); !status.ok()) return status;
    TcpOptions options;
    options.capacity = std::max(EdgeCapacity(*compiled_.plan), kCapacityToGive);
    options.timeout = std::min(patience_, question_.options.watching.timeout);
    options.heartbeat = HeartbeatFor(question_.options.watching.timeout);
    options.spin = SpinOf(sound_.count() > 2);
    absl::StatusOr<std::unique_ptr<Communicator>> all = member_.Meet(place, place.size, options);
    if (!all.ok()) {
      patience_ *= 2;
      // Whatever keeps ranks of one machine from meeting, the next group has other ports and ranks.
      return absl::UnavailableError(all.status().message());
    }
    patience_ = kMeetingPatience;
    if (absl::Status status = TakeDirectory(place, **all); !status.ok()) return status;
    if (place.rank >= world_size) return Give(place, **all);
    return Train(place, *std::move(all), options);
  }

  // Compiles the run for so many ranks of such speeds, unless the last group had them.
  absl::Status Prepare(int ranks, const std::string& work) {
    // Only a group that has trained has measured speeds.
    const int layers =
        compiled_.plan == nullptr ? 0 : static_cast<int>(compiled_.plan->layers.size());
    absl::StatusOr<MeasuredSpeeds> speeds = ParseMeasuredSpeeds(work, layers);
    if (!speeds.ok()) return speeds.status();
    const bool same = compiled_.plan != nullptr && compiled_ranks_ == ranks && *speeds == speeds_;
    if (same) return absl::OkStatus();
    absl::StatusOr<CompiledJob> compiled = Compile(question_, *speeds, ranks, compiled_.job.data);
    if (!compiled.ok()) return compiled.status();
    compiled->devices = std::move(compiled_.devices);
    compiled_ = *std::move(compiled);
    compiled_ranks_ = ranks;
    speeds_ = *std::move(speeds);
    TrainOptions& train = compiled_.job.options;
    train.running.program = program_;
    train.watching.trace_parts = parts_.has_value() ? &*parts_ : nullptr;
    // Its supervisor learns that way that it is lost, as the others do.
    train.watching.on_hang = [](const Hang& hang) { EndHungProcess(hang, /*print=*/true); };
    return absl::OkStatus();
  }

  // The GPU of this process, which it keeps, and how it is connected in this group.
  absl::Status OpenDevice(const GroupPlace& place) {
    WorldChoice choice;
    choice.transport = Transport::kTcp;
    choice.nccl = question_.kernels.cuda;
    choice.launch.rank = place.rank;
    choice.launch.local_rank = member_.place();
    absl::Status status = OpenDevices(question_, choice, &compiled_);
    if (absl::IsUnavailable(status)) held_.device = status;
    return status;
  }

  // What the others need of this process.
  absl::StatusOr<std::optional<int>> Give(const GroupPlace& place, Communicator& all) {
    absl::Status status = GiveState(&held_, question_.options.watching.timeout, all);
    if (!status.ok()) return status;
    if (place.rank >= place.size - place.givers) return std::optional<int>(kExitDone);
    held_ = {};
    candidate_.spare = true;
    return std::optional<int>();
  }

  absl::StatusOr<std::optional<int>> Train(const GroupPlace& place,
                                           std::unique_ptr<Communicator> all,
                                           const TcpOptions& options) {
    const TrainOptions& train = compiled_.job.options;
    const bool leads = place.rank == 0;
    if (parts_.has_value()) {
      // Before any rank of the group has taken a step; a run that was killed may have had its name.
      if (leads && place.first) parts_->Remove();
      parts_->Begin(place.generation, place.rank);
    }
    TrainEvents events;
    std::string source = "start";
    if (leads) events = Events(place, &source);
    std::unique_ptr<Communicator> world;
    const int world_size = compiled_.plan->world_size();
    Regrouping regrouping;
    regrouping.held = &held_;
    regrouping.all = all.get();
    regrouping.world = [&]() -> absl::StatusOr<Communicator*> {
      if (place.size == world_size) return all.get();
      absl::StatusOr<std::unique_ptr<Communicator>> met = member_.Meet(place, world_size, options);
      if (!met.ok()) return absl::UnavailableError(met.status().message());
      world = *std::move(met);
      return world.get();
    };
    regrouping.regroup = &member_.regroup();
    if (saved_) regrouping.checkpoints = train.saving.directory;
    regrouping.vouched_step = place.vouched_step;
    regrouping.resumed = &resumed_;
    const absl::StatusOr<TrainResult> result = TrainMember(
        compiled_.plan, *compiled_.job.data, train, events, &Signals().interrupted, regrouping);
    NoticeLostTrace(place.rank);
    if (!result.ok()) return result.status();
    if (result->summary.regroups) return std::optional<int>();
    if (leads && result->summary.hashed) member_.TellResult(result->summary.weights_hash);
    if (leads)
      return std::optional<int>(
          ReportRun(question_, *result, &*output_, [this] { return TraceText(); }));
    return std::optional<int>(result->summary.interrupted ? kExitInterrupted : kExitDone);
  }

  // Together with all of the group: has rank 0 take the directory of --save, and tell the others
  // whether the run has a checkpoint there.
  absl::Status TakeDirectory(const GroupPlace& place, Communicator& all) {
    saved_ = false;
    const TrainOptions& train = compiled_.job.options;
    if (place.rank == 0) {
      if (absl::Status status = Take(place, train); !status.ok()) return status;
    }
    if (train.saving.directory.empty()) return absl::OkStatus();
    const double mine = saved_ ? 1 : 0;
    std::vector<double> of_ranks(static_cast<size_t>(place.size));
    absl::Status status = all.AllGather({&mine, 1}, absl::MakeSpan(of_ranks),
                                        Instant::Now() + train.watching.timeout);
    saved_ = of_ranks.front() != 0;
    return status;
  }

  // Whether the run has a checkpoint of its own in `directory`.
  static absl::StatusOr<bool> HasSaved(const GroupPlace& place, const std::string& directory) {
    if (place.saved && !place.lie.found()) return true;
    // Rank 0 of an earlier group may have removed all of them.
    if (place.saved) return HasCheckpoint(directory);
    // Or it was lost before it could tell of the first one.
    if (!place.found.has_value()) return false;
    const std::string newest = ChecksumOfNewest(directory);
    return !newest.empty() && newest != *place.found;
  }

  // The directory of --save; once it has a checkpoint of this run, it is that of a run that goes on.
  // What a rank that computes wrong may have spoilt there is removed.
  absl::Status Take(const GroupPlace& place, const TrainOptions& train) {
    const std::string& directory = train.saving.directory;
    removed_.clear();
    const absl::StatusOr<bool> has = HasSaved(place, directory);
    if (!has.ok()) return has.status();
    saved_ = *has;
    if (!saved_) {
      absl::Status status = CheckAndLock(question_, train);
      if (status.ok() && !directory.empty()) member_.TellTook(ChecksumOfNewest(directory));
      return status;
    }
    if (!place.saved) member_.TellSaved();
    TrainQuestion question = question_;
    question.overwrite = false;
    TrainOptions options = train;
    options.saving.resume = directory;
    absl::Status status = CheckAndLock(question, options);
    if (!status.ok() || !place.lie.found()) return status;
    absl::StatusOr<RemovedCheckpoints> removed = saving_->RemoveAfter(place.lie.good_step);
    if (!removed.ok()) return removed.status();
    removed_ = std::move(removed->paths);
    saved_ = removed->leaves_some;
    return absl::OkStatus();
  }

  // The supervisor keeps the lock for the next rank 0, so that no other run takes the directory
  // while there is none.
  absl::Status CheckAndLock(const TrainQuestion& question, const TrainOptions& options) {
    absl::Status status = CheckOutputs(question, options, &saving_, member_.TakeLock());
    if (saving_ != nullptr) member_.TellLocked(saving_->ShareLock());
    return status;
  }

  TrainEvents Events(const GroupPlace& place, std::string* source) {
    if (!output_.has_value()) {
      output_.emplace(question_, member_.output());
      if (place.first) {
        output_->Start(compiled_, question_);
      } else {
        output_->TakeOver(compiled_);
      }
    }
    TrainEvents events = output_->Events(compiled_);
    WatchSpeeds(place, &events);
    events.on_resume = [print = events.on_resume, source](const ResumedRun& run) {
      *source = run.from_memory ? "memory" : "checkpoint";
      print(run);
    };
    events.on_checkpoint = [this, print = events.on_checkpoint](const SaveOutcome& saved) {
      member_.TellSaved();
      print(saved);
    };
    events.on_vouched = [this](int64_t step) { member_.TellVouched(step); };
    events.on_begin = [this, &place, plan = compiled_.plan, source,
                       begin = events.on_begin](int64_t step) {
      begin(step);
      if (place.lie.found()) {
        output_->Corrected(
            {.lie = place.lie, .step = step, .source = *source, .removed = removed_});
        member_.TellRewound(saved_);
      }
      DescribeTrace(place, *plan, step);
      ContinuedRun run;
      run.step = step;
      run.ranks = plan->world_size();
      if (place.lost_at != 0)
        run.seconds = absl::ToDoubleSeconds(MachineTime() - absl::Nanoseconds(place.lost_at));
      run.stages = plan->ranks();
      run.replicas = plan->replicas();
      run.partition = FormatPartition(plan->request.partition);
      run.source = *source;
      const int processes = place.size - place.givers;
      if (watch_.has_value() && watch_->made().has_value()) {
        run.replanned = watch_->made()->why;
        run.bound_seconds = watch_->made()->bound_seconds;
      } else if (!place.first && place.last_size != processes) {
        run.replanned =
            absl::StrCat(processes == 1 ? "there is " : "there are ", Counted(processes, "process"),
                         " instead of ", place.last_size);
      } else if (!place.work.empty() && place.work != shown_work_) {
        run.replanned = "ranks are not equally fast";
      }
      shown_work_ = place.work;
      member_.TellBegan(step, run.stages, run.replicas, run.partition, run.replanned);
      if (!place.first) output_->Continued(run);
    };
    return events;
  }

  // What a trace says of the group that begins after `step`.
  void DescribeTrace(const GroupPlace& place, const RunPlan& plan, int64_t step) {
    if (!parts_.has_value()) return;
    TraceGroup group = TraceGroupOf(plan);
    group.number = place.generation;
    if (place.lost_at != 0)
      group.marks.push_back({.time = place.lost_at, .text = "a rank is lost"});
    if (!place.first) {
      const int ranks = place.size - place.givers;
      const std::string before =
          place.last_size == ranks ? "" : absl::StrCat(" instead of ", place.last_size);
      group.marks.push_back(
          {.time = SteadyNanoseconds(),
           .text = absl::StrCat("group ", place.generation, ": ", Counted(ranks, "process"), before,
                                ", after step ", step)});
    }
    const absl::Status described = parts_->Describe(group);
    if (!described.ok())
      PrintNotice(
          absl::StrCat("the trace lacks group ", place.generation, ": ", described.message()));
  }

  // Of all groups. Requires parts_.
  absl::StatusOr<std::string> TraceText() const {
    const absl::StatusOr<std::vector<TraceGroup>> groups = parts_->Read();
    parts_->Remove();
    if (!groups.ok()) return groups.status();
    return FormatTrace(*groups);
  }

  // Once.
  void NoticeLostTrace(int rank) {
    if (!parts_.has_value() || parts_->status().ok() || std::exchange(told_of_trace_, true)) return;
    PrintNotice(absl::StrCat("rank ", rank, ": ", parts_->status().message()));
  }

  // Has the group leave its plan where another one is better for what its ranks turn out to take.
  void WatchSpeeds(const GroupPlace& place, TrainEvents* events) {
    if (!place.replans || !MayReplan(question_)) return;
    if (!watch_.has_value()) {
      // Where the supervisor does not hear it, the group ends for other reasons.
      watch_.emplace(question_, compiled_.job.data, RankNumbers::kFree,
                     [this](const Replan& wanted) {
                       return member_.AskToReplan(wanted.speeds.ToText(), wanted.order).ok();
                     });
    }
    watch_->Begin(compiled_.plan, place.size - place.givers, speeds_, &*output_, events);
  }

  const TrainQuestion& question_;
  Member& member_;
  const uint64_t program_ = ProgramHash();
  CoreSet sound_ = UsableCores();  // those that no audit has found to compute wrong
  CompiledJob compiled_;           // for the last group
  int compiled_ranks_ = 0;
  MeasuredSpeeds speeds_;   // for which it is compiled
  std::string shown_work_;  // where this process has been rank 0
  // Where this process is rank 0.
  std::optional<ReplanWatch> watch_;
  std::optional<TraceParts> parts_;  // of the trace, where there is one
  bool told_of_trace_ = false;
  bool run_is_over_ = false;  // without an end of its own
  HeldState held_;
  std::optional<StartingPoint> resumed_;
  Candidate candidate_;
  absl::Duration patience_ = kMeetingPatience;
  std::unique_ptr<RunDirectory> saving_;  // where this process is rank 0 and the run saves
  bool saved_ = false;                    // the run has a checkpoint there
  std::vector<std::string> removed_;      // where it is rank 0: those that were wrong
  std::optional<RunOutput> output_;       // likewise
};

}  // namespace

int TrainAsMember(const absl::StatusOr<TrainQuestion>& question, const WorldFlags& world,
                  Member* member) {
  absl::Status status = question.status();
  if (status.ok()) status = CheckQuestion(*question, world, member->place());
  int exit_code = kExitDone;
  bool lost_device = false;
  if (status.ok()) {
    const absl::StatusOr<int> ended = OrExhausted("training", [&] {
      MemberTrainer trainer(*question, member);
      absl::StatusOr<int> code = trainer.Run();
      lost_device = trainer.lost_device();
      return code;
    });
    status = ended.status();
    if (ended.ok()) exit_code = *ended;
  }
  // As one that is lost with what it held.
  if (lost_device) {
    Fail(status);
    return kExitPeerLost;
  }
  if (!status.ok()) exit_code = ExitCodeOf(status);
  const std::string text = status.ok() ? "" : DescribeError(status);
  if (!member->End(exit_code, text) && !status.ok()) return Fail(status);
  return exit_code;
}

}  // namespace sluice
