#include "pipeline/checkpoint/adapters/merged_model.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstddef>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "models/files/file_writer.h"
#include "models/files/safetensors_header.h"
#include "models/files/shards.h"
#include "models/layers/decoder_names.h"
#include "models/layers/layer.h"
#include "models/spec/bfloat16.h"
#include "models/spec/float16.h"
#include "pipeline/checkpoint/adapters/adapter_folder.h"
#include "pipeline/checkpoint/adapters/merge_adapter.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"
#include "pipeline/checkpoint/files/load_weights.h"
#include "pipeline/checkpoint/files/model_files.h"
#include "pipeline/checkpoint/files/model_folder.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kPiece = int64_t{1} << 20;  // elements that are copied together

// Whether `file` is what a merge that was interrupted has left of a file. Another process that
// still writes it may be at work at this moment; one of our own number is not, which is common
// where each container counts anew.
bool IsLeftover(const fs::directory_entry& file) {
  std::error_code error;
  const auto name = ParseTemporaryName(file.path().filename().string());
  if (!name.has_value() || !fs::is_regular_file(file.symlink_status(error))) return false;
  const auto writer = static_cast<pid_t>(name->process);
  return writer == getpid() || (kill(writer, 0) != 0 && errno == ESRCH);
}

// A folder that is made file by file, and removed again unless it is kept. While it is made it has
// one more file, by which the next merge knows that all the others are those of a merge that was
// killed.
class NewFolder {
 public:
  explicit NewFolder(std::string path) : path_(std::move(path)) {}
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;
  ~NewFolder() {
    if (kept_) return;
    std::error_code ignored;
    for (const fs::path& file : files_) fs::remove(file, ignored);
    sign_.reset();
    if (made_) fs::remove(path_, ignored);
  }

  // `names`: of the files that will be made in it, those of a merge that was killed included.
  absl::Status Make(const std::set<std::string>& names) {
    std::error_code error;
    made_ = fs::create_directories(path_, error);
    if (error) return absl::InvalidArgumentError(Wrong(error.message()));
    if (absl::Status ok = RemoveLeftovers(names); !ok.ok()) return ok;
    absl::StatusOr<std::unique_ptr<FileWriter>> sign = FileWriter::Create(fs::path(path_) / kSign);
    if (!sign.ok()) return sign.status();
    sign_ = *std::move(sign);
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<FileWriter>> Create(const std::string& name) {
    const fs::path file = fs::path(path_) / name;
    std::error_code error;
    if (fs::create_directory(file.parent_path(), error)) files_.push_front(file.parent_path());
    if (error) return absl::InvalidArgumentError(Wrong(error.message()));
    files_.push_front(file);
    return FileWriter::Create(file.string());
  }

  absl::Status Write(const std::string& name, const std::string& text) {
    absl::StatusOr<std::unique_ptr<FileWriter>> file = Create(name);
    if (!file.ok()) return file.status();
    absl::Status status = (*file)->Append(text);
    return status.ok() ? (*file)->Commit() : status;
  }

  void Keep() {
    kept_ = true;
    sign_.reset();
  }

 private:
  static constexpr char kSign[] = ".sluice-merge";
  static constexpr char kHasFiles[] =
      "it has files; expected a folder that is new or empty, since nothing is replaced";

  // Nothing goes unless everything may.
  absl::Status RemoveLeftovers(const std::set<std::string>& names) {
    std::error_code error;
    bool killed = false;
    for (fs::directory_iterator file(path_, error), end; !error && file != end;
         file.increment(error)) {
      const auto name = ParseTemporaryName(file->path().filename().string());
      killed = killed || (name.has_value() && name->file == kSign && IsLeftover(*file));
    }
    std::vector<fs::path> leftovers;
    for (fs::recursive_directory_iterator file(path_, error), end; !error && file != end;
         file.increment(error)) {
      const std::string name = fs::relative(file->path(), path_, error).string();
      const bool folder = fs::is_directory(file->symlink_status(error));
      const auto within = names.lower_bound(name + "/");
      const bool made = folder ? within != names.end() && absl::StartsWith(*within, name + "/")
                               : names.count(name) != 0;
      if (!(killed && made) && !IsLeftover(*file))
        return absl::InvalidArgumentError(Wrong(kHasFiles));
      leftovers.push_back(file->path());
    }
    // What is in a folder before it, and the sign last: its name begins with a dot.
    std::sort(leftovers.begin(), leftovers.end(), std::greater<>());
    for (size_t i = 0; i < leftovers.size() && !error; ++i) fs::remove(leftovers[i], error);
    if (error) return absl::InvalidArgumentError(Wrong(error.message()));
    return absl::OkStatus();
  }

  std::string Wrong(absl::string_view what) const {
    return absl::StrCat("cannot write to ", path_, ": ", what);
  }

  const std::string path_;
  bool made_ = false, kept_ = false;
  std::unique_ptr<FileWriter> sign_;
  std::deque<fs::path> files_;  // and the folders that some of them are in, behind these
};

class Merger {
 public:
  explicit Merger(const MergeRequest& request) : request_(request), folder_(request.output) {}

