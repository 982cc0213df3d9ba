// The reader behind `train --resume` and `sample --load`.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "fuzz_folder.h"
#include "models/spec/model_config.h"
#include "pipeline/checkpoint/files/checkpoint.h"
#include "pipeline/checkpoint/files/checkpoint_files.h"
#include "pipeline/checkpoint/files/load_weights.h"
#include "promises.h"
#include "readers.h"
#include "tests/pipeline/checkpoint/signed_state.h"

namespace sluice {
namespace {

constexpr char kApart[] = "\n====\n";
constexpr uint64_t kMostElements = 1 << 16;  // of a tensor, so that an input takes milliseconds

// The folder of one step, which nothing else lies beside.
class Folder {
 public:
  Folder() { std::filesystem::create_directory(path_); }
  const std::string& path() const { return path_; }
  void Write(const std::string& name, const std::string& bytes) const {
    above_.Write(StepFolderName(1) + "/" + name, bytes);
  }

 private:
  const FuzzFolder above_;
  const std::string path_ = above_.path() + "/" + StepFolderName(1);
};

// A file of tensors whose header ends with the last brace; its length comes first.
std::string WithLength(const std::string& piece) {
  if (piece.empty() || piece.front() != '{') return piece;
  uint64_t length = piece.rfind('}') + 1;
  std::string bytes;
  for (int byte = 0; byte < 8; ++byte, length >>= 8U) bytes += static_cast<char>(length & 0xffU);
  return bytes + piece;
}

void WriteCheckpoint(absl::string_view text, const Folder& folder) {
  std::vector<std::string> pieces = absl::StrSplit(text, absl::MaxSplits(kApart, 3));
  pieces.resize(4);
  const std::pair<const char*, std::string> files[] = {{kConfigFile, pieces[1]},
                                                       {kWeightsFile, WithLength(pieces[2])},
                                                       {kOptimizerFile, WithLength(pieces[3])}};
  std::string state = pieces[0];
  for (const auto& [name, bytes] : files) {
    folder.Write(name, bytes);
    state = absl::StrReplaceAll(state, {{absl::StrCat("@", name), RecordOf(bytes)}});
  }
  folder.Write(kStateFile, SignState(state));
}

void RequireSameAgain(const RunState& state) {
  const auto written = FormatState(state, {});
  Require(written.ok(), "what was read can be written");
  const auto again = ParseState(*written);
  Require(again.ok() && *FormatState(again->state, {}) == *written, "a state comes back");
  const auto model = ParseModelConfig(FormatModelConfig(state.model), kFuzzedFile);
  Require(model.ok() && model->config == state.model.config, "a model comes back");
}

void ReadAll(const SafetensorsFile& file) {
  uint64_t end = 0;
  for (const TensorEntry& entry : file.entries()) {
    Require(entry.begin == end && entry.end >= entry.begin, "tensors lie one after another");
    end = entry.end;
    const uint64_t elements = (end - entry.begin) / (entry.dtype == "F32" ? 4 : 2);
    if (elements > kMostElements) continue;
    std::vector<float> values(elements);
    const absl::Status status = ReadTensors(file, {{entry.name, entry.shape, values.data()}});
    const bool known = entry.dtype == "F32" || entry.dtype == "F16" || entry.dtype == "BF16";
    Require(status.ok() == known, "a tensor can be read");
  }
}

}  // namespace

void TryCheckpoint(absl::string_view text) {
  static const Folder folder;
  WriteCheckpoint(text, folder);
  const auto checkpoint = OpenCheckpoint(folder.path());
  if (!checkpoint.ok()) {
    const absl::Status& error = checkpoint.status();
    Require(absl::IsInvalidArgument(error) || absl::IsDataLoss(error), "bad input is named so");
    return Require(absl::StrContains(error.message(), folder.path() + "/"),
                   "an error names its file");
  }
  RequireSameAgain(checkpoint->state);
  ReadAll(*checkpoint->weights);
  ReadAll(*checkpoint->optimizer);
}

}  // namespace sluice
