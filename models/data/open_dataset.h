#ifndef SLUICE_MODELS_DATA_OPEN_DATASET_H_
#define SLUICE_MODELS_DATA_OPEN_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "models/data/dataset.h"

namespace sluice {

// What a file that is read byte by byte may contain: only text, or any bytes.
enum class Bytes : uint8_t { kOfText, kAny };

// `path` is a text file, or a directory of IDX files, or one IDX file of images whose labels are in
// a file beside it. Text: windows of `seq` bytes and the bytes that follow them; the last 10 % are
// held out for validation and no window crosses that border. Training windows start at an offset
// that each epoch draws anew. IDX: train-* and t10k-* files (.gz or not), with the names of MNIST
// and Fashion-MNIST; if a directory has both, t10k is the validation split, otherwise (and for a
// single file) the last 10 % are held out. Files of tokens (nanoGPT's .bin) and of JSON lines are
// refused, since their bytes are not text, unless `bytes` allows any bytes. NotFound,
// InvalidArgument and DataLoss name the file and what is wrong with it: missing, truncated, empty,
// shorter than a window, numbers of images and labels that differ.
absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(const std::string& path, int64_t seq,
                                                     uint64_t seed, Bytes bytes = Bytes::kOfText);

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_OPEN_DATASET_H_
