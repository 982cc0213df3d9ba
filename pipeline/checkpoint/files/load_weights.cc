#include "pipeline/checkpoint/files/load_weights.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "models/files/shards.h"
#include "models/layers/layer.h"
#include "models/spec/bfloat16.h"

namespace sluice {
namespace {

// A model with a head writes its body's names with one of these in front, the body alone (and
// GPT-2's files on the hub) without.
constexpr absl::string_view kBodyPrefixes[] = {"transformer.", "model."};
// Of a block's parameters: GPT-2's and the others'.
constexpr absl::string_view kBlockPrefixes[] = {"h.", "layers."};
// How the names of tensors end that transformers once stored and computes now.
constexpr absl::string_view kBuffers[] = {".attn.bias", ".attn.masked_bias", ".inv_freq"};
constexpr char kHead[] = "lm_head.weight";
// Of a norm's parameters: ln_1, ln_2, ln_f.
constexpr char kNorm[] = ".ln_";
constexpr char kWeight[] = ".weight";
constexpr char kBias[] = ".bias";
constexpr size_t kNamesShown = 5;
constexpr int64_t kPiece = int64_t{1} << 18U;  // elements that are compared together

// Without the prefix of a body.
absl::string_view Bare(absl::string_view name) {
  for (const absl::string_view prefix : kBodyPrefixes) {
    if (absl::ConsumePrefix(&name, prefix)) break;
  }
  return name;
}

// "h.3." of "transformer.h.3.attn.bias"; "" of a tensor outside of any block.
absl::string_view BlockOf(absl::string_view name) {
  name = Bare(name);
  for (const absl::string_view prefix : kBlockPrefixes) {
    if (!absl::StartsWith(name, prefix)) continue;
    const size_t dot = name.find('.', prefix.size());
    return dot == absl::string_view::npos ? "" : name.substr(0, dot + 1);
  }
  return "";
}

bool IsBuffer(absl::string_view name) {
  return std::any_of(std::begin(kBuffers), std::end(kBuffers),
                     [name](absl::string_view buffer) { return absl::EndsWith(name, buffer); });
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
    return "; its head is tied to the token embedding: take a tied model "
           "(\"tie_word_embeddings\": true in config.json, or train --tied)";
  }
  const bool norms = std::all_of(missing.begin(), missing.end(), [](const std::string& name) {
    return absl::StrContains(name, kNorm) && absl::EndsWith(name, kBias);
  });
  return norms ? "; its norms have no bias: take a model with RMS norms (--norm rms, or \"norm\": "
                 "\"rms\" in config.json)"
               : "";
}

// A piece at a time, so that no tensor is in memory as fp32 that is not kept so.
absl::Status ReadRounded(const SafetensorsFile& file, const std::string& name,
                         const TensorTarget& target, int64_t count) {
  std::vector<float> piece(static_cast<size_t>(std::min(kPiece, count)));
  auto* const to = static_cast<uint16_t*>(target.data);
  for (int64_t done = 0; done < count; done += kPiece) {
    const int64_t size = std::min(kPiece, count - done);
    absl::Status status = file.Read(name, target.shape, target.first + done, size, piece.data());
    if (!status.ok()) return status;
    if (target.split) {
      SplitFloats(done, size, piece.data(), to, target.low_halves);
    } else {
      ToBFloat16(size, piece.data(), to + done);
    }
  }
  return absl::OkStatus();
}

absl::Status ReadTarget(const SafetensorsFile& file, const std::string& name,
                        const TensorTarget& target) {
  const int64_t count = target.count < 0 ? ElementCount(target.shape) : target.count;
  if (target.dtype == DType::kBFloat16) return ReadRounded(file, name, target, count);
  return file.Read(name, target.shape, target.first, count, static_cast<float*>(target.data));
}

// The tensors of a file, by their names without prefix.
class NamesInFile {
 public:
  explicit NamesInFile(const SafetensorsFile& file) {
    for (const TensorEntry& entry : file.entries()) {
      all_.insert(entry.name);
      by_bare_.emplace(Bare(entry.name), entry.name);
    }
  }

  // What the file calls the tensor `name`; nothing where it has none.
  std::optional<std::string> Find(const std::string& name) const {
    if (all_.contains(name)) return name;
    const auto found = by_bare_.find(Bare(name));
    if (found == by_bare_.end()) return std::nullopt;
    return found->second;
  }

