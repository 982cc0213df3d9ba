#include "pipeline/train/trainer.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/collectives/machine_sum.h"
#include "comm/progress.h"
#include "comm/spin.h"
#include "comm/watched_communicator.h"
#include "comm/where.h"
#include "models/device/host_limits.h"
#include "models/device/host_memory.h"
#include "models/device/out_of_memory.h"
#include "models/kernels/kernel_threads.h"
#include "pipeline/checkpoint/files/checkpoint.h"
#include "pipeline/run/program_places.h"
#include "pipeline/run/rank_threads.h"
#include "pipeline/state/rounds.h"
#include "pipeline/train/rank_trainer.h"
#include "pipeline/train/run_checkpoint.h"
#include "pipeline/train/start/agreement.h"
#include "pipeline/train/start/starting_point.h"
#include "pipeline/watch/watchdog.h"

namespace sluice {
namespace {

// Messages outside the timetable (tied gradients, sums over replicas, checkpoints) that may be on
// an edge besides a step's own.
constexpr size_t kExtraMessages = 16;

// With `init` as a folder that stays what it is: DIR/latest leads elsewhere once the run that saves
// to DIR goes on. Where no link is followed, as people gave it, who read it in messages.
TrainOptions WithoutLinks(TrainOptions options) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  std::string& init = options.saving.init;
  if (!fs::is_directory(init, ignored)) return options;
  const fs::path whole = WholePath(init);
  const fs::path given = fs::absolute(init, ignored).lexically_normal();
  if (given / "" != whole / "") init = whole.string();
  return options;
}

// What all ranks of this process share.
class Run {
 public:
  Run(const RunPlan& plan, const Dataset& data, const TrainOptions& options,
      const TrainEvents& events, const std::atomic<bool>* stop)
      : given_init_(options.saving.init),
        given_(WithoutLinks(options)),
        options_(given_),
        context_{
            .plan = &plan, .data = &data, .options = &options_, .events = &events, .stop = stop} {}

  // `bytes`: of the arenas of this process. `world`: whose ranks are processes, or null.
  absl::Status Prepare(int64_t bytes, Communicator* world) {
    if (absl::Status status = CheckMemory(bytes, world); !status.ok()) return status;
    uint64_t sample = 0;
    const auto open = [&]() -> absl::Status {
      const absl::StatusOr<StartingPoint> start = OpenGiven();
      if (!start.ok()) return start.status();
      TakeOver(*start);
      // Threads of one process read the same files.
      if (world != nullptr) sample = SampleStart(start_);
      return absl::OkStatus();
    };
    absl::Status status = world == nullptr ? open() : ReadTogether(open, *world);
    if (status.ok()) TakeTraits(sample);
    return status;
  }

  // The same before Recover; where Recover finds nothing, Restart reads.
  absl::Status Prepare(int64_t bytes, const Regrouping& regrouping) {
    absl::Status status = CheckMemory(bytes, regrouping.all);
    if (!status.ok()) return status;
    return ReadTogether([&] { return FindSettings(regrouping); }, *regrouping.all);
  }

  // After Prepare, for a process that trains in one group after the other: fills the state of its
  // rank, which is `into`, from what the processes hold. False: they do not hold it, and Restart
  // has to.
  absl::StatusOr<bool> Recover(const Regrouping& regrouping,
                               const std::function<absl::StatusOr<RankState*>()>& into) {
    context_.regroup = regrouping.regroup;
    const absl::StatusOr<std::optional<Recovered>> recovered =
        sluice::Recover({.held = regrouping.held,
                         .into = into,
                         .load_frozen = [&]() -> absl::Status {
                           const absl::StatusOr<RankState*> state = into();
                           return state.ok() ? ReadFrozen(regrouping, **state) : state.status();
                         },
                         .timeout = options_.watching.timeout},
                        *regrouping.all);
    if (!recovered.ok()) return recovered.status();
    if (!*recovered) return false;
    const absl::StatusOr<RankState*> state = into();
    if (!state.ok()) return state.status();
    (*state)->Pack();
    const Recovered& found = **recovered;
    options_.saving.resume.clear();  // it goes on from no checkpoint
    start_.point.checkpoint = nullptr;
    context_.last = found.last;
    context_.reads_frozen = found.reads_frozen;
    context_.shows_last = found.last.known && found.shown_step < found.last.step;
    context_.resumed = {
        .step = found.last.step, .steps = options_.training.steps, .from_memory = true};
    GoOn(regrouping, /*sample=*/0);
    return true;
  }

