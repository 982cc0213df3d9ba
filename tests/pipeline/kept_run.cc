#include "tests/pipeline/kept_run.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/run/rank_threads.h"
#include "pipeline/train/rank_trainer.h"
#include "pipeline/train/run_checkpoint.h"

namespace sluice {
namespace {

// Trains as one rank, from the state that its `state` holds.
absl::Status TrainOne(const RunContext& context, RankState& state, Communicator& world,
                      Outcome* outcome) {
  std::unique_ptr<Communicator> joined;
  Communicator* tensors = &world;
  if (const auto& devices = context.options->running.devices; !devices.empty()) {
    absl::StatusOr<std::unique_ptr<Communicator>> connected =
        devices[static_cast<size_t>(world.rank())].connect(state.stream(), &world);
    if (!connected.ok()) return connected.status();
    joined = *std::move(connected);
    tensors = joined.get();
  }
  std::atomic<Action> at{Action()};
  RankTrainer trainer(context, &state, &world, tensors, &at);
  absl::Status status = trainer.Run();
  if (!status.ok()) tensors->Abort(status);
  if (world.rank() != 0) return status;
  outcome->weights_hash = trainer.summary().weights_hash;
  outcome->eval_loss = trainer.summary().eval_loss;
  return status;
}

// Values as fp32, of one tensor of a rank's arena.
std::vector<float> Values(const RankState& state, const HeldTensor& tensor, int64_t count) {
  HostReader reader(&state.device(), state.stream());
  const float* const values = reader.Read(tensor, 0, count);
  return {values, values + count};
}

}  // namespace

absl::StatusOr<KeptRun> TrainAndKeep(const RunPlan& plan, const TrainOptions& options) {
  const HashedData data(plan.request.spec, plan.request.batch.seq, plan.request.documents);
  KeptRun run;
  TrainEvents events;
  events.on_step = [&run](const StepMetrics& metrics) {
    run.outcome.losses.push_back(LossHex(metrics.loss));
    run.outcome.norms.push_back(metrics.grad_norm);
    for (size_t rank = 0; rank < metrics.peak_bytes.size(); ++rank)
      EXPECT_EQ(metrics.peak_bytes[rank], metrics.arena_bytes[rank]) << "rank " << rank;
  };
  RunContext context{.plan = &plan, .data = &data, .options = &options, .events = &events};
  ResumePoint resume;
  if (!options.saving.resume.empty()) {
    absl::StatusOr<ResumePoint> opened =
        OpenResumePoint(options.saving.resume, plan, options, data);
    if (!opened.ok()) return opened.status();
    resume = *std::move(opened);
    context.last.step = resume.step;
  }
  context.traits = TraitsOf(plan, options, data, {.step = context.last.step});
  run.states.resize(static_cast<size_t>(plan.world_size()));
  InProcessGroup group(plan.world_size(), EdgeCapacity(plan));
  absl::Status status = RunRanks(
      group, plan.world_size(), {.threads_per_rank = plan.request.threads_per_stage, .pin = false},
      [&](int rank, Communicator& world) {
        const auto& devices = options.running.devices;
        const auto at = static_cast<size_t>(rank);
        absl::StatusOr<std::unique_ptr<RankState>> state =
            RankState::Create(plan, rank, devices.empty() ? CpuDevice() : *devices[at].device);
        if (!state.ok()) return state.status();
        (*state)->Initialize(options.training.seed);
        absl::Status loaded = options.saving.resume.empty()
                                  ? absl::OkStatus()
                                  : LoadState(*resume.checkpoint, **state);
        if (!loaded.ok()) return loaded;
        (*state)->Pack();
        run.states[at] = *std::move(state);
        return TrainOne(context, *run.states[at], world, &run.outcome);
      });
  if (!status.ok()) return status;
  return run;
}

HeldTensor MirroredTensor(const RankState& state, int global_index, StateKind kind) {
  for (const ParameterView& view : state.mirrored()) {
    if (view.global_index == global_index) return TensorOf(view, kind);
  }
  return {};
}

std::string MirrorDifferences(const std::vector<std::unique_ptr<RankState>>& states) {
  std::string differences;
  for (const std::unique_ptr<RankState>& mirror : states) {
    const int rank = mirror->plan().MirroredRank(mirror->rank());
    const RankState& owner = *states[static_cast<size_t>(rank)];
    std::set<int> trained, mirrored;
    for (const ParameterView& view : mirror->mirrored()) mirrored.insert(view.global_index);
    for (const ParameterView& view : owner.parameters()) {
      if (view.decl->frozen) continue;
      trained.insert(view.global_index);
      for (const StateKind kind : {StateKind::kWeight, StateKind::kMoment1, StateKind::kMoment2}) {
        const HeldTensor own = TensorOf(view, kind);
        const HeldTensor copy = MirroredTensor(*mirror, view.global_index, kind);
        if (own.data == nullptr && copy.data == nullptr) continue;
        const bool both = own.data != nullptr && copy.data != nullptr && own.dtype == copy.dtype;
        const std::vector<float> a = both ? Values(owner, own, view.elements) : std::vector{0.0f};
        const std::vector<float> b =
            both ? Values(*mirror, copy, view.elements) : std::vector{1.0f};
        if (std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0) continue;
        absl::StrAppend(&differences, "rank ", rank, "'s ", view.decl->name, " (kind ",
                        static_cast<int>(kind), ") is another on rank ", mirror->rank(), "\n");
      }
    }
    if (trained != mirrored)
      absl::StrAppend(&differences, "rank ", rank, " trains other parameters\n");
  }
  return differences;
}

}  // namespace sluice
