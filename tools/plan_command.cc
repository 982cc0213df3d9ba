#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "partitioner/plan_file.h"
#include "schedules/render.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/layer_memory.h"
#include "tools/plan_flags.h"
#include "tools/plan_graph.h"
#include "tools/plan_source.h"
#include "tools/plan_table.h"
#include "tools/terminal.h"
#include "tools/units.h"

namespace sluice {
namespace {

// How often a plan that turns out too large is made again for less memory.
constexpr int kMostRepairs = 8;

std::vector<std::string> LayerNames(const PlanSource& source) {
  std::vector<std::string> names;
  for (const LayerCost& layer : source.layers) names.push_back(layer.name);
  return names;
}

absl::StatusOr<PlanRequest> MakeRequest(const PlanFlags& flags, const PlanChoices& choices,
                                        const PlanSource& source, const CostTable& costs) {
  PlanRequest request;
  request.costs = &costs;
  request.devices = flags.devices;
  request.schedule = flags.schedule;
  request.chunks = flags.chunks.value_or(0);
  request.policies = choices.policies;
  request.link = source.link;
  request.memory_limit = source.memory;
  request.objective = choices.objective;
  absl::StatusOr<int> micro_batches = MicroBatches(flags, source.batch.size);
  if (!micro_batches.ok()) return micro_batches.status();
  request.micro_batches = *micro_batches;
  if (!flags.partition.empty()) {
    absl::StatusOr<Partition> partition = ParsePartition(flags.partition, costs.layer_count());
    if (!partition.ok()) return partition.status();
    request.partition = *std::move(partition);
  }
  return request;
}

// Replaces the bytes that the planner counted by what a run allocates.
absl::Status SetRunMemory(const PlanSource& source, OptimizerKind optimizer, Plan* plan) {
  if (!source.context.spec) return absl::OkStatus();
  absl::StatusOr<std::vector<int64_t>> exact =
      RunMemory(*source.context.spec, source.batch, source.context.dtype, optimizer,
                plan->timetable, plan->assignment);
  if (!exact.ok()) return exact.status();
  plan->peak_bytes = *std::move(exact);
  return absl::OkStatus();
}

bool Fits(const Plan& plan, const std::optional<int64_t>& limit) {
  return !limit || *std::max_element(plan.peak_bytes.begin(), plan.peak_bytes.end()) <= *limit;
}

// Limits the layers' own bytes so that the device that was over saves what it was over.
int64_t TightenedLimit(const std::vector<int64_t>& declared, const std::vector<int64_t>& run,
                       int64_t limit, int64_t tightened) {
  for (size_t rank = 0; rank < run.size(); ++rank) {
    if (run[rank] > limit) tightened = std::min(tightened, declared[rank] - (run[rank] - limit));
  }
  return tightened;
}

// Plans by the layers' own bytes, which are a little less than a run allocates (alignment, messages
// ahead of their use, the packing of buffers), then asks what the run would allocate. A plan that
// does not fit after all is made again for less memory; the bound of the first one, made with more
// memory than there is, still holds.
absl::StatusOr<Plan> PlanWithinMemory(PlanRequest request, const PlanSource& source,
                                      OptimizerKind optimizer) {
  const std::optional<int64_t> limit = request.memory_limit;
  double lower_bound = 0;
  for (int repair = 0; repair <= kMostRepairs; ++repair) {
    absl::StatusOr<Plan> plan = MakePlan(request);
    if (!plan.ok() && plan.status().code() != absl::StatusCode::kFailedPrecondition) return plan;
    if (!plan.ok() || repair == kMostRepairs) break;
    const std::vector<int64_t> declared = plan->peak_bytes;
    if (absl::Status status = SetRunMemory(source, optimizer, &*plan); !status.ok()) return status;
    if (repair == 0) lower_bound = plan->lower_bound;
    plan->SetLowerBound(lower_bound);
    if (Fits(*plan, limit)) return plan;
    request.memory_limit =
        TightenedLimit(declared, plan->peak_bytes, *limit, *request.memory_limit);
    if (*request.memory_limit <= 0) break;
  }
  absl::StatusOr<Plan> leanest = MakeLeanestPlan(request);
  if (!leanest.ok()) return leanest;
  if (absl::Status status = SetRunMemory(source, optimizer, &*leanest); !status.ok()) return status;
  if (!Fits(*leanest, limit)) return NothingFits(*leanest, *limit);
  leanest->SetLowerBound(lower_bound);
  return leanest;
}

absl::StatusOr<std::string> Render(const PlanFlags& flags, const Plan& plan,
                                   const PlanSource& source) {
  const bool json_file = absl::EndsWith(flags.output, ".json") && flags.format == "text";
  if (flags.json || flags.format == "json" || json_file) {
    return FormatPlan(plan, source.context, LayerNames(source));
  }
  if (flags.format == "svg") return RenderSvg(plan.simulation, plan.timetable);
  if (flags.format == "megatron") {
    absl::StatusOr<std::string> layout =
        FormatMegatronLayout(plan.assignment.partition, LayerNames(source));
    if (layout.ok()) *layout += "\n";
    return layout;
  }
  return FormatPlanTable(plan, source, OutputColumns(), WantsColour() && flags.output.empty());
}

absl::Status RunPlan(const PlanFlags& flags) {
  const absl::StatusOr<PlanChoices> choices = ReadChoices(flags);
  if (!choices.ok()) return choices.status();
  if (NamesGraphFile(flags.model)) {
    const absl::StatusOr<std::string> text = PlanGraph(flags, *choices);
    return text.ok() ? WriteOutput(flags.output, *text) : text.status();
  }
  absl::StatusOr<PlanSource> source = LoadPlanSource(flags, *choices);
  if (!source.ok()) return source.status();
  const absl::StatusOr<CostTable> costs = CostTable::Create(source->layers);
  if (!costs.ok()) return costs.status();
  const absl::StatusOr<PlanRequest> request = MakeRequest(flags, *choices, *source, *costs);
  if (!request.ok()) return request.status();
  const absl::StatusOr<Plan> plan = PlanWithinMemory(*request, *source, choices->optimizer);
  if (!plan.ok()) return plan.status();
  const absl::StatusOr<std::string> text = Render(flags, *plan, *source);
  if (!text.ok()) return text.status();
  return WriteOutput(flags.output, *text);
}

}  // namespace

void AddPlanCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("plan", "Find the best partition and schedule of a model");
  command->footer(
      "Example: sluice plan gpt2 --devices 4 --device h200 --global-batch 64 -o plan.json");
  auto flags = std::make_shared<PlanFlags>();
  AddPlanFlags(*command, flags.get());
  command->callback([flags, exit_code] {
    const absl::Status status = RunPlan(*flags);
    if (status.ok()) return;
    *exit_code = Fail(status);
    if (status.code() == absl::StatusCode::kFailedPrecondition) *exit_code = kExitNoPlan;
  });
}

}  // namespace sluice