  // Where Recover has not: fills the state of the rank from a checkpoint, or from where the run
  // begins.
  absl::Status Restart(const Regrouping& regrouping, RankState& state, Communicator& world) {
    bool own = false;
    uint64_t sample = 0;
    const auto read = [&]() -> absl::Status {
      const absl::StatusOr<std::optional<StartingPoint>> saved = OpenOwn(regrouping.checkpoints);
      if (!saved.ok()) return saved.status();
      own = saved->has_value();
      if (own) {
        TakeOver(**saved);
      } else if (!start_.open()) {
        const absl::StatusOr<StartingPoint> start = OpenGiven();
        if (!start.ok()) return start.status();
        TakeOver(*start);
      }
      sample = SampleStart(start_);
      return LoadStart(start_, options_.training.seed, state);
    };
    if (regrouping.held->state.get() == &state) {
      regrouping.held->whole = regrouping.held->has_mirror = false;
      regrouping.held->has_next_gradients = false;
    }
    if (absl::Status status = ReadTogether(read, world, &state); !status.ok()) return status;
    RunHistory& history = regrouping.held->history;
    if (own) history.saved = context_.last.step;
    // What no process has seen, the checkpoint says.
    if (history.steps.empty())
      history.evaluated = std::max(history.evaluated, context_.history.evaluated);
    GoOn(regrouping, sample);
    return absl::OkStatus();
  }

  // The step after which the run goes on.
  const AgreedStep& last() const { return context_.last; }

  // After Prepare; by any number of threads at once, a rank each. `local`: its number in this
  // process. `board`: of who watches the ranks, or null.
  absl::StatusOr<TrainResult> Train(Communicator& world, int local, ProgressBoard* board) const {
    return Watched(world, board, [&](std::atomic<Action>* at, Communicator& watched) {
      return TrainAt(at, world, watched, local);
    });
  }

  // The same for the one rank of this process whose state is `held`, which learns what that is
  // afterwards.
  absl::StatusOr<TrainResult> TrainHeld(HeldState* held, Communicator& world,
                                        ProgressBoard* board) const {
    return Watched(world, board, [&](std::atomic<Action>* at, Communicator& watched) {
      return Connected(at, *held->state, world, watched, DeviceOf(0), held);
    });
  }

 private:
  // Of a rank of this process; null on the CPU.
  const RankDevice* DeviceOf(int local) const {
    const std::vector<RankDevice>& devices = context_.options->running.devices;
    return devices.empty() ? nullptr : &devices[static_cast<size_t>(local)];
  }

  // Calls `body` with where the rank notes its action, and with `world`, watched where there is a
  // board.
  template <typename Body>
  absl::StatusOr<TrainResult> Watched(Communicator& world, ProgressBoard* board,
                                      const Body& body) const {
    std::atomic<Action> own_at{Action()};
    std::atomic<Action>* const given_at = context_.options->watching.at;
    std::atomic<Action>* const at = given_at != nullptr ? given_at : &own_at;
    if (board == nullptr) return body(at, world);
    const auto where = [plan = context_.plan, rank = world.rank(), at] {
      return PlaceOf(*plan, rank, at->load(std::memory_order_relaxed));
    };
    Progress progress(board, world.rank(), where);
    WatchedCommunicator watched(&world, &progress);
    return body(at, watched);
  }

