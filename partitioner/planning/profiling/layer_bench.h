#ifndef SLUICE_PARTITIONER_PLANNING_PROFILING_LAYER_BENCH_H_
#define SLUICE_PARTITIONER_PLANNING_PROFILING_LAYER_BENCH_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "models/kernels/kernels.h"
#include "models/layers/layer.h"
#include "partitioner/costs/profile.h"
#include "partitioner/planning/profiling/stream_stopwatch.h"
#include "pipeline/state/arena.h"

namespace sluice {

// Where a layer is measured.
struct BenchPlace {
  const Kernels* kernels = nullptr;
  Device* device = nullptr;
  Stream stream;
};

// Bytes of the layer's tensors that live only within its F or its B: all layers of a stage use the
// same memory for them, as in training, and find it in the cache.
int64_t BriefBytes(const LayerDecl& decl);

// A layer with all the memory of one micro-batch, its own weights and made-up activations, and how
// long its parts take.
class LayerBench {
 public:
  // `brief` has room for BriefBytes(); it and `stopwatch`, of the place's stream, must outlive the
  // bench. ResourceExhausted where the device has too little memory.
  static absl::StatusOr<std::unique_ptr<LayerBench>> Create(std::unique_ptr<Layer> layer,
                                                            const BatchShape& batch, int vocabulary,
                                                            const BenchPlace& place,
                                                            const Arena& brief,
                                                            StreamStopwatch* stopwatch);

  // Takes its input from the layer before, and gives it the gradient: what one layer has just
  // written is in the cache when the next one reads it.
  void Follow(LayerBench* before);

  void Forward();
  void Backward();
  // As Backward, with other layers' between the two.
  void InputGradApart();
  void WeightGradApart();
  void EndStep();

  // Once the stopwatch has collected.
  void Forget();
  LayerTimings Summary() const;

 private:
  struct Offsets;

  LayerBench(std::unique_ptr<Layer> layer, const BenchPlace& place, Arena arena,
             DeviceMemory results, StreamStopwatch* stopwatch)
      : layer_(std::move(layer)),
        place_(place),
        arena_(std::move(arena)),
        results_(std::move(results)),
        stopwatch_(*stopwatch) {}

  LayerCall Apart() const;
  void SumTied();
  void Update(bool tied);
  bool TrainsTied() const;
  void BindWeights(const Offsets& offsets, const Arena& brief);
  void BindBoundary(const Offsets& offsets, const BatchShape& batch, int vocabulary);
  void FillActivations(DType dtype, int64_t elements, int vocabulary, void* data);
  void Upload(void* to, const void* from, int64_t bytes);

  std::unique_ptr<Layer> layer_;
  const BenchPlace place_;
  Arena arena_;
  DeviceMemory results_;  // loss and correct, which kernels write and the host may read
  StreamStopwatch& stopwatch_;
  std::vector<void*> tensors_, apart_tensors_;
  std::vector<void*> parameters_;
  std::vector<float*> gradients_, moments1_, moments2_;
  std::vector<const float*>
      other_gradients_;  // [parameter] zeros; the other layer's, of what is tied
  std::vector<uint16_t*> low_halves_;
  double* squares_ = nullptr;  // of all gradients' blocks
  LayerCall call_;
  std::vector<double> forward_, restore_, input_grad_, weight_grad_;  // seconds
  std::vector<double> own_update_, tied_update_, tied_sum_;
  std::vector<double> apart_input_grad_, apart_weight_grad_;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_PROFILING_LAYER_BENCH_H_
