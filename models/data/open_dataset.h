#ifndef SLUICE_MODELS_DATA_OPEN_DATASET_H_
#define SLUICE_MODELS_DATA_OPEN_DATASET_H_

#include <memory>

#include "absl/status/statusor.h"
#include "models/data/data_request.h"
#include "models/data/dataset.h"

namespace sluice {

// Opens what `request.path` names, a file or a folder:
// - text, a token a byte: windows of `seq` tokens and the tokens that follow them. Training windows
//   start at an offset that each epoch draws anew, and no window crosses into the validation.
// - tokens in a .bin of nanoGPT, llm.c or Megatron (token_file.h): the same windows.
// - text, where the request says how the model reads it: the same windows of its tokens.
// - JSON lines (document.h): documents in windows, see documents.h and json_lines.h. Megatron's with
//   request.pack: the same windows of its documents.
// - IDX images: train-* and t10k-* files (.gz or not), with the names of MNIST and Fashion-MNIST; if
//   a folder has both, t10k is the validation split. Labels are in a file beside the images.
// - a folder of files of one of these kinds, in the order of their names. Those named val,
//   validation or valid, or with such a word between '_', '-' and '.', are the validation split.
// NotFound, InvalidArgument and DataLoss name the file and what is wrong with it: missing,
// truncated, empty, shorter than a window.
absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const DataRequest& request);

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_OPEN_DATASET_H_
