#include "tools/train/log/event_log.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
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
    // Another process may have shown it, or this one, before its group of ranks ended.
    begun_ = step;
    shown_ = ShownAt(directory_, step);
    absl::StatusOr<std::unique_ptr<EventFile>> file = EventFile::Create(directory_);
    if (!file.ok()) return file.status();
    file_ = *std::move(file);
    absl::Status status = file_->AddStart(step + 1);
    return status.ok() ? AddTimetable(plan, costs, step) : status;
  }

  absl::Status Step(const StepMetrics& m) override {
    if (IsShown(m.step, "loss")) return absl::OkStatus();
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
    if (IsShown(evaluation.step, kEvalLoss)) return absl::OkStatus();
    return file_->AddScalars(evaluation.step,
                             {{kEvalLoss, evaluation.loss}, {"accuracy", evaluation.accuracy}});
  }

 private:
  static constexpr char kEvalLoss[] = "eval_loss";
  static constexpr char kTimetable[] = "timetable";

  bool IsShown(int64_t step, const std::string& tag) const {
    return step == begun_ && shown_.count(tag) != 0;
  }

  absl::Status AddTimetable(const RunPlan& plan, const StageCosts& costs, int64_t step) {
    const absl::StatusOr<std::string> svg = DrawTimetable(plan, costs);
    if (!svg.ok()) return WithoutTimetable(svg.status());
    // A group of ranks that goes on with the plan of the last one has its image, or can have none,
    // unless it goes on from before.
    if (*svg == tried_ && tried_step_ <= step) return absl::OkStatus();
    tried_ = *svg;
    tried_step_ = step;
    const absl::StatusOr<std::string> png = SvgToPng(*svg, patience_);
    if (!png.ok()) return WithoutTimetable(png.status());
    // The one of another plan, which has not taken a step, is replaced by it.
    if (IsShown(step, kTimetable) && shown_[kTimetable] == *png) return absl::OkStatus();
    return file_->AddPng(step, kTimetable, *png);
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
  std::string tried_;                         // the SVG of the last image
  int64_t tried_step_ = 0;                    // its step
  bool told_ = false;                         // that there is none
  int64_t begun_ = 0;                         // where Begin was called last
  std::map<std::string, std::string> shown_;  // ShownAt(directory_, begun_), before
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
