#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "models/files/shards.h"
#include "models/spec/json.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr int kIndent = 2;

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(what,
                   "; expected an index as transformers writes it: {\"metadata\": {...}, "
                   "\"weight_map\": {\"TENSOR\": \"FILE\"}}"));
}

}  // namespace

bool IsPlainFileName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

absl::StatusOr<ShardIndex> ParseShardIndex(absl::string_view json) {
  const absl::StatusOr<Json> parsed = ParseJson(json);
  if (!parsed.ok()) return parsed.status();
  if (!parsed->is_object()) return Bad(absl::StrCat("is ", ShowJson(*parsed)));
  const auto map = parsed->find("weight_map");
  if (map == parsed->end()) return Bad("has no 'weight_map'");
  if (!map->is_object() || map->empty()) {
    return Bad(absl::StrCat("its 'weight_map' is ", ShowJson(*map)));
  }
  ShardIndex index;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) {
      return Bad(absl::StrCat("the file of tensor ", ShowJson(tensor), " is ", ShowJson(file)));
    }
    if (!IsPlainFileName(file.get_ref<const std::string&>())) {
      return absl::InvalidArgumentError(
          absl::StrCat("the file of tensor ", ShowJson(tensor), " is ", ShowJson(file),
                       "; expected the name of a file in the same folder"));
    }
    index.weight_map[tensor] = file.get<std::string>();
  }
  return index;
}

absl::StatusOr<std::string> FormatShardIndex(const ShardIndex& index, uint64_t total_bytes,
                                             uint64_t total_elements) {
  const Json json = {
      {"metadata", {{"total_parameters", total_elements}, {"total_size", total_bytes}}},
      {"weight_map", index.weight_map}};
  try {
    return json.dump(kIndent) + "\n";
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("a name is not UTF-8: ", error.what()));
  }
}

std::string ShardName(int shard, int count) {
  return absl::StrFormat("model-%05d-of-%05d.safetensors", shard, count);
}

}  // namespace sluice
