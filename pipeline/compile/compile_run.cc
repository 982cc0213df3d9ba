#include "pipeline/compile/compile_run.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "pipeline/compile/memory/arena_layout.h"
#include "pipeline/compile/memory/memory_plan.h"
#include "pipeline/compile/plan/kernel_threads.h"
#include "pipeline/compile/plan/sharding.h"
#include "pipeline/compile/program/check_progress.h"
#include "pipeline/compile/program/compile_rank.h"
#include "pipeline/compile/replicas/check_replicas.h"
#include "pipeline/compile/replicas/tied_parameters.h"
#include "schedules/generators/recompute_ahead.h"
#include "schedules/lower.h"

namespace sluice {
namespace {

// The least that lets a message travel while its neighbours are computed on.
constexpr MessageWindow kNarrow{.receives = 2, .sends = 2};
// Wider ones, widest first; taken only where they cost no memory.
constexpr int kWideWindows[] = {64, 16, 8, 4, 3};

// That every pattern and every target names something, and that something is left to train.
absl::Status CheckTrained(const Adaptation& adaptation, const std::vector<LayerDecl>& layers) {
  std::vector<std::string> names;
  bool trained = false;
  for (const LayerDecl& layer : layers) {
    for (const ParameterDecl& parameter : layer.parameters) {
      names.push_back(parameter.name);
      trained = trained || !parameter.frozen;
    }
  }
  const auto named = [&names](const std::string& pattern) {
    return std::any_of(names.begin(), names.end(), [&pattern](const std::string& name) {
      return MatchesPattern(pattern, name);
    });
  };
  for (const std::string& pattern : adaptation.freeze) {
    if (named(pattern)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--freeze ", pattern,
                     " names no parameter of the model; expected a pattern of names such "
                     "as ",
                     names.front(), " and ", names.back()));
  }
  const std::vector<std::string> targets =
      adaptation.lora.has_value() ? adaptation.lora->targets : std::vector<std::string>{};
  for (const std::string& target : targets) {
    if (named(AdapterA(absl::StrCat("*", target)))) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("--lora targets=", target,
                     ": no linear map of the model's blocks is called so; its "
                     "parameters are named as ",
                     names[names.size() / 2]));
  }
  if (trained || names.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "every parameter of the model is frozen: nothing is left to train; give --freeze fewer "
      "patterns");
}

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

// Compiles `rank` with the widest window that needs no more memory than `narrow`.
absl::StatusOr<RankProgram> CompileWidest(const ProgramRequest& request, int rank,
                                          const MessageWindow& narrow) {
  absl::StatusOr<RankProgram> least_program = CompileRank(request, rank, narrow);
  if (!least_program.ok()) return least_program;
  const int64_t least = PackBuffers(least_program->buffers).bytes;
  for (int width : kWideWindows) {
    if (width <= narrow.sends) break;
    absl::StatusOr<RankProgram> wide =
        CompileRank(request, rank, {.receives = width, .sends = width});
    if (!wide.ok()) return wide;
    if (PeakLiveBytes(wide->buffers) <= least && PackBuffers(wide->buffers).bytes <= least)
      return wide;
  }
  return least_program;
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

// Programs of all ranks that come to an end together. Where ranks would wait for each other to take
// what they send, as in orders that run far ahead, those that do get a window twice as wide, until
// it holds all of their messages: what waits then waits for something else.
absl::Status CompileTogether(const ProgramRequest& request, int ranks,
                             std::vector<RankProgram>& programs) {
  std::vector<MessageWindow> windows(ranks, kNarrow);
  std::vector<int> compile(ranks);
  std::iota(compile.begin(), compile.end(), 0);
  programs.resize(ranks);
  while (true) {
    for (int rank : compile) {
      absl::StatusOr<RankProgram> program = CompileWidest(request, rank, windows[rank]);
      if (!program.ok()) return program.status();
      programs[rank] = *std::move(program);
    }
    const Progress progress = CheckProgress(programs);
    compile = CouldSendMore(progress.cannot_send, programs, windows);
    if (progress.status.ok() || compile.empty()) return progress.status;
    for (int rank : compile) windows[rank].sends *= 2;
  }
}

absl::Status CompilePrograms(const RunPlan& plan, const Timetable& table,
                             std::vector<RankProgram>& programs) {
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
  return CompileTogether(request, plan.ranks(), programs);
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

void LayOutArenas(RunPlan* plan) {
  std::vector<StepLayout> steps;
  for (size_t rank = 0; rank < plan->train.size(); ++rank)
    steps.push_back(LayOutStep(plan->train[rank], plan->evaluate[rank]));
  for (int rank = 0; rank < plan->world_size(); ++rank) {
    plan->arenas.push_back(
        LayOutArena(*plan, rank, steps[static_cast<size_t>(plan->pipeline_rank(rank))]));
  }
}

}  // namespace

absl::StatusOr<RunPlan> CompileRun(const RunRequest& request) {
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
  plan.shards = CutShards(plan);
  if (absl::Status status = CompilePrograms(plan, plan.lowered, plan.train); !status.ok())
    return status;
  const Timetable forward = ForwardOnly(plan.lowered, plan.step_micro_batches());
  if (absl::Status status = CompilePrograms(plan, forward, plan.evaluate); !status.ok())
    return status;
  LayOutArenas(&plan);
  for (const RankProgram& program : plan.train) {
    for (int messages : program.sends) plan.max_messages = std::max(plan.max_messages, messages);
  }
  return plan;
}

}  // namespace sluice
