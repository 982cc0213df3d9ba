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
#include "tools/svg_to_png.h"
#include "tools/train/log/event_file.h"
#include "tools/train/log/records.h"
#include "tools/train/log/timetable_picture.h"

namespace sluice {
namespace {

class EventLog : public MetricsLog {
 public:
  EventLog(std::string directory, absl::Duration timeout,
           std::function<void(const std::string&)> notice)
      : directory_(std::move(directory)),
        patience_(timeout / kPartOfTimeout),
        notice_(std::move(notice)) {}

  absl::Status Begin(const RunPlan& plan, const StageCosts& costs, int64_t step) override {
    absl::StatusOr<std::unique_ptr<EventFile>> file = EventFile::Create(directory_);
    if (!file.ok()) return file.status();
    file_ = *std::move(file);
    absl::Status status = file_->AddStart(step + 1);
    return status.ok() ? AddTimetable(plan, costs, step) : status;
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
  absl::Status AddTimetable(const RunPlan& plan, const StageCosts& costs, int64_t step) {
    const absl::StatusOr<std::string> svg = DrawTimetable(plan, costs);
    if (!svg.ok()) return WithoutTimetable(svg.status());
    // A group of ranks that goes on with the plan of the last one has its image, or can have none.
    if (*svg == std::exchange(tried_, *svg)) return absl::OkStatus();
    const absl::StatusOr<std::string> png = SvgToPng(*svg, patience_);
    if (!png.ok()) return WithoutTimetable(png.status());
    return file_->AddPng(step, "timetable", *png);
  }

  absl::Status WithoutTimetable(const absl::Status& why) {
    if (!std::exchange(told_, true)) {
      notice_(absl::StrCat("--tensorboard ", directory_,
                           " gets no picture of the timetable: ", why.message()));
    }
    return absl::OkStatus();
  }

  // The other ranks wait meanwhile, and are to have most of their patience left.
  static constexpr int kPartOfTimeout = 3;

  const std::string directory_;
  const absl::Duration patience_;
  const std::function<void(const std::string&)> notice_;
  std::string tried_;  // the SVG of the last image
  bool told_ = false;  // that there is none
  std::unique_ptr<EventFile> file_;
};

}  // namespace

std::unique_ptr<MetricsLog> MakeEventLog(const std::string& directory, absl::Duration timeout,
                                         std::function<void(const std::string&)> notice) {
  return std::make_unique<EventLog>(directory, timeout, std::move(notice));
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
