#ifndef SLUICE_PIPELINE_CHECKPOINT_SAVING_WEIGHT_SHARDS_H_
#define SLUICE_PIPELINE_CHECKPOINT_SAVING_WEIGHT_SHARDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/files/tensors.h"

namespace sluice {

// The most bytes of a file of weights, as long as no single tensor has more.
constexpr int64_t kShardBytes = 5'000'000'000;

// A file of weights: tensors first .. first + count - 1 of the model.
struct WeightShard {
  std::string name;
  size_t first = 0;
  size_t count = 0;
};

// Divides tensors, in their order, into files of at most `most` bytes, header included; a tensor
// that has more is alone in one. A single file is "model.safetensors".
std::vector<WeightShard> DivideIntoShards(const std::vector<TensorShape>& tensors, int64_t most);

// The index of such files, as transformers writes it. InvalidArgument for a name that is not UTF-8.
absl::StatusOr<std::string> IndexOf(const std::vector<TensorShape>& tensors,
                                    const std::vector<WeightShard>& shards);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_SAVING_WEIGHT_SHARDS_H_
