#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/spec/families/common.h"

namespace sluice {
namespace {

constexpr char kField[] = "layer_types";

std::vector<bool> ReadGlobalBlocks(FieldReader& reader, size_t layers) {
  std::vector<std::string> types;
  reader.OptionalStrings(kField, &types);
  if (types.size() != layers) {
    reader.Fail(kField, absl::StrCat(layers, " entries, one of each block"));
  }
  std::vector<bool> global;
  for (const std::string& type : types) {
    if (type != kGlobalAttention && type != kLocalAttention) {
      reader.Fail(kField, absl::StrCat(kGlobalAttention, " and ", kLocalAttention, " alone"));
    }
    global.push_back(type == kGlobalAttention);
  }
  return global;
}

}  // namespace

void ReadWindow(FieldReader& reader, int64_t otherwise, DecoderConfig* config) {
  CountOrNone(reader, "sliding_window", 1, kMostIds, otherwise, &config->window);
}

void ReadLayerTypes(FieldReader& reader, absl::FunctionRef<bool(int64_t block)> sees_all,
                    DecoderConfig* config) {
  if (!reader.status().ok()) return;
  std::vector<bool> global;
  if (reader.Has(kField)) {
    global = ReadGlobalBlocks(reader, static_cast<size_t>(config->layers));
  } else {
    for (int64_t block = 0; block < config->layers; ++block) global.push_back(sees_all(block));
  }
  const bool all = std::find(global.begin(), global.end(), false) == global.end();
  const bool none = std::find(global.begin(), global.end(), true) == global.end();
  if (config->window == 0 && !all) {
    reader.Fail(reader.Has(kField) ? kField : "sliding_window",
                absl::StrCat("a sliding_window where a block has ", kLocalAttention));
  }
  if (all) config->window = 0;
  if (!all && !none) config->global_blocks = std::move(global);
}

nlohmann::ordered_json LayerTypesJson(const DecoderConfig& config) {
  nlohmann::ordered_json types = nlohmann::ordered_json::array();
  for (int64_t block = 0; block < config.layers; ++block) {
    types.push_back(config.HasWindow(block) ? kLocalAttention : kGlobalAttention);
  }
  return types;
}

}  // namespace sluice
