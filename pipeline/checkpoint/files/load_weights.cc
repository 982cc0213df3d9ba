#include "pipeline/checkpoint/files/load_weights.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "models/layers/layer.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"

namespace sluice {
namespace {

// GPT2LMHeadModel writes its body's names with this in front, GPT2Model (and the files on the hub)
// without.
constexpr char kBodyPrefix[] = "transformer.";
constexpr char kBlockPrefix[] = "h.";
constexpr char kHead[] = "lm_head.weight";
// Of a norm's parameters: ln_1, ln_2, ln_f.
constexpr char kNorm[] = ".ln_";
constexpr char kWeight[] = ".weight";
constexpr char kBias[] = ".bias";
constexpr size_t kNamesShown = 5;

std::string OtherName(absl::string_view name) {
  const bool has_prefix = absl::ConsumePrefix(&name, kBodyPrefix);
  return has_prefix ? std::string(name) : absl::StrCat(kBodyPrefix, name);
}

// "h.3." of "transformer.h.3.attn.bias"; "" of a tensor outside of any block.
std::string BlockOf(absl::string_view name) {
  absl::ConsumePrefix(&name, kBodyPrefix);
  if (!absl::StartsWith(name, kBlockPrefix)) return "";
  const size_t dot = name.find('.', sizeof(kBlockPrefix) - 1);
  return dot == absl::string_view::npos ? "" : std::string(name.substr(0, dot + 1));
}

std::string ShowNames(const std::vector<std::string>& names) {
  const size_t shown = std::min(names.size(), kNamesShown);
  std::string text = absl::StrJoin(names.begin(), names.begin() + static_cast<int>(shown), ", ");
  if (shown < names.size()) absl::StrAppend(&text, " and ", names.size() - shown, " more");
  return text;
}

// What to do about a file that lacks `missing`.
const char* Advice(const std::vector<std::string>& missing) {
  if (missing == std::vector<std::string>{kHead}) {
    return "; its head is tied to the token embedding: take a tied model (--tied, or "
           "\"tie_word_embeddings\": true in config.json)";
  }
  const bool norms = std::all_of(missing.begin(), missing.end(), [](const std::string& name) {
    return absl::StrContains(name, kNorm) && absl::EndsWith(name, kBias);
  });
  return norms ? "; its norms have no bias: take a model with RMS norms (--norm rms, or \"norm\": "
                 "\"rms\" in config.json)"
               : "";
}

bool IsReadable(const TensorEntry& entry) {
  return entry.dtype == "F32" || entry.dtype == "F16" || entry.dtype == "BF16";
}

// Reads `target` from the tensor `name`.
absl::Status ReadTarget(const SafetensorsFile& file, const std::string& name,
                        const TensorTarget& target) {
  if (target.count < 0) return file.Read(name, target.shape, target.data);
  if (target.count == 0) return absl::OkStatus();
  std::vector<float> whole(static_cast<size_t>(ElementCount(target.shape)));
  absl::Status status = file.Read(name, target.shape, whole.data());
  std::copy_n(whole.begin() + target.first, target.count, target.data);
  return status;
}

// Reads targets[i] from the tensor named names[i].
absl::Status ReadAs(const SafetensorsFile& file, const std::vector<TensorTarget>& targets,
                    const std::vector<std::string>& names) {
  absl::flat_hash_map<std::string, const TensorEntry*> entries;
  for (const TensorEntry& entry : file.entries()) entries[entry.name] = &entry;
  std::vector<std::string> missing;
  for (size_t i = 0; i < targets.size(); ++i) {
    const auto found = entries.find(names[i]);
    if (found == entries.end()) {
      missing.push_back(targets[i].name);
    } else if (found->second->shape != targets[i].shape || !IsReadable(*found->second)) {
      return file.Read(names[i], targets[i].shape, nullptr);  // says what differs
    }
  }
  if (!missing.empty()) {
    return absl::NotFoundError(absl::StrCat(file.path(), " lacks ", missing.size(), " of ",
                                            targets.size(), " tensors: ", ShowNames(missing),
                                            Advice(missing)));
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    absl::Status status = ReadTarget(file, names[i], targets[i]);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckNoFurtherBlocks(const SafetensorsFile& file, const WeightNames& model) {
  std::set<std::string> blocks = {""};
  for (const std::string& name : model.all) blocks.insert(BlockOf(name));
  for (const TensorEntry& entry : file.entries()) {
    if (blocks.count(BlockOf(entry.name)) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), " is of a deeper model: it holds '", entry.name,
                       "', and this model has ", blocks.size() - 1, " blocks"));
    }
  }
  return absl::OkStatus();
}

// A layer norm's weights would pass for an RMS norm's, which has a weight as well, but no bias.
absl::Status CheckSameNorms(const SafetensorsFile& file, const std::set<std::string>& present,
                            const WeightNames& model) {
  const std::set<std::string> all(model.all.begin(), model.all.end());
  for (const std::string& name : model.all) {
    absl::string_view norm = name;
    if (!absl::StrContains(name, kNorm) || !absl::ConsumeSuffix(&norm, kWeight)) continue;
    const std::string bias = absl::StrCat(norm, kBias);
    if (all.count(bias) > 0) continue;
    for (const std::string& stored : {bias, OtherName(bias)}) {
      if (present.count(stored) == 0) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          file.path(), " is of a model with layer norms: it holds '", stored,
          "', and this model has RMS norms, without bias; take a model with --norm layer"));
    }
  }
  return absl::OkStatus();
}

// A file may hold a tied tensor once more (older transformers wrote both), but not another one.
absl::Status CheckCopies(const SafetensorsFile& file, const std::set<std::string>& present,
                         const WeightNames& model) {
  for (const TensorTarget& copy : model.copies) {
    if (present.count(copy.name) == 0) continue;
    std::vector<float> values(static_cast<size_t>(ElementCount(copy.shape)));
    absl::Status status = file.Read(copy.name, copy.shape, values.data());
    if (!status.ok()) return status;
    if (std::memcmp(values.data(), copy.data, values.size() * sizeof(float)) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), " holds a '", copy.name,
                       "' of its own, and this model ties it to the token embedding; start an "
                       "untied model from it"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadTensors(const SafetensorsFile& file, const std::vector<TensorTarget>& targets) {
  std::vector<std::string> names;
  names.reserve(targets.size());
  for (const TensorTarget& target : targets) names.push_back(target.name);
  return ReadAs(file, targets, names);
}

absl::Status LoadWeights(const std::string& path, const std::vector<TensorTarget>& targets,
                         const WeightNames& model) {
  std::error_code ignored;
  const std::string file_path =
      std::filesystem::is_directory(path, ignored) ? absl::StrCat(path, "/", kWeightsFile) : path;
  const auto file = SafetensorsFile::Open(file_path);
  if (!file.ok()) return file.status();
  std::set<std::string> present;
  for (const TensorEntry& entry : (*file)->entries()) present.insert(entry.name);
  std::vector<std::string> names;
  for (const TensorTarget& target : targets) {
    const bool as_given = present.count(target.name) > 0;
    names.push_back(as_given ? target.name : OtherName(target.name));
  }
  absl::Status status = CheckNoFurtherBlocks(**file, model);
  if (status.ok()) status = CheckSameNorms(**file, present, model);
  if (status.ok()) status = ReadAs(**file, targets, names);
  if (status.ok()) status = CheckCopies(**file, present, model);
  return status;
}

}  // namespace sluice
