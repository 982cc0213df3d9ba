#include "pipeline/checkpoint/files/model_files.h"

#include <cstdint>
#include <filesystem>
#include <utility>

#include "models/files/is_there.h"
#include "models/files/positioned_file.h"
#include "models/spec/json.h"
#include "models/spec/json_text.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr char kOriginKey[] = "model_files_from";
// The largest tokenizer.json have some 40 MB.
constexpr int64_t kMostBytes = int64_t{512} << 20;

}  // namespace

const std::vector<std::string>& KeptFileNames() {
  static const auto& names = *new std::vector<std::string>{
      "added_tokens.json", "chat_template.jinja",     "generation_config.json",
      "merges.txt",        "special_tokens_map.json", "tokenizer.json",
      "tokenizer.model",   "tokenizer_config.json",   "vocab.json"};
  return names;
}

std::string OriginOf(const std::string& more) {
  const absl::StatusOr<nlohmann::json> json = ParseJson(more);
  const bool has = json.ok() && json->is_object() && json->contains(kOriginKey);
  return has && (*json)[kOriginKey].is_string() ? (*json)[kOriginKey].get<std::string>() : "";
}

std::string WithOrigin(const std::string& more, const std::string& origin) {
  absl::StatusOr<nlohmann::json> json = ParseJson(more);
  if (origin.empty() || !json.ok() || !json->is_object()) return more;
  (*json)[kOriginKey] = origin;
  // A path need not be UTF-8, JSON must be.
  return JsonText(*json);
}

absl::StatusOr<std::string> ReadModelFile(const std::string& path) {
  return ReadWholeFile(path, kMostBytes);
}

absl::Status AddKeptFiles(const std::string& folder, ModelFiles* files) {
  for (const std::string& name : KeptFileNames()) {
    const fs::path path = fs::path(folder) / name;
    if (files->texts.contains(name) || !IsThere(path)) continue;
    absl::StatusOr<std::string> text = ReadModelFile(path.string());
    if (!text.ok()) return text.status();
    files->texts[name] = *std::move(text);
  }
  return absl::OkStatus();
}

}  // namespace sluice
