#include "partitioner/planning/answer/answer.h"

#include <functional>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/layers/adapted_layers.h"
#include "models/spec/costs/describe_layers.h"
#include "partitioner/graph_plan.h"
#include "partitioner/planning/answer/fit.h"
#include "partitioner/planning/answer/search.h"
#include "partitioner/planning/answer/variants.h"
#include "partitioner/planning/graph/graph_bottleneck.h"
#include "partitioner/planning/graph/graph_step.h"
#include "partitioner/planning/question/other_trainers.h"
#include "partitioner/planning/race/joint_plan.h"
#include "partitioner/planning/sources/cluster_prices.h"
#include "partitioner/planning/sources/source.h"

namespace sluice {
namespace {

// The error of a search that found no plan, which tells of the time limit where that ended the search.
absl::Status WhyNoPlan(const absl::Status& status, const std::function<bool()>& stop) {
  if (!absl::IsDeadlineExceeded(status) || !stop || !stop()) return status;
  return absl::DeadlineExceededError(
      absl::StrCat("no plan was found within the time limit, which does not prove that there is ",
                   "none (", status.message(), "); give a longer --time-limit"));
}

absl::StatusOr<Plan> PlanBottleneck(const PlanQuestion& question, const ProfileGraph& graph,
                                    const std::function<bool()>& stop) {
  GraphRequest request;
  request.graph = &graph;
  request.devices = question.devices;
  if (question.bandwidth) request.machines.link.bandwidth = *question.bandwidth;
  request.machines.memory_limit = question.memory;
  request.replicate = !question.data_parallel;
  request.stop = stop;
  return FindGraphBottleneckPlan(request);
}

absl::StatusOr<Plan> PlanStep(const PlanQuestion& question, const ProfileGraph& graph,
                              const std::function<bool()>& stop) {
  GraphStepRequest request;
  request.graph = &graph;
  request.devices = question.devices;
  request.micro_batches = question.micro_batches.value_or(kPlannedMicroBatches);
  request.schedule = question.schedule;
  request.chunks = question.chunks.value_or(0);
  if (question.bandwidth) request.machines.link.bandwidth = *question.bandwidth;
  if (question.latency) request.machines.link.latency = *question.latency;
  request.machines.memory_limit = question.memory;
  request.replicate = !question.data_parallel;
  request.gap = question.gap;
  request.stop = stop;
  return FindGraphStepPlan(request);
}

absl::StatusOr<PlanAnswer> AnswerGraph(const PlanQuestion& question, const ProfileGraph& graph) {
  const std::function<bool()> stop = StopAfter(question.time_limit, question.stop);
  absl::StatusOr<Plan> plan = question.objective == PlanObjective::kStep
                                  ? PlanStep(question, graph, stop)
                                  : PlanBottleneck(question, graph, stop);
  if (!plan.ok()) return WhyNoPlan(plan.status(), stop);
  PlanAnswer answer;
  answer.plan = *std::move(plan);
  answer.context.model = question.model;
  answer.context.graph = true;
  // Numbers of layers mean something only where there is one order.
  answer.context.one_order = graph.IsChain();
  for (const ProfileNode& node : graph.nodes) answer.context.layer_names.push_back(node.id);
  return answer;
}

// Of the whole model: with tensor parallelism the layers' costs are those of one device's part.
int64_t ParametersOf(const PlanQuestion& question, const JointPlan& best) {
  if (best.setting.tensor > 1 && question.spec() != nullptr) {
    return TrainedParameterCount(*question.spec()->decoder(), question.adaptation);
  }
  int64_t sum = 0;
  for (const LayerCost& layer : best.machines.costs->layers()) sum += layer.parameters;
  return sum;
}

// PlanContext::model_flops.
double ModelFlops(const PlanQuestion& question, const PlanSource& source, const JointPlan& best) {
  const ModelSpec* spec = source.spec ? &*source.spec : question.spec();
  if (spec == nullptr) return 0;
  const BatchShape batch{best.setting.micro_batch_size, source.batch.seq};
  const std::vector<LayerSpec> layers = source.adaptation == Adaptation()
                                            ? DescribeLayers(*spec, batch)
                                            : DescribeAdapted(*spec, batch, source.adaptation);
  return FlopsPerMicroBatch(layers) * best.setting.micro_batches * best.setting.data;
}

// PlanContext::peak_flops. Nobody knows that of a processor, nor of what was profiled.
double PeakFlops(const PlanQuestion& question, DType dtype, const PlanSetting& setting) {
  if (std::holds_alternative<Profile>(question.subject)) return 0;
  const int shared = setting.data * setting.tensor;
  if (question.device) return question.device->flops(dtype) * shared * setting.pipeline;
  if (!question.cluster) return 0;
  double sum = 0;
  for (int rank = 0; rank < setting.pipeline; ++rank) {
    const int kind = setting.rank_devices.empty() ? 0 : setting.rank_devices[rank];
    sum += question.cluster->devices[kind].flops(dtype) * shared;
  }
  return sum;
}

// PlanContext::rank_devices.
std::vector<RankDevices> DevicesOf(const PlanQuestion& question, const PlanSetting& setting) {
  std::vector<RankDevices> devices;
  if (setting.rank_devices.empty()) return devices;
  const int shared = setting.data * setting.tensor;
  for (const int group : GroupsOf(*question.cluster, setting)) {
    const int first = group * shared;
    devices.push_back({question.cluster->device(first).name, first, first + shared - 1});
  }
  return devices;
}

PlanContext ContextOf(const PlanQuestion& question, const PlanSource& source,
                      const JointPlan& best) {
  PlanContext context;
  context.model = source.model;
  context.spec = source.spec;
  for (const LayerCost& layer : best.machines.costs->layers()) {
    context.layer_names.push_back(layer.name);
  }
  context.micro_batch_size = best.setting.micro_batch_size;
  context.seq = source.batch.seq;
  context.dtype = source.dtype;
  context.adaptation = source.adaptation;
  context.master_weights = MasterWeightsOf(best.machines.costs->layers());
  context.attention = source.attention;
  context.data_parallel = best.setting.data;
  context.tensor_parallel = best.setting.tensor;
  context.rank_devices = DevicesOf(question, best.setting);
  context.sequence_parallel = question.sequence_parallel && best.setting.tensor > 1;
  context.optimizer = question.optimizer;
  context.overlap_sync = question.overlap_sync;
  context.zero = question.zero;
  context.mirror = question.mirror;
  context.audit_every = question.audit_every;
  context.parameters = ParametersOf(question, best);
  context.model_flops = ModelFlops(question, source, best);
  context.peak_flops = PeakFlops(question, source.dtype, best.setting);
  return context;
}

// Whether it is known what a run takes in which ranks keep, or compute, what others have.
absl::Status CheckMutual(const PlanQuestion& question, const PlanSource& source) {
  if (question.mirror && !source.runs_here) {
    return absl::InvalidArgumentError(
        "--mirror: the bytes of a mirror are known of models that sluice trains, on devices that "
        "are alike and share no stage; leave it out, or leave out --cluster and --tensor-parallel");
  }
  if (question.audit_every == 0) return absl::OkStatus();
  const std::string flag = absl::StrCat("--audit ", question.audit_every, ": ");
  if (!source.runs_here) {
    return absl::InvalidArgumentError(
        absl::StrCat(flag, "only runs of sluice are audited, and this plan is for ", source.device,
                     "; leave it out, or plan a model that sluice trains, without --cluster and ",
                     "--tensor-parallel or from its profile"));
  }
  if (source.memory_bandwidth > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(flag, question.model,
                   " does not say what updates take, from which it is known how fast weights are "
                   "hashed; measure again with sluice profile"));
}

absl::StatusOr<PlanAnswer> AnswerLayers(const PlanQuestion& question,
                                        const ProgressCallback& progress) {
  const absl::StatusOr<PlanSource> source = MakeSource(question);
  if (!source.ok()) return source.status();
  if (absl::Status status = CheckMutual(question, *source); !status.ok()) return status;
  const absl::StatusOr<JointRequest> request = MakeJointRequest(question, *source);
  if (!request.ok()) return request.status();
  absl::StatusOr<JointPlan> best = FindPlan(question, *source, *request, progress);
  if (!best.ok()) {
    return WhyNoPlan(WithHeadAdvice(*source, *request, best.status()), request->common.stop);
  }
  PlanAnswer answer;
  if (question.pareto) answer.variants.pareto = ParetoFront(question, *source, progress);
  if (question.what_if) answer.variants.what_if = WhatIf(question, *source, *best, progress);
  answer.context = ContextOf(question, *source, *best);
  answer.plan = std::move(best->plan);
  answer.machines = std::move(best->machines);
  answer.device = source->device;
  answer.costs = source->costs;
  answer.runs_here = source->runs_here;
  answer.settings_tried = best->settings_tried;
  answer.settings_in_all = best->settings_in_all;
  answer.completed = best->completed;
  return answer;
}

}  // namespace

absl::StatusOr<PlanAnswer> AnswerQuestion(const PlanQuestion& question,
                                          const ProgressCallback& progress) {
  absl::Status runs = CheckForTrainer(question.trainer, {.graph = question.graph() != nullptr,
                                                         .optimizer = question.optimizer,
                                                         .zero = question.zero,
                                                         .mirror = question.mirror,
                                                         .audit_every = question.audit_every});
  if (!runs.ok()) return runs;
  if (const ProfileGraph* graph = question.graph()) return AnswerGraph(question, *graph);
  return AnswerLayers(question, progress);
}

}  // namespace sluice
