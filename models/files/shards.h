#ifndef SLUICE_MODELS_FILES_SHARDS_H_
#define SLUICE_MODELS_FILES_SHARDS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/files/safetensors.h"

// The weights of a model as Hugging Face keeps them: a folder with one file, or with several, the
// shards, and an index that says which tensor is in which.
namespace sluice {

constexpr char kModelFile[] = "model.safetensors";
constexpr char kModelIndexFile[] = "model.safetensors.index.json";

// Whether it names something in the folder itself: no path, and neither "." nor "..".
bool IsPlainFileName(const std::string& name);

// model.safetensors.index.json.
struct ShardIndex {
  std::map<std::string, std::string> weight_map;  // the file of each tensor; at least one
};

// InvalidArgument for what is no such index, and for a file that is not a plain name: it would lie
// outside of the folder. The values of "metadata" are for people, and not looked at. Errors do not
// name the index.
absl::StatusOr<ShardIndex> ParseShardIndex(absl::string_view json);

// As transformers writes it, for so many bytes and elements of all tensors. InvalidArgument for a
// name that is not UTF-8.
absl::StatusOr<std::string> FormatShardIndex(const ShardIndex& index, uint64_t total_bytes,
                                             uint64_t total_elements);

// "model-00001-of-00003.safetensors", of shard 1 .. `count`.
std::string ShardName(int shard, int count);

// The tensors of all shards of the index at `path`, which are beside it; a link to a file elsewhere
// is followed (the hub's cache has such). The headers of all are read at once, the data of a tensor
// when it is asked for, from a shard that is open only as long as that takes; one that has been
// replaced by then is DataLoss. NotFound names a shard, or a tensor that its shard lacks;
// InvalidArgument a tensor that is in two shards. A tensor of a shard that the index does not list
// is taken, as transformers does.
absl::StatusOr<std::unique_ptr<SafetensorsFile>> OpenShards(const std::string& path);

// Whether a folder has weights that OpenModelWeights would open; false where there is no folder.
bool HasModelWeights(const std::string& folder);

// The weights at `path`: a safetensors file, an index (a name with ".index.json"), or a folder that
// has one of them; model.safetensors goes before the index, as in transformers.
absl::StatusOr<std::unique_ptr<SafetensorsFile>> OpenModelWeights(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_MODELS_FILES_SHARDS_H_