 private:
  absl::flat_hash_set<std::string> all_;
  absl::flat_hash_map<std::string, std::string> by_bare_;
};

// What the file calls the tensor `name`, or one that is tied to it where it has only that.
std::optional<std::string> FindTied(const NamesInFile& present, const std::string& name,
                                    const std::vector<TiedName>& tied) {
  std::optional<std::string> found = present.Find(name);
  for (const TiedName& copy : tied) {
    if (!found && copy.original == name) found = present.Find(copy.name);
  }
  return found;
}

// What the file calls the targets, whose shapes it must have.
absl::StatusOr<std::vector<std::string>> NamesOf(const SafetensorsFile& file,
                                                 const std::vector<TensorTarget>& targets,
                                                 const NamesInFile& present, bool exact,
                                                 const std::vector<TiedName>& tied = {}) {
  std::vector<std::string> names, missing;
  for (const TensorTarget& target : targets) {
    const std::optional<std::string> name = FindTied(present, target.name, tied);
    if (!name || (exact && *name != target.name)) {
      missing.push_back(target.name);
      continue;
    }
    if (absl::Status status = file.Check(*name, target.shape); !status.ok()) return status;
    names.push_back(*name);
  }
  if (missing.empty()) return names;
  return absl::NotFoundError(absl::StrCat(file.path(), " lacks ", missing.size(), " of ",
                                          targets.size(), " tensors: ", ShowNames(missing),
                                          Advice(missing)));
}

// Reads targets[i] from the tensor named names[i].
absl::Status ReadAs(const SafetensorsFile& file, const std::vector<TensorTarget>& targets,
                    const std::vector<std::string>& names) {
  for (size_t i = 0; i < targets.size(); ++i) {
    absl::Status status = ReadTarget(file, names[i], targets[i]);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckNoFurtherBlocks(const SafetensorsFile& file, const WeightNames& model) {
  const auto kind = [](absl::string_view block) { return block.substr(0, block.find('.')); };
  std::set<absl::string_view> blocks = {""};
  for (const std::string& name : model.all) blocks.insert(BlockOf(name));
  std::set<absl::string_view> kinds;
  for (const absl::string_view block : blocks) kinds.insert(kind(block));
  for (const TensorEntry& entry : file.entries()) {
    const absl::string_view block = BlockOf(entry.name);
    if (blocks.contains(block) || !kinds.contains(kind(block))) continue;
    return absl::InvalidArgumentError(absl::StrCat(file.path(), " is of a deeper model: it holds '",
                                                   entry.name, "', and this model has ",
                                                   blocks.size() - 1, " blocks"));
  }
  return absl::OkStatus();
}

// A layer norm's weights would pass for an RMS norm's, which has a weight as well, but no bias.
absl::Status CheckSameNorms(const SafetensorsFile& file, const NamesInFile& names,
                            const WeightNames& model) {
  const std::set<std::string> all(model.all.begin(), model.all.end());
  for (const std::string& name : model.all) {
    absl::string_view norm = name;
    if (!absl::StrContains(name, kNorm) || !absl::ConsumeSuffix(&norm, kWeight)) continue;
    const std::string bias = absl::StrCat(norm, kBias);
    const std::optional<std::string> stored = names.Find(bias);
    if (all.contains(bias) || !stored) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        file.path(), " is of a model with layer norms: it holds '", *stored,
        "', and this model has RMS norms, without bias; take a model with --norm layer"));
  }
  return absl::OkStatus();
}

// A tensor that is left out would change every answer of the model.
absl::Status CheckNothingLeftOut(const SafetensorsFile& file, const WeightNames& model) {
  std::set<absl::string_view> known;
  for (const std::string& name : model.all) known.insert(Bare(name));
  for (const TiedName& tied : model.tied) known.insert(Bare(tied.name));
  std::vector<std::string> extra;
  for (const TensorEntry& entry : file.entries()) {
    if (!known.contains(Bare(entry.name)) && !IsBuffer(entry.name)) extra.push_back(entry.name);
  }
  if (extra.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(file.path(), " is of another model: it holds ", extra.size(), " tensors that ",
                   "this model has not: ", ShowNames(extra),
                   "; take the config.json that belongs to these weights"));
}

// Whether values that belong at element `first` of `target` are those that it has.
bool AreThere(absl::Span<const float> values, int64_t first, const TensorTarget& target) {
  if (target.dtype == DType::kFloat32) {
    return std::memcmp(values.data(), static_cast<const float*>(target.data) + first,
                       values.size() * sizeof(float)) == 0;
  }
  const uint16_t* const high = static_cast<const uint16_t*>(target.data) + first;
  const LowHalves& low = target.low_halves;
  for (size_t i = 0; i < values.size(); ++i) {
    const SplitFloat parts = SplitFloat::Of(values[i]);
    if (high[i] != (target.split ? parts.high : ToBFloat16(values[i]))) return false;
    const int64_t at = first + static_cast<int64_t>(i) - low.first;
    if (at >= 0 && at < low.count && low.values[at] != parts.low) return false;
  }
  return true;
}

// Whether `values`, which a file has from element `first` of a tensor on, are the wanted ones.
using AreWanted =
    absl::FunctionRef<absl::StatusOr<bool>(absl::Span<const float> values, int64_t first)>;

// InvalidArgument where the tied tensor `name`, of `shape`, has values that are not wanted.
absl::Status CheckCopy(const SafetensorsFile& file, const std::string& name,
                       const std::vector<int64_t>& shape, AreWanted are_wanted) {
  const int64_t elements = ElementCount(shape);
  if (absl::Status status = file.Check(name, shape); !status.ok()) return status;
  std::vector<float> values(static_cast<size_t>(std::min(kPiece, elements)));
  for (int64_t first = 0; first < elements; first += kPiece) {
    const int64_t count = std::min(kPiece, elements - first);
    absl::Status status = file.Read(name, shape, first, count, values.data());
    if (!status.ok()) return status;
    const absl::StatusOr<bool> wanted =
        are_wanted(absl::MakeConstSpan(values).first(static_cast<size_t>(count)), first);
    if (!wanted.ok()) return wanted.status();
    if (*wanted) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), " holds a '", name,
                     "' of its own, and this model ties it to the token embedding; start an "
                     "untied model from it"));
  }
  return absl::OkStatus();
}

