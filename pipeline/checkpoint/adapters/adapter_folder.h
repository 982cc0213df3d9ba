#ifndef SLUICE_PIPELINE_CHECKPOINT_ADAPTERS_ADAPTER_FOLDER_H_
#define SLUICE_PIPELINE_CHECKPOINT_ADAPTERS_ADAPTER_FOLDER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/files/safetensors.h"
#include "models/layers/adapted_layers.h"
#include "models/spec/adaptation.h"
#include "models/spec/decoder.h"

namespace sluice {

// PEFT's adapter on the disk: adapter_config.json, and adapter_model.safetensors beside it.
struct AdapterFolder {
  std::string path;
  Lora lora;
  std::unique_ptr<SafetensorsFile> tensors;
};

// Opens such a folder; a checkpoint of a run with --lora is one, and its directory of --save leads
// to the newest (all files of a checkpoint are verified). NotFound where a file is missing;
// InvalidArgument and DataLoss name the file and the field or tensor that is wrong.
absl::StatusOr<AdapterFolder> OpenAdapter(const std::string& path);

// The maps of the model that the adapter changes, in the model's order. InvalidArgument where the
// adapter is of another model, or incomplete: names a tensor that is missing, is of another shape
// or belongs to no map that is adapted.
absl::StatusOr<std::vector<LinearMap>> AdaptedMaps(const AdapterFolder& adapter,
                                                   const DecoderConfig& config);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_ADAPTERS_ADAPTER_FOLDER_H_
