#include "pipeline/trainer.h"

#include <memory>
#include <utility>

#include "pipeline/arena.h"
#include "pipeline/rank_threads.h"
#include "pipeline/rank_trainer.h"
#include "pipeline/run_checkpoint.h"

namespace sluice {
namespace {

// Messages outside the timetable (tied gradients, sums over replicas, checkpoints) that may be on
// an edge besides a step's own.
constexpr size_t kExtraMessages = 16;
constexpr absl::Duration kSpin = absl::Microseconds(100);

class InProcessRun {
 public:
  InProcessRun(const RunPlan& plan, const Dataset& data, const TrainOptions& options,
               const TrainEvents& events, const std::atomic<bool>* stop)
      : plan_(plan),
        options_(options),
        group_(plan.world_size(), static_cast<size_t>(plan.max_messages) + kExtraMessages,
               // Spinning pays only while every rank has a core to itself.
               CoresForRanks() >= plan.world_size() * plan.request.threads_per_stage
                   ? kSpin
                   : absl::ZeroDuration()),
        traces_(static_cast<size_t>(plan.world_size())) {
    context_ = {.plan = &plan,
                .data = &data,
                .options = &options,
                .events = &events,
                .stop = stop,
                .first_step = 0};
  }

  absl::StatusOr<TrainResult> Run() {
    int64_t bytes = 0;
    for (const ArenaLayout& arena : plan_.arenas) bytes += arena.memory.total;
    if (absl::Status status = CheckAvailable(bytes); !status.ok()) return status;
    if (!options_.resume.empty()) {
      absl::StatusOr<ResumePoint> resume =
          OpenResumePoint(options_.resume, plan_, options_, *context_.data);
      if (!resume.ok()) return resume.status();
      resume_ = *std::move(resume);
      context_.first_step = resume_.step;
    }
    absl::Status status = RunRanks(
        group_, plan_.world_size(),
        {.threads_per_rank = plan_.request.threads_per_stage, .pin = options_.pin_threads},
        [this](int rank, Communicator& communicator) { return RunRank(rank, communicator); });
    if (!status.ok()) return status;
    for (std::vector<TracedAction>& trace : traces_) {
      result_.trace.insert(result_.trace.end(), trace.begin(), trace.end());
    }
    return std::move(result_);
  }

 private:
  absl::Status RunRank(int rank, Communicator& communicator) {
    absl::StatusOr<std::unique_ptr<RankState>> state = RankState::Create(plan_, rank);
    if (!state.ok()) return state.status();
    if (absl::Status status = Start(**state); !status.ok()) return status;
    RankTrainer trainer(context_, state->get(), &communicator);
    if (absl::Status status = trainer.Run(); !status.ok()) return status;
    traces_[static_cast<size_t>(rank)] = trainer.trace();
    if (rank == 0) result_.summary = trainer.summary();
    return absl::OkStatus();
  }

  absl::Status Start(RankState& state) {
    state.Initialize(options_.seed);
    absl::Status status = absl::OkStatus();
    if (!options_.resume.empty()) {
      status = LoadState(resume_, state);
    } else if (!options_.init.empty()) {
      status = LoadInitialWeights(options_.init, state);
    }
    state.Pack();
    return status;
  }

  const RunPlan& plan_;
  const TrainOptions& options_;
  InProcessGroup group_;
  RunContext context_;
  ResumePoint resume_;
  std::vector<std::vector<TracedAction>> traces_;  // [rank]
  TrainResult result_;
};

}  // namespace

absl::StatusOr<TrainResult> TrainInProcess(const RunPlan& plan, const Dataset& data,
                                           const TrainOptions& options, const TrainEvents& events,
                                           const std::atomic<bool>* stop) {
  return InProcessRun(plan, data, options, events, stop).Run();
}

}  // namespace sluice
