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

constexpr int kPlotHeight = 15;  // lines, more or less: ticks are some whole number of lines apart
constexpr int kMostTicks = 5;    // above 0
constexpr size_t kLabelWidth = 7;  // "  100% "
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
    const int room = columns - static_cast<int>(kLabelWidth) - 2;
    width_ = std::clamp(room / (span + 1), 1, kMostStep);
    double highest = 0.01;
    for (const auto& point : curve.points) highest = std::max(highest, point.bubble);
    tick_ = AxisTicks(kPercent * highest, kMostTicks)[1] / kPercent;
    ticks_ = static_cast<int>(std::ceil(highest / tick_ - kRounding));
    lines_per_tick_ = std::max(1, kPlotHeight / ticks_);
    lines_.assign(static_cast<size_t>(ticks_ * lines_per_tick_) + 1,
                  std::string(static_cast<size_t>((span + 1) * width_), ' '));
  }

  // What is found is always in its place. Letters are, too, or stand beside what is there; the
  // bound shows where there is nothing else.
  std::string Draw() {
    for (const auto& point : curve_.points) Mark(point.limit, point.bubble, kFound);
    DrawEntries();
    for (const auto& point : curve_.points) {
      if (point.bound <= 0) continue;
      // The bound as the bubble that follows from it: the work is constant.
      const double work = (1 - point.bubble) * point.makespan;
      if (char* at = At(point.limit, 1 - work / point.bound); at != nullptr && *at == ' ')
        *at = kBound;
    }
    return Frame() + legend_;
  }

 private:
  static constexpr double kPercent = 100;
  static constexpr double kRounding = 1e-9;

  // Null outside the plot.
  char* At(double limit, double bubble) {
    const auto line =
        static_cast<int64_t>(lines_.size()) - 1 - std::llround(bubble / tick_ * lines_per_tick_);
    const int64_t column = std::llround((limit - first_) * width_);
    if (line < 0 || line >= static_cast<int64_t>(lines_.size()) || column < 0 ||
        column >= static_cast<int64_t>(lines_[0].size())) {
      return nullptr;
    }
    return &lines_[static_cast<size_t>(line)][static_cast<size_t>(column)];
  }

  void Mark(double limit, double bubble, char mark) {
    if (char* at = At(limit, bubble); at != nullptr) *at = mark;
  }

  // In its place, or as near to the right of it as there is room before the next limit; else above
  // or below.
  void MarkBeside(double limit, double bubble, char mark) {
    if (At(limit, bubble) == nullptr) return;
    const double line = tick_ / lines_per_tick_;
    for (const int up : {0, 1, -1, 2, -2}) {
      for (int right = 0; right < width_; ++right) {
        char* at = At(limit + static_cast<double>(right) / width_, bubble + up * line);
        if (at == nullptr || *at != ' ') continue;
        *at = mark;
        return;
      }
    }
  }

  void DrawEntries() {
    char letter = 'a';
    bool parts = false;
    for (const auto& entry : curve_.entries) {
      absl::StrAppend(&legend_,
                      absl::StrFormat("  %c  %-18s %6s %9s\n", letter, Label(entry),
                                      FormatNumber(entry.peak), FormatPercent(entry.bubble)));
      MarkBeside(entry.peak, entry.bubble, letter);
      letter = letter == 'z' ? 'A' : static_cast<char>(letter + 1);
      parts |= entry.parts > 1;
    }
    if (legend_.empty()) return;
    legend_ = absl::StrFormat("     %-18s %6s %9s\n", "catalogue", "peak", "bubble") + legend_;
    if (parts) absl::StrAppend(&legend_, "  ", kPartsNote, "\n");
  }

  static std::string Label(const TradeOffCurve::Entry& entry) {
    return entry.parts > 1 ? absl::StrCat(entry.name, " /", entry.parts) : entry.name;
  }

  std::string Frame() const {
    std::string text = "bubble\n";
    for (size_t line = 0; line < lines_.size(); ++line) {
      const int up = static_cast<int>(lines_.size() - 1 - line);
      const int tick = up / lines_per_tick_;
      const bool labelled = up % lines_per_tick_ == 0;
      const std::string label =
          labelled ? absl::StrCat(FormatShort(kPercent * tick_ * tick, 3), "%") : "";
      absl::StrAppend(&text, absl::StrFormat("%6s |", label), lines_[line]);
      text.erase(text.find_last_not_of(' ') + 1);
      text += "\n";
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
                    "activations that a rank may hold\n\n  ", std::string(1, kFound),
                    "  best found   ", std::string(1, kBound),
                    "  no timetable can be lower   letters: the catalogue\n");
    return text;
  }

  const TradeOffCurve& curve_;
  int first_ = 0;
  int last_ = 0;
  int width_ = 1;    // columns from one limit to the next
  double tick_ = 0;  // from one label of bubbles to the next
  int ticks_ = 0;    // above 0
  int lines_per_tick_ = 1;
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
                        FormatShort(point.bound, kDigits), FormatGap(point.gap));
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