  // `world` is what `plain` is, watched maybe.
  absl::StatusOr<TrainResult> TrainAt(std::atomic<Action>* at, Communicator& plain,
                                      Communicator& world, int local) const {
    const RankDevice* const device = DeviceOf(local);
    absl::StatusOr<std::unique_ptr<RankState>> state = RankState::Create(
        *context_.plan, world.rank(), device == nullptr ? CpuDevice() : *device->device);
    if (!state.ok()) return state.status();
    const auto load = [&] { return LoadStart(start_, options_.training.seed, **state); };
    if (absl::Status status = ReadTogether(load, world, state->get()); !status.ok()) return status;
    return Connected(at, **state, plain, world, device, nullptr);
  }

  // `world` is what `plain` is, watched maybe. `held`: as Steps takes it.
  absl::StatusOr<TrainResult> Connected(std::atomic<Action>* at, RankState& state,
                                        Communicator& plain, Communicator& world,
                                        const RankDevice* device, HeldState* held) const {
    if (device == nullptr) return Steps(at, state, world, world, held);
    absl::StatusOr<std::unique_ptr<Communicator>> tensors = device->connect(state.stream(), &plain);
    if (!tensors.ok()) return tensors.status();
    if (world.progress() == nullptr) return Steps(at, state, world, **tensors, held);
    WatchedCommunicator watched(tensors->get(), world.progress());
    return Steps(at, state, world, watched, held);
  }

  // `held` may be null; else `state` is its, and it learns what that is afterwards.
  absl::StatusOr<TrainResult> Steps(std::atomic<Action>* at, RankState& state, Communicator& world,
                                    Communicator& tensors, HeldState* held) const {
    RankTrainer trainer(context_, &state, &world, &tensors, at);
    if (world.progress() != nullptr) world.progress()->Begin();
    absl::Status status = OrExhausted("training", [&trainer] { return trainer.Run(); });
    // What a device has queued waits for messages until they are aborted.
    if (!status.ok() && &tensors != &world) tensors.Abort(status);
    // Messages use the trainer's memory, and the rank's, until then.
    if (!status.ok()) world.Abort(status);
    if (held != nullptr) trainer.Hold(held);
    if (!status.ok()) return status;
    TrainResult result;
    result.summary = trainer.summary();
    result.trace = trainer.trace();
    return result;
  }

  // `sample`: of what this process has read (SampleStart).
  void TakeTraits(uint64_t sample) {
    RunStart start{.step = context_.last.step, .weights = sample};
    if (start_.open()) start.checkpoint = start_.point.checkpoint->hash;
    context_.traits = TraitsOf(*context_.plan, *context_.options, *context_.data, start);
  }

  // Whether the machine has memory for this process, and for those of `world` that share it.
  absl::Status CheckMemory(int64_t bytes, Communicator* world) const {
    if (!context_.options->running.devices.empty()) bytes = 0;
    const HostMemory memory = ReadHostMemory();  // none of them has used any before all have looked
    if (world == nullptr) return CheckHostMemory(bytes, memory);
    const absl::StatusOr<int64_t> together =
        SumOverMachine(*world, bytes, Instant::Now() + options_.watching.timeout);
    return together.ok() ? CheckHostMemory(*together, memory) : together.status();
  }

  // What was asked for: to go on from a checkpoint, or to begin.
  absl::StatusOr<StartingPoint> OpenGiven() const {
    return OpenStart(*context_.plan, *context_.data, given_, given_init_);
  }

  // The newest checkpoint that the run itself has saved to `path`; nothing where there is none.
  absl::StatusOr<std::optional<StartingPoint>> OpenOwn(const std::string& path) const {
    const absl::StatusOr<bool> has = path.empty() ? false : HasCheckpoint(path);
    if (!has.ok()) return has.status();
    if (!*has) return std::optional<StartingPoint>();
    absl::StatusOr<StartingPoint> own =
        OpenOwnCheckpoint(path, *context_.plan, *context_.data, given_);
    if (!own.ok()) return own.status();
    return *std::move(own);
  }

