#ifndef SLUICE_MODELS_FILES_TENSOR_SAMPLE_H_
#define SLUICE_MODELS_FILES_TENSOR_SAMPLE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "models/files/safetensors.h"

namespace sluice {

// How many values of each tensor SampleTensors reads, those in its middle.
inline constexpr int64_t kSampledValues = 1024;

// A hash of the names and shapes of all tensors, and of kSampledValues of each, as fp32: it tells
// two trained models apart without reading them whole, and is the same however the tensors are
// divided among shards, and in whichever type that has the same values. A difference outside of
// what it reads is not seen. Of types that Read does not take, no value counts. Errors are those of
// reading.
absl::StatusOr<uint64_t> SampleTensors(const SafetensorsFile& file);

}  // namespace sluice

#endif  // SLUICE_MODELS_FILES_TENSOR_SAMPLE_H_