  absl::StatusOr<MergedModel> Run() {
    absl::Status status = Open();
    if (status.ok()) status = folder_.Make(Names());
    if (status.ok()) status = WriteWeights();
    if (status.ok()) status = WriteOtherFiles();
    if (!status.ok()) return status;
    folder_.Keep();
    return result_;
  }

 private:
  absl::Status Open() {
    absl::StatusOr<ModelFolder> base = OpenModelFolder(request_.base);
    if (!base.ok()) return base.status();
    base_ = *std::move(base);
    absl::StatusOr<AdapterFolder> adapter = OpenAdapter(request_.adapter);
    if (!adapter.ok()) return adapter.status();
    adapter_ = *std::move(adapter);
    absl::StatusOr<std::vector<LinearMap>> maps = AdaptedMaps(adapter_, *base_.spec.decoder());
    if (!maps.ok()) return maps.status();
    for (LinearMap& map : *maps) maps_[absl::StrCat(map.name, ".weight")] = std::move(map);
    auto weights = OpenModelWeights(base_.path);
    if (!weights.ok()) return weights.status();
    weights_ = *std::move(weights);
    absl::Status status = AddKeptFiles(base_.path, &files_);
    return status.ok() ? MatchTensors() : status;
  }

  // Of all files that are written.
  std::set<std::string> Names() const {
    std::set<std::string> names = {kConfigFile, kWeightsIndexFile};
    for (const WeightShard& shard : shards_) names.insert(shard.name);
    for (const auto& [name, text] : files_.texts) names.insert(name);
    return names;
  }

  // What is written, and what the base model's files call it.
  absl::Status MatchTensors() {
    WeightNames model;
    const auto layers = DeclareParameters(base_.spec);
    if (!layers.ok()) return layers.status();
    std::vector<TensorTarget> targets;
    for (const std::vector<ParameterDecl>& layer : *layers) {
      for (const ParameterDecl& decl : layer) {
        if (!decl.tied_to.empty()) {
          model.tied.push_back({decl.name, decl.tied_to});
          continue;
        }
        model.all.push_back(decl.name);
        targets.push_back({.name = decl.name, .shape = decl.shape});
      }
    }
    absl::StatusOr<std::vector<std::string>> names = MatchWeights(*weights_, targets, model);
    if (!names.ok()) return names.status();
    names_ = *std::move(names);
    std::map<std::string, std::string> types;
    for (const TensorEntry& entry : weights_->entries()) types[entry.name] = entry.dtype;
    for (size_t i = 0; i < targets.size(); ++i)
      tensors_.push_back({targets[i].name, targets[i].shape, types[names_[i]]});
    shards_ = DivideIntoShards(tensors_, request_.shard_bytes);
    return absl::OkStatus();
  }

  absl::Status WriteWeights() {
    for (const WeightShard& shard : shards_) {
      if (absl::Status status = WriteShard(shard); !status.ok()) return status;
    }
    if (shards_.size() == 1) return absl::OkStatus();
    const absl::StatusOr<std::string> index = IndexOf(tensors_, shards_);
    return index.ok() ? folder_.Write(kWeightsIndexFile, *index) : index.status();
  }