  absl::StatusOr<StartingPoint> OpenOwnOrGiven(const std::string& path) const {
    absl::StatusOr<std::optional<StartingPoint>> own = OpenOwn(path);
    if (!own.ok()) return own.status();
    if (own->has_value()) return **std::move(own);
    return OpenGiven();
  }

  // What a resumed run has of its checkpoint, from memory if this process has been in one of its
  // groups. If it has not, the checkpoints of the run itself say the same, and are the only ones
  // that are sure to be there.
  absl::Status FindSettings(const Regrouping& regrouping) {
    const bool resumes = !given_.saving.resume.empty();
    std::optional<StartingPoint>* const kept = regrouping.resumed;
    if (resumes && kept != nullptr && kept->has_value()) {
      TakeSettings(**kept);
      return absl::OkStatus();
    }
    const absl::StatusOr<StartingPoint> start =
        resumes ? OpenOwnOrGiven(regrouping.checkpoints) : OpenGiven();
    if (!start.ok()) return start.status();
    TakeOver(*start);
    if (resumes && kept != nullptr) *kept = start_.Closed();
    return absl::OkStatus();
  }

  // How the run goes on from `start`, which may be closed.
  void TakeSettings(const StartingPoint& start) {
    start_ = start;
    options_.saving.init = start.init;
    if (start.model_files != nullptr) options_.saving.model_files = start.model_files;
    if (!start.resumes()) return;
    options_.training.optimizer = start.point.hyper_parameters.optimizer;
    options_.training.steps = start.point.hyper_parameters.steps;
    context_.base_hash = start.base_hash;
  }

  // The same where it goes on from there and not from memory.
  void TakeOver(const StartingPoint& start) {
    TakeSettings(start);
    if (!start.resumes()) return;
    const ResumePoint& point = start_.point;
    options_.saving.resume = start_.resume;
    context_.last.step = context_.vouched_step = point.step;
    context_.history.evaluated = point.checkpoint->state.evaluation_due ? -1 : point.step;
    context_.resumed = {
        .step = point.step, .steps = options_.training.steps, .differences = point.differences};
  }

  // Where a group of ranks goes on after context_.last; `sample`: as TakeTraits takes it.
  void GoOn(const Regrouping& regrouping, uint64_t sample) {
    const int64_t vouched = regrouping.vouched_step;
    context_.vouched_step =
        vouched < 0 ? context_.last.step : std::min(vouched, context_.last.step);
    regrouping.held->lie = {};
    RunHistory& history = regrouping.held->history;
    history.CutAfter(context_.last.step);
    context_.history = history;
    TakeTraits(sample);
  }

  // Reading may take longer than the time-out, and one rank may have more to read than another.
  // `read` may run on another thread than that of the rank. `packed`: a state that it fills; may be
  // null.
  absl::Status ReadTogether(const std::function<absl::Status()>& read, Communicator& world,
                            RankState* packed = nullptr) const {
    const Progress::Phase phase(world.progress(), "reads its weights");
    Rounds rounds(&world, given_.watching.timeout);
    if (absl::Status status = rounds.Do(read); !status.ok()) return status;
    if (packed != nullptr) packed->Pack();
    return rounds.Finish();
  }

  // What is not trained: from where the run began, or a checkpoint of the whole model that it was
  // resumed from or has made, which are all equal in it.
  absl::Status ReadFrozen(const Regrouping& regrouping, RankState& state) const {
    // A process that was in an earlier group has opened none, and an adapter's checkpoint lacks it.
    if (start_.open() || context_.plan->request.adaptation.lora.has_value())
      return LoadFrozenStart(start_, options_.training.seed, state);
    const absl::StatusOr<StartingPoint> start = OpenOwnOrGiven(regrouping.checkpoints);
    if (!start.ok()) return start.status();
    return LoadFrozenStart(*start, options_.training.seed, state);
  }

