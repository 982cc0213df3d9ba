#ifndef SLUICE_MODELS_DATA_OPEN_DATASET_H_
#define SLUICE_MODELS_DATA_OPEN_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "models/data/dataset.h"

namespace sluice {

// What may lie in a file that is read byte by byte: text alone, or anything.
enum class Bytes : uint8_t { kOfText, kAny };

// `path` is a text file (or a directory of IDX files, or an IDX image file whose labels lie beside
// it). Text: windows of `seq` bytes and the bytes that follow them; the last 10 % are held out for
// validation and no window crosses that border. Training windows start at an offset that each epoch
// draws anew. IDX: train-* and t10k-* files (.gz or not), as MNIST, Fashion-MNIST and their kin
// name them; of a directory with both, t10k is the validation split, otherwise (and for a single
// file) the last 10 % are held out. Files of tokens (nanoGPT's .bin) and of JSON lines are refused,
// since their bytes are not what they hold, unless `bytes` says that any will do. NotFound /
// InvalidArgument / DataLoss name the file and what is wrong with it: missing, truncated, empty,
// shorter than a window, images and labels that differ in number.
absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const std::string& path, int64_t seq,
                                                     uint64_t seed, Bytes bytes = Bytes::kOfText);

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_OPEN_DATASET_H_
