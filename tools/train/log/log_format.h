#ifndef SLUICE_TOOLS_TRAIN_LOG_LOG_FORMAT_H_
#define SLUICE_TOOLS_TRAIN_LOG_LOG_FORMAT_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/train/log/records.h"

namespace sluice {

// How records are lines of a text file.
class LogFormat {
 public:
  virtual ~LogFormat() = default;
  // What `text` says, but for a last line that has no end: its writer was killed. InvalidArgument
  // names `path` and the line that no such log has.
  virtual absl::StatusOr<std::vector<LogRecord>> Parse(const std::string& text,
                                                       const std::string& path) = 0;
  // The whole file.
  virtual std::string Format(const std::vector<LogRecord>& records) = 0;
  // The line to append to the file that Format has last returned; nothing where that has no place
  // for a number of the record, so that the whole file must be written anew.
  virtual std::optional<std::string> Line(const LogRecord& record) = 0;
};

// The format that the end of `path` says; InvalidArgument for any but these:
// - .jsonl: each record a line, as `sluice train --json` prints it;
// - .csv: a line with the names of the columns, then a row for each record; what a record has not is
//   empty, so an evaluation is a row of its own. A number per rank is a column per rank,
//   arena_bytes_0, arena_bytes_1, ..., numbered from 0.
absl::StatusOr<std::unique_ptr<LogFormat>> LogFormatOf(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_LOG_LOG_FORMAT_H_
