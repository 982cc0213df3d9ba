#ifndef SLUICE_PIPELINE_CHECKPOINT_FILES_MODEL_FOLDER_H_
#define SLUICE_PIPELINE_CHECKPOINT_FILES_MODEL_FOLDER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/layers/layer.h"
#include "models/spec/model_spec.h"

namespace sluice {

// A folder with config.json and weights, whose decoder sluice trains.
struct ModelFolder {
  ModelSpec spec;
  std::string path;          // of the folder that has the files
  bool reads_bytes = false;  // whether its tokens are the bytes of a text
};

// `path` is a Hugging Face folder, or a checkpoint of `sluice train`: its directory of --save, or
// one step's folder, all of whose files are verified. Errors are OpenCheckpoint's; InvalidArgument
// for an MLP, as CheckTrainable, and for a checkpoint that has an adapter alone.
absl::StatusOr<ModelFolder> OpenModelFolder(const std::string& path);

// The parameters of each layer, as files of weights have them: in the order of the model, nothing
// adapted. Errors are MakeLayer's.
absl::StatusOr<std::vector<std::vector<ParameterDecl>>> DeclareParameters(const ModelSpec& spec);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_FILES_MODEL_FOLDER_H_
