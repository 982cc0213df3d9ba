#include "tools/plan/progress_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <string>

#include "models/spec/units.h"

namespace sluice {

ProgressLine::~ProgressLine() {
  if (shown_) fmt::print(stderr, "\r\x1b[K");
}

void ProgressLine::Show(const PlanProgress& progress) {
  if (isatty(STDERR_FILENO) == 0) return;
  shown_ = true;
  std::string best = "no plan yet";
  if (std::isfinite(progress.best_seconds)) {
    const double gap = progress.best_seconds / progress.lower_bound - 1;
    best = fmt::format("best {}, within {} of the least there can be",
                       FormatSeconds(progress.best_seconds), FormatShare(gap));
  }
  const std::string what = progress.what.empty() ? "" : progress.what + ": ";
  fmt::print(stderr, "\r\x1b[K  {}{} of {} settings, {}", what, progress.settings_done,
             progress.settings, best);
  std::fflush(stderr);
}

}  // namespace sluice
