#ifndef SLUICE_TESTS_FAULTS_SAVING_RUNS_H_
#define SLUICE_TESTS_FAULTS_SAVING_RUNS_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Small runs that save after every step, and what they must leave.
namespace sluice {

constexpr int64_t kSavingSteps = 4;

// A run as `sluice train` makes it: it opens the directory of --save and trains two ranks in this
// process, which save in the background.
struct SavingRunOptions {
  uint64_t seed = 1;        // other seeds have other bits
  std::string resume = {};  // a checkpoint to go on from
  bool overwrite = false;
  int keep = 2;
  bool tcp = false;  // the ranks share a connection rather than memory
};

struct SavingRunEnd {
  absl::Status status;
  std::vector<int64_t> saved;        // the steps whose checkpoints it said were saved
  std::vector<absl::Status> failed;  // why others were not, the last one excepted
};

SavingRunEnd RunAndSave(const std::string& directory, const SavingRunOptions& options);

// All files of a checkpoint, by name.
using CheckpointBytes = std::map<std::string, std::string>;
CheckpointBytes BytesOf(const std::filesystem::path& folder);

// Which checkpoint of a run it is.
struct WhichCheckpoint {
  uint64_t seed = 0;
  int64_t step = 0;

  friend bool operator==(const WhichCheckpoint&, const WhichCheckpoint&) = default;
  friend bool operator<(const WhichCheckpoint& a, const WhichCheckpoint& b) {
    return std::tie(a.seed, a.step) < std::tie(b.seed, b.step);
  }
};

// The checkpoint of an undisturbed run whose bytes these are; nothing where they are of none.
std::optional<WhichCheckpoint> Recognise(const CheckpointBytes& bytes);

// What `--resume directory` goes on from, which is loaded for it. `instead`, where it is not the
// newest, says why. Its bytes must be those of an undisturbed run: others fail the test.
absl::StatusOr<WhichCheckpoint> OpenAndRecognise(const std::string& directory,
                                                 std::string* instead);

// Where the folders of these tests are: in memory where the system has such a place, since they ask
// which calls are made, and not for the speed of a disk.
std::filesystem::path FastFolder();

}  // namespace sluice

#endif  // SLUICE_TESTS_FAULTS_SAVING_RUNS_H_
