// The trade-off curve as a table and as a plot of characters.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedules/render/render_common.h"
#include "tools/schedule/answer/schedule_sweep.h"

namespace sluice {
namespace {

constexpr int kPlotHeight = 14;
constexpr int kLabelWidth = 7;  // "100.0% "
constexpr int kLeastStep = 3;
constexpr int kMostStep = 6;
constexpr char kFound = '#';
constexpr char kBound = '-';

// A grid of characters over limits and bubbles.
class Plot {
 public:
  Plot(const TradeOffCurve& curve, int columns) : curve_(curve) {
    first_ = curve.points.front().limit;
    last_ = curve.points.back().limit;
    const int span = std::max(1, last_ - first_);
    width_ = std::clamp((columns - kLabelWidth - 2) / (span + 1), 1, kMostStep);
    for (const auto& point : curve.points) highest_ = std::max(highest_, point.bubble);
    if (highest_ <= 0) highest_ = 0.01;
    lines_.assign(kPlotHeight + 1, std::string(static_cast<size_t>((span + 1) * width_), ' '));
  }

  std::string Draw() {
    for (const auto& point : curve_.points) {
      // The bound as the bubble that follows from it: the work is constant.
      const double work = (1 - point.bubble) * point.makespan;
      Mark(point.limit, 1 - work / point.bound, kBound);
    }
    DrawEntries();
    for (const auto& point : curve_.points) Mark(point.limit, point.bubble, kFound);
    return Frame() + legend_;
  }

 private:
  void Mark(double limit, double bubble, char mark) {
    if (limit < first_ || limit > last_ || bubble > highest_ * (1 + 0.5 / kPlotHeight)) return;
    const auto row = static_cast<size_t>(std::lround((1 - bubble / highest_) * kPlotHeight));
    const auto column = static_cast<size_t>(std::lround((limit - first_) * width_));
    if (column < lines_[row].size()) lines_[row][column] = mark;
  }

  void DrawEntries() {
    char letter = 'a';
    for (const auto& entry : curve_.entries) {
      absl::StrAppend(&legend_,
                      absl::StrFormat("  %c  %-16s %6s %9s\n", letter, Label(entry),
                                      FormatNumber(entry.peak), FormatPercent(entry.bubble)));
      Mark(entry.peak, entry.bubble, letter);
      letter = letter == 'z' ? 'A' : static_cast<char>(letter + 1);
    }
    if (!legend_.empty()) {
      legend_ = absl::StrFormat("     %-16s %6s %9s\n", "catalogue", "peak", "bubble") + legend_;
    }
  }

  static std::string Label(const TradeOffCurve::Entry& entry) {
    return entry.parts > 1 ? absl::StrCat(entry.name, " /", entry.parts) : entry.name;
  }

  std::string Frame() const {
    std::string text = "bubble\n";
    for (int row = 0; row <= kPlotHeight; ++row) {
      const double bubble = highest_ * (kPlotHeight - row) / kPlotHeight;
      absl::StrAppend(&text, absl::StrFormat("%6s |", FormatPercent(bubble)), lines_[row], "\n");
    }
    absl::StrAppend(&text, std::string(kLabelWidth, ' '), "+", std::string(lines_[0].size(), '-'),
                    "\n");
    std::string axis(lines_[0].size() + kLabelWidth + 8, ' ');
    size_t free = 0;
    for (const auto& point : curve_.points) {
      const std::string label = absl::StrCat(point.limit);
      const size_t at = kLabelWidth + 1 + static_cast<size_t>((point.limit - first_) * width_);
      if (at < free) continue;
      axis.replace(at, label.size(), label);
      free = at + label.size() + 1;
    }
    axis.erase(axis.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, axis, "\n", std::string(kLabelWidth + 1, ' '),
                    "activations a rank may hold\n\n  ", std::string(1, kFound), "  best found   ",
                    std::string(1, kBound), "  no timetable can be lower\n");
    return text;
  }

  const TradeOffCurve& curve_;
  int first_ = 0;
  int last_ = 0;
  int width_ = kLeastStep;
  double highest_ = 0;
  std::vector<std::string> lines_;
  std::string legend_;
};

}  // namespace

std::string TradeOffText(const TradeOffCurve& curve, int columns) {
  constexpr int kDigits = 6;      // of times; JSON has all
  constexpr size_t kBefore = 60;  // columns before the last one
  std::string text = absl::StrFormat(
      "memory against time: %d ranks, %d micro-batches\n\n%6s  %-15s %9s %7s %9s %6s  %s\n",
      curve.ranks, curve.micro_batches, "limit", "placement", "makespan", "bubble", "bound", "gap",
      "as good as");
  for (const auto& point : curve.points) {
    std::string line =
        absl::StrFormat("%6d  %-15s %9s %7s %9s %6s ", point.limit, point.placement,
                        FormatShort(point.makespan, kDigits), FormatPercent(point.bubble),
                        FormatShort(point.bound, kDigits), FormatPercent(point.gap));
    size_t at = line.size();
    for (size_t i = 0; i < point.entries.size(); ++i) {
      const std::string name =
          absl::StrCat(" ", point.entries[i], i + 1 < point.entries.size() ? "," : "");
      if (at > kBefore && at + name.size() > static_cast<size_t>(columns)) {
        absl::StrAppend(&line, "\n", std::string(kBefore, ' '));
        at = kBefore;
      }
      line += name;
      at += name.size();
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  return absl::StrCat(text, "\n", Plot(curve, columns).Draw());
}

}  // namespace sluice
