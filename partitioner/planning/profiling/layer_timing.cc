#include "partitioner/planning/profiling/layer_timing.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "comm/local/in_process.h"
#include "models/device/instant.h"
#include "models/layers/layer.h"
#include "partitioner/planning/profiling/layer_bench.h"
#include "pipeline/run/rank_threads.h"

namespace sluice {
namespace {

// Of a step: the optimizer fills the caches with its own state, so it must not come too often.
constexpr int kMicroBatches = 4;
// For what a device has queued in a step.
constexpr absl::Duration kTimeout = absl::Minutes(10);

// One stage of a pipeline: consecutive layers, each handing on what it makes.
struct Stage {
  std::unique_ptr<StreamStopwatch> stopwatch;
  std::unique_ptr<Arena> brief;
  std::vector<std::unique_ptr<LayerBench>> layers;
};

absl::StatusOr<Stage> MakeStage(const ModelSpec& spec, const BatchShape& batch,
                                const LayerTimingOptions& options, int first, int end) {
  std::vector<std::unique_ptr<Layer>> layers;
  int64_t brief_bytes = 0;
  for (int index = first; index < end; ++index) {
    absl::StatusOr<std::unique_ptr<Layer>> layer =
        MakeLayer(spec, index, batch, options.dtype, *options.kernels, options.adaptation);
    if (!layer.ok()) return layer.status();
    brief_bytes = std::max(brief_bytes, BriefBytes((*layer)->decl()));
    layers.push_back(*std::move(layer));
  }
  absl::StatusOr<Arena> brief = Arena::Allocate(*options.device, brief_bytes);
  if (!brief.ok()) return brief.status();
  absl::StatusOr<Stream> stream = options.device->NewStream();
  if (!stream.ok()) return stream.status();
  const BenchPlace place = {
      .kernels = options.kernels, .device = options.device, .stream = *stream};
  Stage stage;
  stage.stopwatch = std::make_unique<StreamStopwatch>(place.device, place.stream);
  stage.brief = std::make_unique<Arena>(*std::move(brief));
  for (std::unique_ptr<Layer>& layer : layers) {
    absl::StatusOr<std::unique_ptr<LayerBench>> bench = LayerBench::Create(
        std::move(layer), batch, spec.classes(), place, *stage.brief, stage.stopwatch.get());
    if (!bench.ok()) return bench.status();
    if (!stage.layers.empty()) (*bench)->Follow(stage.layers.back().get());
    stage.layers.push_back(*std::move(bench));
  }
  return stage;
}

void RunStep(const std::vector<std::unique_ptr<LayerBench>>& layers, bool apart) {
  for (int micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
    for (const auto& layer : layers) layer->Forward();
    for (size_t k = layers.size(); k-- > 0;) {
      if (apart) layers[k]->InputGradApart();
      if (!apart) layers[k]->Backward();
    }
    for (size_t k = layers.size(); k-- > 0 && apart;) layers[k]->WeightGradApart();
  }
  for (const auto& layer : layers) layer->EndStep();
}

// All stages start every step together. Every second step runs W apart from I, as zero-bubble
// schedules do: the gradients that W needs, brief in a B, then wait in memory of their own.
absl::Status RunStage(const Stage& stage, int repetitions, Communicator& others) {
  const std::vector<std::unique_ptr<LayerBench>>& layers = stage.layers;
  for (int i = 0; i <= 2 * repetitions; ++i) {
    if (absl::Status status = others.Barrier(Instant::InfiniteFuture()); !status.ok())
      return status;
    RunStep(layers, /*apart=*/i % 2 == 1);
    if (absl::Status status = stage.stopwatch->Collect(kTimeout); !status.ok()) return status;
    if (i > 0) continue;  // the first step warms up
    for (const auto& layer : layers) layer->Forget();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<LayerTimings>> TimeLayers(const ModelSpec& spec, const BatchShape& batch,
                                                     const LayerTimingOptions& options) {
  const int count = spec.layer_count();
  const int stages = options.stages;
  if (stages < 1 || stages > count) {
    return absl::InvalidArgumentError(
        absl::StrCat("stages must be 1 to ", count, ", the number of layers, not ", stages));
  }
  std::vector<Stage> pipeline;
  for (int s = 0; s < stages; ++s) {
    absl::StatusOr<Stage> stage =
        MakeStage(spec, batch, options, count * s / stages, count * (s + 1) / stages);
    if (!stage.ok()) return stage.status();
    pipeline.push_back(*std::move(stage));
  }
  InProcessGroup group(stages);
  const absl::Status ran =
      RunRanks(group, stages, RankThreadOptions(), [&](int rank, Communicator& others) {
        return RunStage(pipeline[static_cast<size_t>(rank)], options.repetitions, others);
      });
  if (!ran.ok()) return ran;
  std::vector<LayerTimings> timings;
  for (const Stage& stage : pipeline) {
    for (const auto& layer : stage.layers) timings.push_back(layer->Summary());
  }
  return timings;
}

}  // namespace sluice
