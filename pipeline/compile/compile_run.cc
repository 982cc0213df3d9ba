#include "pipeline/compile/compile_run.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/kernels/kernel_threads.h"
#include "models/layers/trainable.h"
#include "pipeline/compile/memory/arena_layout.h"
#include "pipeline/compile/memory/memory_plan.h"
#include "pipeline/compile/plan/sharding.h"
#include "pipeline/compile/program/check_progress.h"
#include "pipeline/compile/program/compile_audit.h"
#include "pipeline/compile/program/compile_rank.h"
#include "pipeline/compile/replicas/check_audit.h"
#include "pipeline/compile/replicas/check_mirror.h"
#include "pipeline/compile/replicas/check_replicas.h"
#include "pipeline/compile/replicas/tied_parameters.h"
#include "schedules/counted.h"
#include "schedules/generators/recompute_ahead.h"
#include "schedules/lower.h"

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
  if (absl::Status status = CheckTrained(request.adaptation, layers); !status.ok()) return status;
  return layers;
}

// A program, and where its buffers lie.
struct PlacedProgram {
  RankProgram program;
  BufferLayout layout;
};

PlacedProgram Place(RankProgram program) {
  BufferLayout layout = PackBuffers(program.buffers);
  return {.program = std::move(program), .layout = std::move(layout)};
}

// Compiles `rank` with the widest window that needs no more memory than `narrow`.
absl::StatusOr<PlacedProgram> CompileWidest(const ProgramRequest& request, int rank,
                                            const MessageWindow& narrow) {
  absl::StatusOr<RankProgram> narrowest = CompileRank(request, rank, narrow);
  if (!narrowest.ok()) return narrowest.status();
  PlacedProgram least = Place(*std::move(narrowest));
  std::vector<MessageWindow> wider;
  for (const int width : kWideWindows) {
    if (width > narrow.sends) wider.push_back({.receives = width, .sends = width});
  }
  if (wider.empty()) return least;
  // What is alive with a window is alive with every wider one.
  const absl::StatusOr<RankProgram> next = CompileRank(request, rank, wider.back());
  if (!next.ok()) return next.status();
  if (PeakLiveBytes(next->buffers) > least.layout.bytes) return least;
  for (const MessageWindow& window : wider) {
    absl::StatusOr<RankProgram> wide = CompileRank(request, rank, window);
    if (!wide.ok()) return wide.status();
    if (PeakLiveBytes(wide->buffers) > least.layout.bytes) continue;
    PlacedProgram placed = Place(*std::move(wide));
    if (placed.layout.bytes <= least.layout.bytes) return placed;
  }
  return least;
}

// Of those ranks whose sends wait, the ones that could have more on their way to a rank.
std::vector<int> CouldSendMore(const std::vector<int>& waiting,
                               const std::vector<RankProgram>& programs,
                               const std::vector<MessageWindow>& windows) {
  std::vector<int> could;
  for (int rank : waiting) {
    const std::vector<int>& sends = programs[rank].sends;
    if (windows[rank].sends < *std::max_element(sends.begin(), sends.end())) could.push_back(rank);
  }
  return could;
}

// The programs of a pipeline's ranks, and where their buffers lie.
struct PipelinePrograms {
  std::vector<RankProgram> programs;  // [rank]
  std::vector<BufferLayout> layouts;  // [rank]
};

// Compiles those ranks anew, each with its window.
absl::Status CompileRanks(const ProgramRequest& request, const std::vector<int>& ranks,
                          const std::vector<MessageWindow>& windows, ForEach for_each,
                          PipelinePrograms* pipeline) {
  std::vector<absl::Status> statuses(ranks.size());
  absl::Status compiled = for_each(ranks.size(), [&](size_t i) {
    const auto rank = static_cast<size_t>(ranks[i]);
    absl::StatusOr<PlacedProgram> placed = CompileWidest(request, ranks[i], windows[rank]);
    statuses[i] = placed.status();
    if (!placed.ok()) return;
    pipeline->programs[rank] = std::move(placed->program);
    pipeline->layouts[rank] = std::move(placed->layout);
  });
  if (!compiled.ok()) return compiled;
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Programs of all ranks that come to an end together. Where ranks would wait for each other to take
// what they send, as in orders that run far ahead, those that do get a window twice as wide, until
// it holds all of their messages: what waits then waits for something else.
absl::StatusOr<PipelinePrograms> CompileTogether(const ProgramRequest& request, int ranks,
                                                 ForEach for_each) {
  const auto count = static_cast<size_t>(ranks);
  PipelinePrograms pipeline{.programs = std::vector<RankProgram>(count),
                            .layouts = std::vector<BufferLayout>(count)};
  std::vector<MessageWindow> windows(count, kNarrow);
  std::vector<int> compile(count);
  std::iota(compile.begin(), compile.end(), 0);
  while (true) {
    if (absl::Status status = CompileRanks(request, compile, windows, for_each, &pipeline);
        !status.ok())
      return status;
    const ProgramProgress progress = CheckProgress(pipeline.programs);
    if (progress.status.ok()) return pipeline;
    compile = CouldSendMore(progress.cannot_send, pipeline.programs, windows);
    if (compile.empty()) return progress.status;
    for (int rank : compile) windows[static_cast<size_t>(rank)].sends *= 2;
  }
}

absl::StatusOr<PipelinePrograms> CompilePrograms(const RunPlan& plan, const Timetable& table,
                                                 ForEach for_each) {
  const ProgramRequest request{.layers = &plan.layers,
                               .timetable = &table,
                               .deal = &plan.deal,
                               .partition = &plan.request.partition,
                               .recompute = plan.request.recompute,
                               .recompute_ahead = plan.request.recompute_ahead,
                               .batch_rows = plan.request.batch.rows(),
                               .documents = plan.request.documents,
                               .sum_groups = plan.sum_groups() / plan.replicas(),
                               .replicas = plan.replicas(),
                               .shards = &plan.shards,
                               .shard_gradients = plan.zero() >= 2,
                               .gather_gradients = plan.zero() == 0};
  return CompileTogether(request, plan.ranks(), for_each);
}

// A step's updates must end with it, and each copy of the model must have a part in it.
absl::Status CheckSteps(const RunPlan& plan) {
  const int micro_batches = plan.lowered.micro_batches;
  const int step = plan.step_micro_batches();
  if (micro_batches % step != 0 || step % plan.update_micro_batches() != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule '", plan.lowered.name, "' has ",
                     Counted(micro_batches, "micro-batch"), " and changes the weights every ",
                     plan.update_micro_batches(), "; steps of ", step, " do not fit"));
  }
  if (const int copies = plan.lowered.placement.copies(); step < copies) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule '", plan.lowered.name, "' has ", copies,
        " copies of the model and needs at least ", copies, " micro-batches per step, not ", step,
        ": each copy trains on some of them; give more (--micro-batches), or take another "
        "schedule"));
  }
  if (plan.asynchronous() && !TiedPairs(plan).empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule '", plan.lowered.name,
        "' changes each stage's weights on its own, but the model's ",
        "head and embedding are tied: their gradients meet only in a flush; train without --tied"));
  }
  return absl::OkStatus();
}

