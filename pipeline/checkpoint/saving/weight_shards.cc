#include "pipeline/checkpoint/saving/weight_shards.h"

#include <functional>
#include <numeric>

#include "models/files/shards.h"

namespace sluice {
namespace {

// What a header has beside its tensors: its length, the metadata and the padding.
constexpr int64_t kHeadBytes = 64;
// What it says of a tensor, but for the name and the dimensions: keys, type and offsets, with room.
constexpr int64_t kEntryBytes = 128;
constexpr int64_t kDimensionBytes = 21;  // 20 digits and a comma
constexpr int64_t kEscapedByte = 6;      // "\\u0001"

int64_t ElementsOf(const TensorShape& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t BytesOf(const TensorShape& tensor) {
  constexpr int64_t kFloat = 4, kHalf = 2;
  return ElementsOf(tensor) * (tensor.dtype == "F32" ? kFloat : kHalf);
}

// At least what the tensor takes of a file.
int64_t BytesInFile(const TensorShape& tensor) {
  return BytesOf(tensor) + kEntryBytes + kEscapedByte * static_cast<int64_t>(tensor.name.size()) +
         kDimensionBytes * static_cast<int64_t>(tensor.shape.size());
}

}  // namespace

std::vector<WeightShard> DivideIntoShards(const std::vector<TensorShape>& tensors, int64_t most) {
  std::vector<WeightShard> shards(1);
  int64_t bytes = kHeadBytes;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t more = BytesInFile(tensors[i]);
    if (shards.back().count > 0 && bytes + more > most) {
      shards.push_back({.name = "", .first = i});
      bytes = kHeadBytes;
    }
    ++shards.back().count;
    bytes += more;
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    shards[i].name = shards.size() == 1
                         ? kModelFile
                         : ShardName(static_cast<int>(i) + 1, static_cast<int>(shards.size()));
  }
  return shards;
}

absl::StatusOr<std::string> IndexOf(const std::vector<TensorShape>& tensors,
                                    const std::vector<WeightShard>& shards) {
  ShardIndex index;
  uint64_t bytes = 0, elements = 0;
  for (const WeightShard& shard : shards) {
    for (size_t i = shard.first; i < shard.first + shard.count; ++i) {
      index.weight_map[tensors[i].name] = shard.name;
      bytes += static_cast<uint64_t>(BytesOf(tensors[i]));
      elements += static_cast<uint64_t>(ElementsOf(tensors[i]));
    }
  }
  return FormatShardIndex(index, bytes, elements);
}

}  // namespace sluice
