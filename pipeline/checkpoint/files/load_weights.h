#ifndef SLUICE_PIPELINE_CHECKPOINT_FILES_LOAD_WEIGHTS_H_
#define SLUICE_PIPELINE_CHECKPOINT_FILES_LOAD_WEIGHTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "models/files/safetensors.h"
#include "models/spec/bfloat16.h"
#include "models/spec/dtype.h"

namespace sluice {

// Where to read a tensor to: row-major, of `shape` and `dtype` (fp32 or bf16, to which values are
// rounded), or `count` of its elements from element `first` on. A tensor that is split is bf16, and
// read as a whole; `low_halves` are wanted of some of its elements.
struct TensorTarget {
  std::string name;
  std::vector<int64_t> shape;
  void* data = nullptr;
  int64_t first = 0;
  int64_t count = -1;  // negative: all
  DType dtype = DType::kFloat32;
  bool split = false;
  LowHalves low_halves = {};
};

// Reads all of `targets`, or none: NotFound names the tensors that `file` lacks, InvalidArgument
// the one of another shape. Tensors that are not asked for are ignored.
absl::Status ReadTensors(const SafetensorsFile& file, const std::vector<TensorTarget>& targets);

// A tensor that a model ties to another one, its original.
struct TiedName {
  std::string name;
  std::string original;
};

// A whole model's weights, of which the targets may be a part: a rank asks only for its own.
struct WeightNames {
  std::vector<std::string> all;  // of every tensor that the model stores
  // Every tied tensor, which is not stored; a file may have it once more, or in its original's
  // place.
  std::vector<TiedName> tied = {};
  // Those of `tied` that are looked at, with the values that they must have.
  std::vector<TensorTarget> copies = {};
};

// What `file` calls each of `targets`, with or without "transformer." or "model." in front. Errors
// as LoadWeights; the values of a tied tensor are compared within `file`, so that
// `model.copies` may be empty.
absl::StatusOr<std::vector<std::string>> MatchWeights(const SafetensorsFile& file,
                                                      const std::vector<TensorTarget>& targets,
                                                      const WeightNames& model);

// Reads weights as Hugging Face keeps them, of `path` as OpenModelWeights takes it, for --init. As
// ReadTensors, but names match with or without "transformer." or "model." in front, and a tied
// tensor stands for its original where the file lacks that. InvalidArgument where the weights are
// of another model: there are tensors that it has not (all but buffers, which transformers does not
// store any more: attention masks and the frequencies of rotary positions), or a tensor of its own
// where the model is tied, with other values.
absl::Status LoadWeights(const std::string& path, const std::vector<TensorTarget>& targets,
                         const WeightNames& model);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_FILES_LOAD_WEIGHTS_H_
