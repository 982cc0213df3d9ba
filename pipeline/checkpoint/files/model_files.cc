#include "pipeline/checkpoint/files/model_files.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "models/files/is_there.h"
#include "models/files/positioned_file.h"
#include "models/files/shards.h"
#include "models/spec/json.h"
#include "models/spec/json_text.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr char kOriginKey[] = "model_files_from";
// The largest tokenizer.json have some 40 MB.
constexpr int64_t kMostBytes = int64_t{512} << 20;

constexpr const char* kNames[] = {
    "added_tokens.json", "chat_template.jinja",     "generation_config.json",
    "merges.txt",        "special_tokens_map.json", "tokenizer.json",
    "tokenizer.model",   "tokenizer_config.json",   "vocab.json"};
// Where transformers keeps the templates that have another name than "default".
constexpr char kMoreTemplates[] = "additional_chat_templates";

bool IsTemplateFile(absl::string_view name) {
  return absl::EndsWith(name, ".jinja") && IsPlainFileName(std::string(name));
}

// The names of the files to look for in `folder`.
std::vector<std::string> NamesIn(const fs::path& folder) {
  std::vector<std::string> names(std::begin(kNames), std::end(kNames));
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder / kMoreTemplates, ignored)) {
    const std::string name = entry.path().filename().string();
    if (IsTemplateFile(name)) names.push_back(absl::StrCat(kMoreTemplates, "/", name));
  }
  return names;
}

}  // namespace

bool IsKeptFile(absl::string_view name) {
  if (std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames)) return true;
  return absl::ConsumePrefix(&name, kMoreTemplates) && absl::ConsumePrefix(&name, "/") &&
         IsTemplateFile(name);
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
  for (const std::string& name : NamesIn(folder)) {
    const fs::path path = fs::path(folder) / name;
    if (files->texts.contains(name) || !IsThere(path)) continue;
    absl::StatusOr<std::string> text = ReadModelFile(path.string());
    if (!text.ok()) return text.status();
    files->texts[name] = *std::move(text);
  }
  return absl::OkStatus();
}

}  // namespace sluice
