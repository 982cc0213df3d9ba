#include "pipeline/run_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/kernel_threads.h"
#include "pipeline/memory_plan.h"
#include "pipeline/tied_parameters.h"
#include "schedules/csv.h"
#include "schedules/lower.h"

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

// Puts tensors one behind the other.
class Shelf {
 public:
  int64_t Take(int64_t bytes) { return std::exchange(end_, end_ + AlignUp(bytes)); }
  int64_t end() const { return end_; }

 private:
  int64_t end_ = 0;
};

using Offsets = std::vector<std::vector<int64_t>>;

int64_t ShelveParameters(const RunPlan& plan, const RankProgram& program, Shelf& shelf,
                         Offsets& offsets) {
  const int64_t start = shelf.end();
  for (int layer : program.layers) {
    std::vector<int64_t>& of_layer = offsets.emplace_back();
    for (const ParameterDecl& parameter : plan.layers[static_cast<size_t>(layer)].parameters) {
      of_layer.push_back(shelf.Take(ElementCount(parameter.shape) * SizeOf(DType::kFloat32)));
    }
  }
  return shelf.end() - start;
}

// What the exchange of tied gradients between two ranks needs after the step.
int64_t TiedBytes(const RunPlan& plan, int rank) {
  int64_t bytes = 0;
  for (const TiedPair& pair : TiedPairs(plan)) {
    if (pair.original_rank == pair.copy_rank) continue;
    if (pair.original_rank == rank || pair.copy_rank == rank)
      bytes = std::max(bytes, AlignUp(pair.bytes));
  }
  return bytes;
}

ArenaLayout LayOutArena(const RunPlan& plan, const RankProgram& train,
                        const RankProgram& evaluate) {
  ArenaLayout arena;
  Shelf shelf;
  arena.memory.parameters = ShelveParameters(plan, train, shelf, arena.weights);
  arena.memory.gradients = ShelveParameters(plan, train, shelf, arena.gradients);
  arena.memory.optimizer = ShelveParameters(plan, train, shelf, arena.moments1);
  if (plan.request.optimizer == OptimizerKind::kAdamW) {
    arena.memory.optimizer += ShelveParameters(plan, train, shelf, arena.moments2);
  }
  const int64_t packed = shelf.end();
  for (int layer : train.layers) {
    arena.packed.push_back(
        shelf.Take(static_cast<int64_t>(plan.layers[static_cast<size_t>(layer)].packed_bytes)));
  }
  arena.memory.packed = shelf.end() - packed;

  BufferLayout step = PackBuffers(train.buffers);
  BufferLayout evaluation = PackBuffers(evaluate.buffers);
  for (int64_t& offset : step.offsets) offset += shelf.end();
  for (int64_t& offset : evaluation.offsets) offset += shelf.end();
  arena.step_region = shelf.end();
  arena.memory.activations = std::max({step.bytes, evaluation.bytes, TiedBytes(plan, train.rank)});
  arena.memory.total = shelf.end() + arena.memory.activations;
  arena.train = std::move(step.offsets);
  arena.evaluate = std::move(evaluation.offsets);
  return arena;
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
                               .batch_rows = plan.request.batch.rows()};
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    absl::StatusOr<RankProgram> program = CompileWidest(request, rank);
    if (!program.ok()) return program.status();
    programs.push_back(*std::move(program));
  }
  return CheckProgress(programs);
}

uint64_t Fingerprint(const RunPlan& plan) {
  const RunRequest& request = plan.request;
  std::string text = absl::StrCat(
      FormatTimetableCsv(plan.lowered), FormatPartition(request.partition), "|", request.batch.size,
      "x", request.batch.seq, DTypeName(request.dtype), "|", static_cast<int>(request.optimizer));
  for (Recompute policy : request.recompute) absl::StrAppend(&text, "|", static_cast<int>(policy));
  for (const LayerDecl& layer : plan.layers) {
    absl::StrAppend(&text, "|", layer.name);
    for (const ParameterDecl& parameter : layer.parameters) {
      absl::StrAppend(&text, ",", parameter.name, ":", ElementCount(parameter.shape));
    }
  }
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Layer>> RunRequest::MakeLayerAt(int index) const {
  return make_layer ? make_layer(index) : MakeLayer(spec, index, batch, dtype, CpuKernels());
}

absl::StatusOr<RunPlan> CompileRun(const RunRequest& request) {
  absl::StatusOr<Timetable> lowered = LowerTimetable(ComputeOnly(request.timetable));
  if (!lowered.ok()) return lowered.status();
  absl::StatusOr<std::vector<LayerDecl>> layers = DeclareLayers(request);
  if (!layers.ok()) return layers.status();
  RunPlan plan{.request = request, .lowered = *std::move(lowered), .layers = *std::move(layers)};
  if (absl::Status status = CompilePrograms(plan, plan.lowered, plan.train); !status.ok())
    return status;
  if (absl::Status status = CompilePrograms(plan, ForwardOnly(plan.lowered), plan.evaluate);
      !status.ok()) {
    return status;
  }
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
    const Partition& partition, Recompute recompute, OptimizerKind optimizer) {
  absl::StatusOr<RunPlan> plan =
      CompileRun({.spec = spec,
                  .batch = batch,
                  .dtype = dtype,
                  .timetable = timetable,
                  .partition = partition,
                  .recompute = std::vector<Recompute>(
                      static_cast<size_t>(timetable.placement.stages()), recompute),
                  .optimizer = optimizer});
  if (!plan.ok()) return plan.status();
  std::vector<RankMemory> memory;
  for (const ArenaLayout& arena : plan->arenas) memory.push_back(arena.memory);
  return memory;
}

}  // namespace sluice
