#include "pipeline/run_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/arena_layout.h"
#include "pipeline/kernel_threads.h"
#include "pipeline/memory_plan.h"
#include "pipeline/tied_parameters.h"
#include "schedules/csv.h"
#include "schedules/lower.h"
#include "schedules/weight_versions.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {
namespace {

// The least that lets a message travel while its neighbours are computed on.
constexpr MessageWindow kNarrow{.receives = 2, .sends = 2};
// Wider ones, widest first; taken only where they cost no memory.
constexpr int kWideWindows[] = {64, 16, 8, 4, 3};

absl::StatusOr<std::vector<LayerDecl>> DeclareLayers(const RunRequest& request) {
  const KernelThreads threads(request.threads_per_stage);
  std::vector<LayerDecl> layers;
  for (int index = 0; index < request.spec.layer_count(); ++index) {
    absl::StatusOr<std::unique_ptr<Layer>> layer = request.MakeLayerAt(index);
    if (!layer.ok()) return layer.status();
    layers.push_back((*layer)->decl());
  }
  return layers;
}

// Compiles `rank` with the widest window that needs no more memory than the narrow one.
absl::StatusOr<RankProgram> CompileWidest(const ProgramRequest& request, int rank) {
  absl::StatusOr<RankProgram> narrow = CompileRank(request, rank, kNarrow);
  if (!narrow.ok()) return narrow;
  const int64_t least = PackBuffers(narrow->buffers).bytes;
  for (int width : kWideWindows) {
    absl::StatusOr<RankProgram> wide =
        CompileRank(request, rank, {.receives = width, .sends = width});
    if (!wide.ok()) return wide;
    if (PeakLiveBytes(wide->buffers) <= least && PackBuffers(wide->buffers).bytes <= least)
      return wide;
  }
  return narrow;
}

absl::Status CompilePrograms(const RunPlan& plan, const Timetable& table,
                             std::vector<RankProgram>& programs) {
  const ProgramRequest request{.layers = &plan.layers,
                               .timetable = &table,
                               .partition = &plan.request.partition,
                               .recompute = plan.request.recompute,
                               .batch_rows = plan.request.batch.rows(),
                               .sum_groups = plan.request.sum_groups};
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    absl::StatusOr<RankProgram> program = CompileWidest(request, rank);
    if (!program.ok()) return program.status();
    programs.push_back(*std::move(program));
  }
  return CheckProgress(programs);
}

uint64_t Fingerprint(const RunPlan& plan) {
  const RunRequest& request = plan.request;
  std::string text =
      absl::StrCat(FormatTimetableCsv(plan.lowered), FormatPartition(request.partition), "|",
                   request.batch.size, "x", request.batch.seq, DTypeName(request.dtype), "|",
                   static_cast<int>(request.optimizer), "|", request.sum_groups, "|",
                   request.step_micro_batches, "|", static_cast<int>(request.timetable.updates));
  for (Recompute policy : request.recompute) absl::StrAppend(&text, "|", static_cast<int>(policy));
  for (const LayerDecl& layer : plan.layers) {
    absl::StrAppend(&text, "|", layer.name);
    for (const ParameterDecl& parameter : layer.parameters) {
      absl::StrAppend(&text, ",", parameter.name, ":", ElementCount(parameter.shape));
    }
  }
  return XXH3_64bits(text.data(), text.size());
}

// A step's updates must end with it.
absl::Status CheckSteps(const RunPlan& plan) {
  const int micro_batches = plan.lowered.micro_batches;
  const int step = plan.step_micro_batches();
  if (micro_batches % step != 0 || step % plan.update_micro_batches() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule '", plan.lowered.name, "' has ", micro_batches,
                     " micro-batches and changes the weights every ", plan.update_micro_batches(),
                     "; steps of ", step, " do not fit"));
  }
  if (plan.asynchronous() && !TiedPairs(plan).empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule '", plan.lowered.name,
        "' changes each stage's weights on its own, but the model's ",
        "head and embedding are tied: their gradients meet only in a flush; train without --tied"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Layer>> RunRequest::MakeLayerAt(int index) const {
  return make_layer ? make_layer(index) : MakeLayer(spec, index, batch, dtype, CpuKernels());
}

int RunPlan::update_micro_batches() const { return MicroBatchesPerUpdate(lowered); }

absl::StatusOr<RunPlan> CompileRun(const RunRequest& request) {
  absl::StatusOr<Timetable> lowered = LowerTimetable(ComputeOnly(request.timetable));
  if (!lowered.ok()) return lowered.status();
  absl::StatusOr<std::vector<LayerDecl>> layers = DeclareLayers(request);
  if (!layers.ok()) return layers.status();
  RunPlan plan{.request = request, .lowered = *std::move(lowered), .layers = *std::move(layers)};
  if (absl::Status status = CheckSteps(plan); !status.ok()) return status;
  if (absl::Status status = CompilePrograms(plan, plan.lowered, plan.train); !status.ok())
    return status;
  const Timetable forward = ForwardOnly(plan.lowered, plan.step_micro_batches());
  if (absl::Status status = CompilePrograms(plan, forward, plan.evaluate); !status.ok())
    return status;
  for (size_t rank = 0; rank < plan.train.size(); ++rank) {
    plan.arenas.push_back(LayOutArena(plan, plan.train[rank], plan.evaluate[rank]));
    for (int messages : plan.train[rank].sends)
      plan.max_messages = std::max(plan.max_messages, messages);
  }
  plan.fingerprint = Fingerprint(plan);
  return plan;
}

absl::StatusOr<std::vector<RankMemory>> PredictMemory(
    const ModelSpec& spec, const BatchShape& batch, DType dtype, const Timetable& timetable,
    const Partition& partition, Recompute recompute, OptimizerKind optimizer, int sum_groups) {
  absl::StatusOr<RunPlan> plan =
      CompileRun({.spec = spec,
                  .batch = batch,
                  .dtype = dtype,
                  .timetable = timetable,
                  .partition = partition,
                  .recompute = std::vector<Recompute>(
                      static_cast<size_t>(timetable.placement.model_stages()), recompute),
                  .sum_groups = sum_groups,
                  .optimizer = optimizer});
  if (!plan.ok()) return plan.status();
  std::vector<RankMemory> memory;
  for (const ArenaLayout& arena : plan->arenas) memory.push_back(arena.memory);
  return memory;
}

}  // namespace sluice