  absl::Status WriteShard(const WeightShard& shard) {
    const auto first = tensors_.begin() + static_cast<std::ptrdiff_t>(shard.first);
    const absl::StatusOr<std::string> head = FormatSafetensorsHead(
        {first, first + static_cast<std::ptrdiff_t>(shard.count)}, TensorMetadata());
    if (!head.ok()) return head.status();
    absl::StatusOr<std::unique_ptr<FileWriter>> file = folder_.Create(shard.name);
    if (!file.ok()) return file.status();
    absl::Status status = (*file)->Append(*head);
    for (size_t i = shard.first; i < shard.first + shard.count && status.ok(); ++i)
      status = WriteTensor(i, **file);
    result_.bytes += (*file)->size();
    return status.ok() ? (*file)->Commit() : status;
  }

  absl::Status WriteTensor(size_t i, FileWriter& file) {
    const TensorShape& tensor = tensors_[i];
    ++result_.tensors;
    const auto map = maps_.find(tensor.name);
    const int64_t elements = ElementCount(tensor.shape);
    // A tensor that is changed is read as a whole.
    const int64_t most = map != maps_.end() ? elements : std::min(kPiece, elements);
    values_.resize(static_cast<size_t>(most));
    for (int64_t begin = 0; begin < elements; begin += most) {
      const int64_t count = std::min(most, elements - begin);
      absl::Status status = weights_->Read(names_[i], tensor.shape, begin, count, values_.data());
      if (status.ok() && map != maps_.end()) status = Merge(map->second);
      if (status.ok())
        status = Append(tensor, absl::MakeSpan(values_).first(static_cast<size_t>(count)), file);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  absl::Status Merge(const LinearMap& map) {
    ++result_.maps;
    return MergeAdapter(adapter_, map, HasGpt2Parameters(*base_.spec.decoder()), values_.data());
  }

  absl::Status Append(const TensorShape& tensor, absl::Span<const float> values, FileWriter& file) {
    const bool wide = tensor.dtype == "F32", brain = tensor.dtype == "BF16";
    halves_.clear();
    for (const float value : values) {
      const uint16_t half = wide ? 0 : brain ? ToBFloat16(value) : ToFloat16(value);
      const float written = wide ? value : brain ? FromBFloat16(half) : FromFloat16(half);
      if (!std::isfinite(written)) {
        return absl::InvalidArgumentError(
            absl::StrCat("tensor '", tensor.name, "' would have the value ", value, ", which is ",
                         "no finite ", tensor.dtype, "; nothing was written"));
      }
      if (!wide) halves_.push_back(half);
    }
    return wide ? file.Append(values.data(), values.size() * sizeof(float))
                : file.Append(halves_.data(), halves_.size() * sizeof(uint16_t));
  }

  absl::Status WriteOtherFiles() {
    for (const auto& [name, text] : files_.texts) {
      if (absl::Status status = folder_.Write(name, text); !status.ok()) return status;
    }
    const absl::StatusOr<std::string> config =
        ReadModelFile((fs::path(base_.path) / kConfigFile).string());
    return config.ok() ? folder_.Write(kConfigFile, *config) : config.status();
  }

  const MergeRequest& request_;
  NewFolder folder_;
  ModelFolder base_;
  AdapterFolder adapter_;
  std::map<std::string, LinearMap> maps_;  // by the name of the weight
  std::unique_ptr<SafetensorsFile> weights_;
  ModelFiles files_;
  std::vector<TensorShape> tensors_;
  std::vector<WeightShard> shards_;
  std::vector<std::string> names_;  // of the tensors, in the base model's files
  std::vector<float> values_;       // of a tensor or a piece of one
  std::vector<uint16_t> halves_;
  MergedModel result_;
};

}  // namespace

absl::StatusOr<MergedModel> MergeModel(const MergeRequest& request) {
  return Merger(request).Run();
}

}  // namespace sluice
