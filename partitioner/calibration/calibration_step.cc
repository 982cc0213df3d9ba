#include "partitioner/calibration/calibration_step.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "schedules/generators/catalogue.h"

namespace sluice {
namespace {

// A run of more actions is no measured one, and would take long to simulate.
constexpr int64_t kMostForwards = 4'000'000;

DecoderConfig OneBlock(const MeasuredStep& step) {
  DecoderConfig gpt;
  gpt.layers = 1;
  gpt.dim = step.hidden;
  gpt.heads = step.heads;
  gpt.vocab = step.vocab;
  gpt.max_seq = step.seq;
  return gpt;
}

absl::Status At(const MeasuredStep& step, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(step.file, ": line ", step.line, ": ", what));
}

int Stages(const MeasuredStep& step) { return step.pipeline * step.chunks; }

// `count` times the layer, on top of what the stage has.
void AddLayer(const LayerCost& layer, double count, Recompute recompute, int stage,
              StepCosts* costs) {
  costs->forward[stage] += count * layer.forward_seconds;
  costs->input_grad[stage] +=
      count * (layer.input_grad_seconds + layer.recompute_seconds(recompute));
  costs->weight_grad[stage] += count * layer.weight_grad_seconds;
  costs->tail[stage] += count * (layer.update_seconds + layer.sync_seconds);
}

}  // namespace

PredictedStep::PredictedStep(const MeasuredStep& step, StepModel model)
    : step_(step), config_(OneBlock(step)), model_(std::move(model)) {
  training_.batch = {step.micro_batch, step.seq};
  training_.kernels.flash_attention = step.flash_attention;
  training_.kernels.dropout = true;
}

absl::StatusOr<PredictedStep> PredictedStep::Compile(const MeasuredStep& step) {
  ScheduleRequest request;
  request.ranks = step.pipeline;
  request.chunks = step.chunks;
  request.micro_batches = static_cast<int>(step.micro_batches());
  if (step.micro_batches() * Stages(step) > kMostForwards) {
    return At(step, absl::StrCat(step.micro_batches(), " micro-batches in ", Stages(step),
                                 " stages are too many"));
  }
  const char* schedule = step.chunks > 1 ? "interleaved" : "1f1b";
  const absl::StatusOr<Timetable> timetable = GenerateSchedule(schedule, request);
  if (!timetable.ok()) return At(step, timetable.status().message());
  absl::StatusOr<StepModel> model = StepModel::Compile(*timetable);
  if (!model.ok()) return At(step, model.status().message());
  return PredictedStep(step, *std::move(model));
}

void PredictedStep::SetSends(const ClusterSpec& cluster, int64_t bytes) {
  for (int stage = 0; stage + 1 < Stages(step_) && step_.pipeline > 1; ++stage) {
    const Link link =
        RankLink(cluster, step_.parallel, stage % step_.pipeline, (stage + 1) % step_.pipeline);
    costs_.send[stage] = link.Seconds(bytes);
  }
}

void PredictedStep::Reset(int stages) {
  costs_.forward.assign(stages, 0);
  costs_.input_grad.assign(stages, 0);
  costs_.weight_grad.assign(stages, 0);
  costs_.tail.assign(stages, 0);
  costs_.send.assign(stages - 1, 0);
}

double PredictedStep::Seconds(const ClusterSpec& cluster) {
  const std::vector<LayerCost> layers =
      DecoderCosts(config_, training_, step_.parallel, cluster, /*kind=*/0);
  const LayerCost &embedding = layers[0], &block = layers[1], &head = layers[2];
  const int stages = Stages(step_);
  Reset(stages);
  for (int stage = 0; stage < stages; ++stage) {
    const int64_t blocks = step_.layers / stages + (stage < step_.layers % stages ? 1 : 0);
    AddLayer(block, static_cast<double>(blocks), step_.recompute, stage, &costs_);
  }
  AddLayer(embedding, 1, Recompute::kNone, 0, &costs_);
  AddLayer(head, 1, Recompute::kNone, stages - 1, &costs_);
  SetSends(cluster, block.output_bytes);
  return model_.Makespan(costs_);
}

}  // namespace sluice
