#include "tools/train/log/event_log.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "models/files/file_writer.h"
#include "tools/train/log/event_file.h"
#include "tools/train/log/records.h"

namespace sluice {
namespace {

class EventLog : public MetricsLog {
 public:
  explicit EventLog(std::string directory) : directory_(std::move(directory)) {}

  absl::Status Begin(const RunPlan&, int64_t step) override {
    absl::StatusOr<std::unique_ptr<EventFile>> file = EventFile::Create(directory_);
    if (!file.ok()) return file.status();
    file_ = *std::move(file);
    return file_->AddStart(step + 1);
  }

  absl::Status Step(const StepMetrics& m) override {
    std::vector<Scalar> scalars;
    const LogRecord record = StepRecord(m, {});
    for (const auto& [name, value] : record.items()) {
      if (value.is_number() && name != "step") scalars.emplace_back(name, value.get<double>());
      if (!value.is_object()) continue;
      for (const auto& [part, number] : value.items())
        scalars.emplace_back(absl::StrCat(name, "_", part), number.get<double>());
    }
    return file_->AddScalars(m.step, scalars);
  }

  absl::Status Evaluated(const Evaluation& evaluation) override {
    return file_->AddScalars(evaluation.step,
                             {{"eval_loss", evaluation.loss}, {"accuracy", evaluation.accuracy}});
  }

 private:
  const std::string directory_;
  std::unique_ptr<EventFile> file_;
};

}  // namespace

std::unique_ptr<MetricsLog> MakeEventLog(const std::string& directory) {
  return std::make_unique<EventLog>(directory);
}

absl::Status CheckEventLog(const std::string& directory) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  const int number = error                                              ? error.value()
                     : !std::filesystem::is_directory(directory, error) ? ENOTDIR
                     : access(directory.c_str(), W_OK | X_OK) == 0      ? 0
                                                                        : errno;
  if (number == 0) return absl::OkStatus();
  return FileError(number, absl::StrCat("--tensorboard ", directory, ": cannot write there"));
}

}  // namespace sluice