  const std::string given_init_;  // as people know it
  const TrainOptions given_;
  TrainOptions options_;  // as start_ makes them
  RunContext context_;
  StartingPoint start_;
};

void Append(const std::vector<TraceEvent>& more, std::vector<TraceEvent>* trace) {
  trace->insert(trace->end(), more.begin(), more.end());
}

// Whether ranks of the two compute the same, each by itself.
bool SameTraits(const RunPlan& a, const RunPlan& b, const TrainOptions& options,
                const Dataset& data) {
  const std::vector<RunTrait> of_a = TraitsOf(a, options, data, {});
  const std::vector<RunTrait> of_b = TraitsOf(b, options, data, {});
  return std::equal(of_a.begin(), of_a.end(), of_b.begin(), of_b.end(),
                    [](const RunTrait& x, const RunTrait& y) { return x.hash == y.hash; });
}

bool IsWatched(const TrainOptions& options, int ranks) {
  return options.watching.on_hang != nullptr && ranks > 1;
}

// `world` is the end of any rank of this process.
void Watch(const Watching& watching, Communicator* world, std::optional<Watchdog>* watchdog) {
  watchdog->emplace(watching.timeout, world, watching.on_hang);
}

ProgressBoard* BoardOf(std::optional<Watchdog>* watchdog) {
  return watchdog->has_value() ? &(*watchdog)->board() : nullptr;
}

// A rank's state on the device where what it holds is, too. Where there is no room for both, the
// latter waits in the host's memory.
absl::StatusOr<std::unique_ptr<RankState>> CreateBeside(HeldState& held, const RunPlan& plan,
                                                        int rank, Device& device) {
  absl::StatusOr<std::unique_ptr<RankState>> state = RankState::Create(plan, rank, device);
  const bool lacks_room = absl::IsResourceExhausted(state.status());
  if (!lacks_room || held.state == nullptr || !held.state->device().queues()) return state;
  if (absl::Status status = CheckHostMemory(held.state->step_region()); !status.ok()) return status;
  absl::StatusOr<std::unique_ptr<RankState>> copy = held.state->CopyOnHost();
  if (!copy.ok()) return copy;
  held.state = *std::move(copy);
  held.has_next_gradients = false;  // the kernels of an update are the device's
  return RankState::Create(plan, rank, device);
}

// Brings the traces of all ranks, in order, to rank 0.
absl::Status GatherTrace(Communicator& world, absl::Duration timeout,
                         std::vector<TraceEvent>* trace) {
  const double mine[] = {static_cast<double>(trace->size())};
  std::vector<double> counts(static_cast<size_t>(world.size()));
  absl::Status status = world.AllGather(mine, absl::MakeSpan(counts), Instant::Now() + timeout);
  if (!status.ok()) return status;
  // A rank waits until rank 0 has those of all before it, for longer than any time-out maybe.
  Rounds rounds(&world, timeout);
  Ticket ticket = 0;
  if (world.rank() > 0) {
    status = world.PostSend(0, trace->data(), trace->size() * sizeof(TraceEvent), &ticket);
    if (status.ok()) status = rounds.WaitSend(0, ticket);
    if (!status.ok()) world.Abort(status);  // the message uses `trace` until then
    trace->clear();
    return status.ok() ? rounds.Finish() : status;
  }
  for (int rank = 1; rank < world.size(); ++rank) {
    std::vector<TraceEvent> theirs(static_cast<size_t>(counts[static_cast<size_t>(rank)]));
    status = world.PostReceive(rank, theirs.data(), theirs.size() * sizeof(TraceEvent), &ticket);
    if (status.ok()) status = rounds.WaitReceive(rank, ticket);
    if (!status.ok()) {
      world.Abort(status);  // the message uses `theirs` until then
      return status;
    }
    Append(theirs, trace);
  }
  return rounds.Finish();
}

// As the one rank of this process, which a watchdog looks after, by `train`; rank 0 then has the
// traces of all.
template <typename Train>
absl::StatusOr<TrainResult> TrainWatched(const TrainOptions& options, Communicator& world,
                                         const Train& train) {
  std::optional<Watchdog> watchdog;
  if (IsWatched(options, world.size())) Watch(options.watching, &world, &watchdog);
  absl::StatusOr<TrainResult> trained = train(BoardOf(&watchdog));
  if (!trained.ok() || !options.watching.trace) return trained;
  absl::Status status = GatherTrace(world, options.watching.timeout, &trained->trace);
  if (!status.ok()) return status;
  return trained;
}

// What other ranks are told of an error of this one: one of them prints it, on whose machine a file
// that is missing here may be there. What all ranks have found alike needs no rank.
absl::Status Told(const absl::Status& status, int rank) {
  Where where = WhereOf(status);
  if (where.rank || where.moment == Where::Moment::kAgreement) return status;
  where.rank = rank;
  return WithWhere(status, where);
}

}  // namespace

