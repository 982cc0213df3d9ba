#ifndef SLUICE_PIPELINE_SAMPLE_CACHED_STAGE_H_
#define SLUICE_PIPELINE_SAMPLE_CACHED_STAGE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "models/layers/layer.h"
#include "pipeline/state/arena.h"

namespace sluice {

// [layer][parameter], of a whole model.
using ParameterTable = std::vector<std::vector<void*>>;

// The layers of a stage, and where and how they compute.
struct CachedLayers {
  int first = 0;
  int end = 0;                    // behind the last one
  int64_t positions = 0;          // most tokens of a sequence
  DType dtype = DType::kFloat32;  // of activations, caches and matrices
  const Kernels* kernels = &CpuKernels();
  Device* device = &CpuDevice();  // on which the kernels run
};

// Consecutive layers of a decoder that continue sequences, forward only. One thread.
class CachedStage {
 public:
  // `parameters`, in the host's memory and of the types that MakeCachedLayer declares, outlive the
  // stage; a device that queues gets a copy of its own. Errors as MakeCachedLayer and of the
  // device; ResourceExhausted when the memory is not there.
  static absl::StatusOr<std::unique_ptr<CachedStage>> Make(const ModelSpec& spec,
                                                           const CachedLayers& layers,
                                                           const ParameterTable& parameters);
  ~CachedStage();

  // Most rows of a call that there are no more than `rows` of: calls come in few sizes, each with
  // memory of its own.
  static int64_t PieceRows(int64_t rows);

  // Computes PieceRows() rows behind `position` earlier tokens. `input` is tokens where the stage
  // has the embedding, else [rows, dim] of the compute type, in the host's memory; `caches` has a
  // block's cache, in the device's, for each layer of the model, null for those without. Writes the
  // output, [rows, dim], to the host's `output`, which is null behind the head. Errors of the
  // device.
  absl::Status Run(int64_t rows, int64_t position, const void* input,
                   absl::Span<void* const> caches, void* output);
  // After Run() on the last stage: the logits of the rows from `first_row` on, in the host's
  // memory.
  absl::Status Logits(int64_t rows, int64_t first_row, float* out);

 private:
  // Layers and memory for one number of rows.
  struct Sized;
  CachedStage(const CachedLayers& layers, int64_t vocab);
  absl::Status MakeSized(const ModelSpec& spec, int64_t rows, const ParameterTable& parameters);
  // Where the stage's device has the parameters of `layers`, which are all of its layers.
  absl::Status PlaceParameters(const std::vector<std::unique_ptr<Layer>>& layers,
                               const ParameterTable& parameters);
  // Returns when everything that was queued is done.
  absl::Status Finish();
  Sized& Of(int64_t rows);

  CachedLayers layers_;
  int64_t vocab_;
  Stream stream_;
  ParameterTable parameters_;                   // [layer of the stage]
  std::unique_ptr<Arena> weights_;              // of a device that queues
  std::vector<uint16_t> halves_;                // logits in bf16
  std::vector<std::unique_ptr<Arena>> packed_;  // [layer]; the same for any number of rows
  std::vector<std::unique_ptr<Sized>> sized_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_SAMPLE_CACHED_STAGE_H_
