#ifndef SLUICE_PIPELINE_CHECKPOINT_ADAPTERS_MERGE_ADAPTER_H_
#define SLUICE_PIPELINE_CHECKPOINT_ADAPTERS_MERGE_ADAPTER_H_

#include "absl/status/status.h"
#include "models/layers/adapted_layers.h"
#include "pipeline/checkpoint/adapters/adapter_folder.h"

namespace sluice {

// W += s B A (Hu et al. 2021, section 4.1) for one map of AdaptedMaps: `weight` is fp32,
// [out, in], or [in, out] where `transposed`, as GPT-2 stores its maps. Errors are those of reading.
absl::Status MergeAdapter(const AdapterFolder& adapter, const LinearMap& map, bool transposed,
                          float* weight);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_ADAPTERS_MERGE_ADAPTER_H_
