#ifndef SLUICE_PIPELINE_CHECKPOINT_FILES_CHECKPOINT_FILES_H_
#define SLUICE_PIPELINE_CHECKPOINT_FILES_CHECKPOINT_FILES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/files/shards.h"
#include "pipeline/checkpoint/files/run_state.h"

// What the files that read and write checkpoints share: names on disk and the format of state.json.
namespace sluice {

constexpr const char* kWeightsFile = kModelFile;
constexpr const char* kWeightsIndexFile = kModelIndexFile;
constexpr char kConfigFile[] = "config.json";
constexpr char kOptimizerFile[] = "optimizer.safetensors";
// PEFT's, of a run that trains an adapter.
constexpr char kAdapterFile[] = "adapter_model.safetensors";
constexpr char kAdapterConfigFile[] = "adapter_config.json";
// What config.json is called beside an adapter: with a config.json transformers takes a folder for a
// whole model.
constexpr char kBaseConfigFile[] = "base_config.json";
constexpr char kStateFile[] = "state.json";
constexpr char kLatestLink[] = "latest";
// In the header of a file of tensors; transformers asks for it.
inline std::map<std::string, std::string> TensorMetadata() { return {{"format", "pt"}}; }

std::string StepFolderName(int64_t step);                         // "step-00000100"
std::optional<int64_t> ParseStepFolder(const std::string& name);  // the step, of such a name
// The steps that have a folder in `directory`, in ascending order.
std::vector<int64_t> StepsIn(const std::string& directory);

struct FileRecord {
  uint64_t bytes = 0;
  std::string checksum;
};

// Whether these are the files of a checkpoint of an adapter, without what that is for (older runs
// saved all weights beside an adapter); and what config.json is called there.
bool HasAdapterOnly(const std::map<std::string, FileRecord>& files);
const char* ConfigFileOf(const std::map<std::string, FileRecord>& files);

// Writes the file at `path`, all of it or nothing (FileWriter).
absl::StatusOr<FileRecord> WriteTextFile(const std::string& path, const std::string& text);

// state.json: human-readable; its last line before the brace is a checksum over the whole text with
// the checksum's own digits read as zeros.
absl::StatusOr<std::string> FormatState(const RunState& state,
                                        const std::map<std::string, FileRecord>& files);

// Whether `text` begins as every state.json does, of whatever version and however damaged behind.
bool BeginsAsState(absl::string_view text);

struct StateFile {
  RunState state;  // without the model, which config.json describes; model.name is set
  std::map<std::string, FileRecord> files;
  uint64_t hash = 0;  // of the whole text, and so of the checksums of all files
};
// DataLoss when the checksum differs. Errors do not name the file.
absl::StatusOr<StateFile> ParseState(absl::string_view text);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_FILES_CHECKPOINT_FILES_H_
