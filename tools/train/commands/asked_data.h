#ifndef SLUICE_TOOLS_TRAIN_COMMANDS_ASKED_DATA_H_
#define SLUICE_TOOLS_TRAIN_COMMANDS_ASKED_DATA_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "models/data/dataset.h"

namespace sluice {

// Two file descriptors of a program that makes the data of a run: `--data fd:5,6`.
struct DataChannel {
  int from = -1;  // answers are read from it
  int to = -1;    // questions are written to it
};

// Whether a value of --data names a channel.
bool NamesDataChannel(const std::string& path);

// Nothing where `path` names no channel. InvalidArgument: it does, but not two descriptors that are
// open.
absl::StatusOr<std::optional<DataChannel>> ParseDataChannel(const std::string& path);

// What a run needs of such data.
struct AskedDataRequest {
  DataChannel channel;
  int64_t micro_batch_size = 1;
  int64_t seq = 0;     // tokens per sample; 0: the model takes images
  int classes = 0;     // of the model; all ids lie below
  int64_t pixels = 0;  // per image, as the model takes them
};

// Data that a program makes when they are asked for, one micro-batch at a time, over two pipes; the
// protocol is in README.md. One question at a time; what was answered is asked for again only where
// another micro-batch came between. The ids of an answer are checked here, so that no kernel reads
// outside its tables.
absl::StatusOr<std::unique_ptr<Dataset>> OpenAskedData(const AskedDataRequest& request);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_COMMANDS_ASKED_DATA_H_
