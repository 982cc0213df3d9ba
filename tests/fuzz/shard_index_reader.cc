// The reader of an index of shards, behind `train --init FOLDER` and `sample --load FOLDER`.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "fuzz_folder.h"
#include "models/files/shards.h"
#include "promises.h"
#include "readers.h"

namespace sluice {
namespace {

// A shard with one tensor, of two values.
std::string ShardOf(const std::string& name) {
  const std::string header =
      absl::StrCat(R"({")", name, R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})");
  std::string bytes;
  uint64_t length = header.size();
  for (int byte = 0; byte < 8; ++byte, length >>= 8U) bytes += static_cast<char>(length & 0xffU);
  return bytes + header + std::string(8, '\1');
}

class Folder : public FuzzFolder {
 public:
  Folder() {
    Write(ShardName(1, 2), ShardOf("a"));
    Write(ShardName(2, 2), ShardOf("b"));
  }
};

void RequireSameAgain(absl::string_view text) {
  const auto index = ParseShardIndex(text);
  Require(index.ok(), "what was opened can be parsed");
  for (const auto& [tensor, file] : index->weight_map) {
    Require(IsPlainFileName(file), "a shard lies in the folder");
  }
  const auto written = FormatShardIndex(*index, 1, 1);
  Require(written.ok(), "what was read can be written");
  const auto again = ParseShardIndex(*written);
  Require(again.ok() && again->weight_map == index->weight_map, "an index comes back");
}

}  // namespace

void TryShardIndex(absl::string_view text) {
  static const Folder folder;
  folder.Write(kModelIndexFile, text);
  const auto file = OpenModelWeights(folder.path());
  if (!file.ok()) {
    const absl::Status& error = file.status();
    Require(absl::IsInvalidArgument(error) || absl::IsDataLoss(error) || absl::IsNotFound(error),
            "bad input is named so");
    return Require(absl::StrContains(error.message(), folder.path() + "/"),
                   "an error names its file");
  }
  RequireSameAgain(text);
  for (const TensorEntry& entry : (*file)->entries()) {
    std::vector<float> values(2);
    Require((*file)->Read(entry.name, {2}, values.data()).ok(), "a tensor can be read");
  }
}

}  // namespace sluice
