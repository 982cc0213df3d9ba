#ifndef SLUICE_PIPELINE_CHECKPOINT_FILES_FINITE_TENSORS_H_
#define SLUICE_PIPELINE_CHECKPOINT_FILES_FINITE_TENSORS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "models/files/safetensors.h"

namespace sluice {

// The position of the first of `count` values that is NaN or infinite; `count` where there is none.
int64_t FirstNotFinite(const float* values, int64_t count);

// DataLoss names the file and its first fp32 tensor with a value that is NaN or infinite. All
// tensors of a checkpoint are fp32; others are not looked at.
absl::Status CheckFiniteTensors(const SafetensorsFile& file);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_FILES_FINITE_TENSORS_H_