size_t EdgeCapacity(const RunPlan& plan) {
  return static_cast<size_t>(plan.max_messages) + kExtraMessages;
}

absl::StatusOr<TrainResult> TrainRank(const RunPlan& plan, const Dataset& data,
                                      const TrainOptions& options, const TrainEvents& events,
                                      const std::atomic<bool>* stop, Communicator& world) {
  Run run(plan, data, options, events, stop);
  const KernelThreads threads(plan.request.threads_per_stage);
  absl::StatusOr<TrainResult> result =
      OrExhausted("preparing to train", [&]() -> absl::StatusOr<TrainResult> {
        const int more = plan.request.threads_per_stage - 1;
        // OpenMP ends the process where it cannot start them.
        if (absl::Status status = CheckThreads("the rank", more); !status.ok()) return status;
        const auto rank = static_cast<size_t>(world.rank());
        absl::Status status = run.Prepare(plan.arenas[rank].memory.total, &world);
        if (!status.ok()) return status;
        return TrainWatched(options, world,
                            [&](ProgressBoard* board) { return run.Train(world, 0, board); });
      });
  if (!result.ok()) world.Abort(Told(result.status(), world.rank()));
  return result;
}

absl::StatusOr<TrainResult> TrainMember(std::shared_ptr<const RunPlan> plan, const Dataset& data,
                                        const TrainOptions& options, const TrainEvents& events,
                                        const std::atomic<bool>* stop,
                                        const Regrouping& regrouping) {
  HeldState& held = *regrouping.held;
  const int rank = regrouping.all->rank();
  const std::vector<RankDevice>& devices = options.running.devices;
  Device& device = devices.empty() ? CpuDevice() : *devices.front().device;
  // Where a rank does what it did before, its state stays where it is.
  const bool stays = held.state != nullptr && &held.state->device() == &device &&
                     held.state->world_rank() == rank &&
                     SameTraits(*held.plan, *plan, options, data);
  if (stays) plan = held.plan;
  std::unique_ptr<RankState> fresh;
  Run run(*plan, data, options, events, stop);
  const KernelThreads threads(plan->request.threads_per_stage);
  absl::StatusOr<TrainResult> result =
      OrExhausted("preparing to train", [&]() -> absl::StatusOr<TrainResult> {
        absl::Status status = CheckThreads("the rank", plan->request.threads_per_stage - 1);
        if (!status.ok()) return status;
        const int64_t bytes = plan->arenas[static_cast<size_t>(rank)].memory.total;
        if (status = run.Prepare(stays ? 0 : bytes, regrouping); !status.ok()) return status;
        const auto into = [&]() -> absl::StatusOr<RankState*> {
          if (stays) return held.state.get();
          if (fresh != nullptr) return fresh.get();
          absl::StatusOr<std::unique_ptr<RankState>> state =
              CreateBeside(held, *plan, rank, device);
          if (absl::IsUnavailable(state.status())) held.device = state.status();
          if (!state.ok()) return state.status();
          fresh = *std::move(state);
          return fresh.get();
        };
        const auto hold = [&] {
          if (!stays) {
            held.state = std::move(fresh);
            held.plan = plan;
            held.has_next_gradients = held.has_mirror = false;
          }
          held.last = run.last();
          held.whole = true;
        };
        const absl::StatusOr<bool> recovered = run.Recover(regrouping, into);
        if (!recovered.ok()) return recovered.status();
        if (*recovered) hold();
        const absl::StatusOr<Communicator*> world = regrouping.world();
        if (!world.ok()) return world.status();
        if (!*recovered) {
          const absl::StatusOr<RankState*> state = into();
          status = state.ok() ? run.Restart(regrouping, **state, **world) : state.status();
          if (!status.ok()) {
            (*world)->Abort(status);
            return status;
          }
          hold();
        }
        absl::StatusOr<TrainResult> trained = TrainWatched(
            options, **world,
            [&](ProgressBoard* board) { return run.TrainHeld(&held, **world, board); });
        if (!trained.ok()) (*world)->Abort(trained.status());
        return trained;
      });
  if (result.ok()) return result;
  regrouping.all->Abort(result.status());
  if (held.device.ok() && held.state != nullptr) {
    held.device = held.state->device().Synchronize(held.state->stream(),
                                                   Instant::Now() + options.watching.timeout);
    if (!held.device.ok()) held.whole = held.has_mirror = false;
  }
  return result;
}

