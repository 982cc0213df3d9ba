#ifndef SLUICE_MODELS_KERNELS_RECORD_RECORDED_KERNELS_H_
#define SLUICE_MODELS_KERNELS_RECORD_RECORDED_KERNELS_H_

#include "models/kernels/cuda_kernels.h"
#include "models/kernels/kernels.h"
#include "models/kernels/record/launch_record.h"

namespace sluice {

// A GPU's kernels that compute nothing: each call adds the launches that CudaKernels() would queue
// for it, with their bytes and FLOPs, to the LaunchRecord of the calling thread. Addresses are
// never read, so that a layer may be called with any that are not null; they count as aligned to
// 16 bytes. Sizes of work areas and packed weights are those of CudaKernels(), so memory can be
// predicted with it. Needs no GPU.
const Kernels& RecordedKernels(CudaAttention attention = CudaAttention::kSluice);

}  // namespace sluice

#endif  // SLUICE_MODELS_KERNELS_RECORD_RECORDED_KERNELS_H_