// By groups of gradients, as many as are summed.
StageDeal DealOf(const RunRequest& request, const Timetable& table) {
  if (request.stage_members.empty()) return StageDeal(table.placement);
  const int groups = request.sum_groups > 0 ? request.sum_groups : table.micro_batches;
  return {request.stage_members, std::max(table.micro_batches / groups, 1)};
}

// What is computed in a step, with what is rebuilt ahead.
Timetable StepOf(const RunRequest& request) {
  Timetable table = ComputeOnly(request.timetable);
  if (!request.recompute_ahead) return table;
  std::vector<bool> stages;
  for (const Recompute policy : request.recompute) stages.push_back(policy != Recompute::kNone);
  stages.resize(static_cast<size_t>(table.placement.model_stages()));  // CompileRank says if not
  return RecomputeAhead(table, stages);
}

ShardBounds CutShards(const RunPlan& plan) {
  const std::vector<int> ranks = RankOfLayers(plan);
  std::vector<int> slices;
  for (const int rank : ranks) slices.push_back(plan.GroupOf(rank).size);
  return CutParameters(plan.layers, ranks, slices);
}

// Of every rank of the world, with its step's buffers where its rank of the pipeline has them.
absl::Status LayOutArenas(const std::vector<BufferLayout>& train,
                          const std::vector<BufferLayout>& evaluate, ForEach for_each,
                          RunPlan* plan) {
  plan->arenas.resize(static_cast<size_t>(plan->world_size()));
  return for_each(plan->arenas.size(), [&](size_t i) {
    const auto rank = static_cast<int>(i);
    const auto of_pipeline = static_cast<size_t>(plan->pipeline_rank(rank));
    plan->arenas[i] = LayOutArena(*plan, rank, train[of_pipeline], evaluate[of_pipeline]);
  });
}

}  // namespace

absl::Status OneAfterAnother(size_t n, absl::FunctionRef<void(size_t)> work) {
  for (size_t i = 0; i < n; ++i) work(i);
  return absl::OkStatus();
}

absl::StatusOr<RunPlan> CompileRun(const RunRequest& request, ForEach for_each) {
  absl::StatusOr<Timetable> lowered = LowerTimetable(StepOf(request));
  if (!lowered.ok()) return lowered.status();
  absl::StatusOr<std::vector<LayerDecl>> layers = DeclareLayers(request);
  if (!layers.ok()) return layers.status();
  if (absl::Status status = CheckStageMembers(request, *lowered); !status.ok()) return status;
  StageDeal deal = DealOf(request, *lowered);
  RunPlan plan{.request = request,
               .lowered = *std::move(lowered),
               .deal = std::move(deal),
               .layers = *std::move(layers)};
  if (absl::Status status = CheckSteps(plan); !status.ok()) return status;
  if (absl::Status status = CheckReplicas(plan); !status.ok()) return status;
  if (absl::Status status = CheckMirror(plan); !status.ok()) return status;
  if (absl::Status status = CheckAudit(plan); !status.ok()) return status;
  plan.shards = CutShards(plan);
  absl::StatusOr<PipelinePrograms> train = CompilePrograms(plan, plan.lowered, for_each);
  if (!train.ok()) return train.status();
  plan.train = std::move(train->programs);
  absl::StatusOr<PipelinePrograms> evaluate =
      CompilePrograms(plan, ForwardOnly(plan.lowered, plan.step_micro_batches()), for_each);
  if (!evaluate.ok()) return evaluate.status();
  plan.evaluate = std::move(evaluate->programs);
  plan.stage_audits = CompileAudits(plan);
  absl::Status laid_out = LayOutArenas(train->layouts, evaluate->layouts, for_each, &plan);
  if (!laid_out.ok()) return laid_out;
  for (const RankProgram& program : plan.train) {
    for (int messages : program.sends) plan.max_messages = std::max(plan.max_messages, messages);
  }
  return plan;
}

}  // namespace sluice
