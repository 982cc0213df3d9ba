#include "tools/train/log/run_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "models/files/file_writer.h"
#include "models/files/is_there.h"
#include "models/files/positioned_file.h"
#include "tools/files.h"
#include "tools/train/log/log_format.h"
#include "tools/train/log/records.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

int64_t Number(const LogRecord& value) {
  int64_t number = 0;
  if (value.is_number()) return value.get<int64_t>();
  return value.is_string() && absl::SimpleAtoi(value.get<std::string>(), &number) ? number : 0;
}

bool IsStep(const LogRecord& record) { return record.contains("loss"); }

int64_t StepOf(const LogRecord& record) {
  return Number(record.contains("step") ? record["step"] : record["evaluated_step"]);
}

absl::StatusOr<std::vector<LogRecord>> ReadRecords(const std::string& path, LogFormat& format) {
  if (!LeadsToFile(path)) return std::vector<LogRecord>();
  const absl::StatusOr<std::string> text = ReadWholeFile(path, kMostTextBytes);
  if (!text.ok()) return text.status();
  return format.Parse(*text, path);
}

class RunLog : public MetricsLog {
 public:
  RunLog(const std::string& path, std::unique_ptr<LogFormat> format)
      : path_(TargetOf(path)),  // so that a link remains
        format_(std::move(format)) {}
  ~RunLog() override { Close(); }
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  absl::Status Begin(const RunPlan& plan, const StageCosts&, int64_t step) override {
    mirror_bytes_ = MirrorBytes(plan);
    last_step_ = last_evaluated_ = 0;
    std::vector<LogRecord> records;
    if (step > 0) {
      absl::StatusOr<std::vector<LogRecord>> found = ReadRecords(path_, *format_);
      if (!found.ok()) return found.status();
      for (LogRecord& record : *found) {
        const int64_t of = StepOf(record);
        if (of > step) continue;
        int64_t& last = IsStep(record) ? last_step_ : last_evaluated_;
        last = std::max(last, of);
        records.push_back(std::move(record));
      }
    }
    return Rewrite(records);
  }

  absl::Status Step(const StepMetrics& metrics) override {
    if (metrics.step <= last_step_) return absl::OkStatus();
    last_step_ = metrics.step;
    return Append(StepRecord(metrics, mirror_bytes_));
  }

  absl::Status Evaluated(const Evaluation& evaluation) override {
    if (evaluation.step <= last_evaluated_) return absl::OkStatus();
    last_evaluated_ = evaluation.step;
    return Append(EvaluationRecord(evaluation));
  }

 private:
  absl::Status Append(const LogRecord& record) {
    const std::optional<std::string> line = format_->Line(record);
    if (line) return WriteAll(fd_, *line, path_);
    absl::StatusOr<std::vector<LogRecord>> records = ReadRecords(path_, *format_);
    if (!records.ok()) return records.status();
    records->push_back(record);
    return Rewrite(*records);
  }

  // Until the new file is whole, the old one stays.
  absl::Status Rewrite(const std::vector<LogRecord>& records) {
    Close();
    const absl::StatusOr<std::unique_ptr<FileWriter>> file = FileWriter::Create(path_);
    absl::Status status = file.status();
    if (status.ok()) status = (*file)->Append(format_->Format(records));
    if (status.ok()) status = (*file)->Commit();
    if (!status.ok()) return status;
    fd_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    return fd_ >= 0 ? absl::OkStatus() : FileError(errno, absl::StrCat("cannot open ", path_));
  }

  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

  const std::string path_;
  const std::unique_ptr<LogFormat> format_;
  std::vector<int64_t> mirror_bytes_;
  int64_t last_step_ = 0, last_evaluated_ = 0;  // that are in the file
  int fd_ = -1;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsLog>> MakeRunLog(const std::string& path) {
  absl::StatusOr<std::unique_ptr<LogFormat>> format = LogFormatOf(path);
  if (!format.ok()) return format.status();
  return std::make_unique<RunLog>(path, *std::move(format));
}

absl::Status CheckRunLog(const std::string& path) {
  const absl::StatusOr<std::unique_ptr<LogFormat>> format = LogFormatOf(path);
  if (!format.ok()) return format.status();
  std::error_code ignored;
  if (LeadsToFile(path) && !fs::is_regular_file(path, ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--log ", path, " is no file that can be appended to; name another"));
  }
  absl::Status status = ReadRecords(path, **format).status();
  if (status.ok()) status = CheckOutput(path);
  return status;
}

}  // namespace sluice