// What the file calls the targets, where it is of this model.
absl::StatusOr<std::vector<std::string>> Match(const SafetensorsFile& file,
                                               const std::vector<TensorTarget>& targets,
                                               const NamesInFile& present,
                                               const WeightNames& model) {
  absl::Status status = CheckNoFurtherBlocks(file, model);
  if (status.ok()) status = CheckSameNorms(file, present, model);
  if (status.ok()) status = CheckNothingLeftOut(file, model);
  if (!status.ok()) return status;
  return NamesOf(file, targets, present, /*exact=*/false, model.tied);
}

// A file may hold a tied tensor once more (older transformers wrote both), but not another one.
absl::Status CheckCopies(const SafetensorsFile& file, const NamesInFile& names,
                         const WeightNames& model) {
  for (const TensorTarget& copy : model.copies) {
    const std::optional<std::string> name = names.Find(copy.name);
    if (!name) continue;
    absl::Status status =
        CheckCopy(file, *name, copy.shape, [&](absl::Span<const float> values, int64_t first) {
          return AreThere(values, first, copy);
        });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// The same of a file of which nothing was read: tensor names[i], which targets[i] would be read
// from, is compared with those that are tied to it.
absl::Status CheckCopiesWithin(const SafetensorsFile& file, const NamesInFile& present,
                               const std::vector<TensorTarget>& targets,
                               const std::vector<std::string>& names, const WeightNames& model) {
  std::vector<float> expected;
  for (const TiedName& tied : model.tied) {
    const std::optional<std::string> copy = present.Find(tied.name);
    for (size_t i = 0; copy && i < targets.size(); ++i) {
      if (targets[i].name != tied.original || names[i] == *copy) continue;
      const std::vector<int64_t>& shape = targets[i].shape;
      const auto as_original = [&](absl::Span<const float> values,
                                   int64_t first) -> absl::StatusOr<bool> {
        expected.resize(values.size());
        const auto count = static_cast<int64_t>(values.size());
        absl::Status status = file.Read(names[i], shape, first, count, expected.data());
        if (!status.ok()) return status;
        return std::memcmp(values.data(), expected.data(), values.size() * sizeof(float)) == 0;
      };
      absl::Status status = CheckCopy(file, *copy, shape, as_original);
      if (!status.ok()) return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadTensors(const SafetensorsFile& file, const std::vector<TensorTarget>& targets) {
  const auto names = NamesOf(file, targets, NamesInFile(file), /*exact=*/true);
  return names.ok() ? ReadAs(file, targets, *names) : names.status();
}

absl::StatusOr<std::vector<std::string>> MatchWeights(const SafetensorsFile& file,
                                                      const std::vector<TensorTarget>& targets,
                                                      const WeightNames& model) {
  const NamesInFile present(file);
  auto names = Match(file, targets, present, model);
  if (!names.ok()) return names;
  absl::Status status = CheckCopiesWithin(file, present, targets, *names, model);
  if (!status.ok()) return status;
  return names;
}

absl::Status LoadWeights(const std::string& path, const std::vector<TensorTarget>& targets,
                         const WeightNames& model) {
  const absl::StatusOr<std::unique_ptr<SafetensorsFile>> file = OpenModelWeights(path);
  if (!file.ok()) return file.status();
  const NamesInFile present(**file);
  const auto names = Match(**file, targets, present, model);
  if (!names.ok()) return names.status();
  if (absl::Status status = ReadAs(**file, targets, *names); !status.ok()) return status;
  return CheckCopies(**file, present, model);
}

}  // namespace sluice
