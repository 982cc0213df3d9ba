#ifndef SLUICE_TOOLS_TRAIN_COMMANDS_COMMAND_PORTIONS_H_
#define SLUICE_TOOLS_TRAIN_COMMANDS_COMMAND_PORTIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "pipeline/checkpoint/directory/run_directory.h"
#include "pipeline/train/run.h"

namespace sluice {

// What a program asks a run for with lines on a file descriptor, `sluice train --commands`: one JSON
// object each, which README.md describes. The end of the file ends the run.
class CommandPortions : public Portions {
 public:
  struct Parts {
    int fd = 0;  // of the commands
    // What the run saves by itself, whose directory it has already.
    const TrainOptions* options = nullptr;
    bool saves = false;  // whether this process has rank 0, which owns directories
    int first_rank = 0;  // of this process
    // Told how each portion ended.
    std::function<void(const absl::StatusOr<TrainSummary>&)> ended;
  };
  explicit CommandPortions(Parts parts) : parts_(std::move(parts)) {}

  std::optional<Portion> Await(int64_t number) override;
  // Whether a stop follows the command of this portion on the file descriptor.
  bool EndsEarly() override;
  void Ended(int rank, const absl::StatusOr<TrainSummary>& summary) override;

 private:
  // The first line of what has been read, without its end; it stays there.
  std::optional<std::string> FirstLine() const;
  void DropFirstLine();
  // Reads on, waiting at most `milliseconds`. Whether the file goes on.
  bool ReadOn(int milliseconds);
  // The next command that is no stop; nothing at the end of the file, or once this process has been
  // told to stop.
  std::optional<std::string> ReadCommand();
  absl::StatusOr<Portion> Parse(const std::string& line);
  // Makes `directory` this run's, if it is not yet.
  absl::Status Own(const std::string& directory, bool overwrite);

  const Parts parts_;
  std::mutex mutex_;
  std::string unread_;
  bool ended_ = false;             // the portions
  bool ends_early_ = false;        // the portion that was read last
  std::vector<Portion> portions_;  // [number]
  // Those that were saved to by a command, which stay this run's until its end.
  std::map<std::string, std::unique_ptr<RunDirectory>> directories_;
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_COMMANDS_COMMAND_PORTIONS_H_