absl::Status GiveState(HeldState* held, absl::Duration timeout, Communicator& all) {
  // As in Run::CheckMemory, of those that go on.
  const absl::StatusOr<int64_t> none = SumOverMachine(all, 0, Instant::Now() + timeout);
  if (!none.ok()) {
    all.Abort(none.status());
    return none.status();
  }
  // As in Run::Prepare.
  absl::Status status = Rounds(&all, timeout).Finish();
  if (status.ok()) status = Recover({.held = held, .timeout = timeout}, all).status();
  if (!status.ok()) all.Abort(status);
  return status;
}

absl::StatusOr<TrainResult> TrainInProcess(const RunPlan& plan, const Dataset& data,
                                           const TrainOptions& options, const TrainEvents& events,
                                           const std::atomic<bool>* stop) {
  const int ranks = plan.world_size();
  const int threads_per_rank = plan.request.threads_per_stage;
  Run run(plan, data, options, events, stop);
  int64_t bytes = 0;
  for (const ArenaLayout& arena : plan.arenas) bytes += arena.memory.total;
  if (absl::Status status = run.Prepare(bytes, nullptr); !status.ok()) return status;
  InProcessGroup group(ranks, EdgeCapacity(plan), SpinOf(CoresToUse() >= ranks * threads_per_rank));
  std::optional<Watchdog> watchdog;
  if (IsWatched(options, ranks)) Watch(options.watching, &group.communicator(0), &watchdog);
  std::vector<TrainResult> results(static_cast<size_t>(ranks));
  absl::Status status = RunRanks(
      group, ranks, {.threads_per_rank = threads_per_rank, .pin = options.running.pin_threads},
      [&run, &results, &watchdog](int rank, Communicator& world) {
        absl::StatusOr<TrainResult> result = run.Train(world, rank, BoardOf(&watchdog));
        if (!result.ok()) return result.status();
        results[static_cast<size_t>(rank)] = *std::move(result);
        return absl::OkStatus();
      });
  if (!status.ok()) return status;
  TrainResult all = std::move(results.front());
  for (size_t rank = 1; rank < results.size(); ++rank) Append(results[rank].trace, &all.trace);
  return all;
}

}  // namespace sluice
