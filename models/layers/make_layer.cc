#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/layers/cached_layer.h"
#include "models/layers/layers.h"
#include "models/layers/trainable.h"

namespace sluice {
namespace {

// A micro-batch's longest tensor must be countable in 32 bits by a kernel library: rows times the
// widest row.
constexpr int64_t kMaxRows = int64_t{1} << 30;

absl::Status CheckBatch(const ModelSpec& spec, const BatchShape& batch) {
  const int64_t max_seq = spec.max_seq();
  if (batch.seq < 1 || batch.seq > max_seq) {
    return absl::InvalidArgumentError(absl::StrCat("sequence length ", batch.seq,
                                                   " does not fit model '", spec.name,
                                                   "': expected 1 to ", max_seq));
  }
  if (batch.size < 1 || batch.size > kMaxRows / batch.seq) {
    return absl::InvalidArgumentError(absl::StrCat(
        "micro-batch size ", batch.size, " is out of range: expected 1 to ", kMaxRows / batch.seq));
  }
  return absl::OkStatus();
}

absl::Status CheckArguments(const ModelSpec& spec, int index, const BatchShape& batch,
                            DType dtype) {
  absl::Status status = CheckTrainable(spec);
  if (status.ok()) status = CheckBatch(spec, batch);
  if (!status.ok()) return status;
  if (index < 0 || index >= spec.layer_count()) {
    return absl::InvalidArgumentError(absl::StrCat("layer ", index, " of model '", spec.name,
                                                   "' does not exist: it has layers 0 to ",
                                                   spec.layer_count() - 1));
  }
  if (dtype != DType::kFloat32 && dtype != DType::kBFloat16) {
    return absl::InvalidArgumentError(
        absl::StrCat("compute type ", DTypeName(dtype), " is not one of fp32, bf16"));
  }
  return absl::OkStatus();
}

// A product of fp32 values reads fp32 weights.
absl::Status CheckBaseType(const Adaptation& adaptation, DType dtype) {
  if (adaptation.base_dtype == DType::kFloat32 || adaptation.base_dtype == dtype)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--base-dtype ", DTypeName(adaptation.base_dtype), " with --dtype ",
                   DTypeName(dtype), ": frozen weights are fp32, or of the compute type"));
}

absl::StatusOr<std::unique_ptr<Layer>> MakeDecoderLayer(const DecoderConfig& config, int index,
                                                        const LayerContext& context) {
  if (index == 0) return MakeEmbedding(config, context);
  if (index > config.layers) return MakeHead(config, context);
  return MakeDecoderBlock(config, index - 1, context);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Layer>> MakeLayer(const ModelSpec& spec, int index,
                                                 const BatchShape& batch, DType dtype,
                                                 const Kernels& kernels,
                                                 const Adaptation& adaptation) {
  absl::Status status = CheckArguments(spec, index, batch, dtype);
  if (status.ok()) status = CheckAdaptation(spec, adaptation);
  if (status.ok()) status = CheckBaseType(adaptation, dtype);
  if (!status.ok()) return status;
  const LayerContext context{
      .batch = batch, .dtype = dtype, .kernels = &kernels, .adaptation = adaptation};
  if (spec.decoder() != nullptr) return MakeDecoderLayer(*spec.decoder(), index, context);
  return MakeDense(*spec.mlp(), index, context);
}

absl::StatusOr<std::unique_ptr<Layer>> MakeCachedLayer(const ModelSpec& spec, int index,
                                                       int64_t rows, int64_t positions, DType dtype,
                                                       const Kernels& kernels) {
  const BatchShape batch{.size = 1, .seq = rows};
  const absl::Status status = CheckArguments(spec, index, batch, dtype);
  if (!status.ok()) return status;
  if (spec.decoder() == nullptr || positions < rows || positions > spec.max_seq()) {
    return absl::InvalidArgumentError(absl::StrCat("a sequence of ", positions,
                                                   " positions does not fit model '", spec.name,
                                                   "': expected ", rows, " to ", spec.max_seq()));
  }
  // Nothing is trained, so no weight needs more than the compute type holds.
  return MakeDecoderLayer(*spec.decoder(), index,
                          {.batch = batch,
                           .dtype = dtype,
                           .kernels = &kernels,
                           .cached_positions = positions,
                           .adaptation = {.freeze = {"*"}, .base_dtype = dtype}});
}

}  // namespace sluice
