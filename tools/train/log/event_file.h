#ifndef SLUICE_TOOLS_TRAIN_LOG_EVENT_FILE_H_
#define SLUICE_TOOLS_TRAIN_LOG_EVENT_FILE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice {

// A name as TensorBoard shows it, and a number.
using Scalar = std::pair<std::string, double>;

// An event file of TensorBoard: TFRecords, each an `Event` in the wire format of protocol buffers.
// https://github.com/tensorflow/tensorboard/blob/master/tensorboard/compat/proto/event.proto
// All that is added is in the file when the call returns. Errors are FileError's.
class EventFile {
 public:
  // A new file, events.out.tfevents.SECONDS.HOST.PROCESS.NUMBER, in a directory that is there. Its
  // SECONDS are more than those of the files that are there, so that readers, which go by the
  // names, read it after them.
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(const std::string& directory);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // A run begins: what earlier files of the directory say of `step` and of later ones is no longer
  // shown.
  absl::Status AddStart(int64_t step);
  absl::Status AddScalars(int64_t step, const std::vector<Scalar>& scalars);
  // A picture: the bytes of a PNG file. InvalidArgument where they are none.
  absl::Status AddPng(int64_t step, const std::string& tag, const std::string& png);

 private:
  EventFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  absl::Status AddRecord(const std::string& event);

  const std::string path_;
  const int fd_;
};

// A TFRecord of the bytes of one `Event`: their number, and a checksum of either.
std::string EventRecord(const std::string& event);

// What the event files of `directory` show of `step`: [tag] the bytes of its PNG file, none where
// it is a number. A file that is damaged or cut off is read as far as it is whole.
std::map<std::string, std::string> ShownAt(const std::string& directory, int64_t step);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_LOG_EVENT_FILE_H_
