#include "tools/launch/picture/run_picture.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "schedules/counted.h"
#include "schedules/render/render_common.h"
#include "schedules/render/svg_elements.h"

namespace sluice {
namespace {

// Sizes in pixels.
constexpr double kWidth = 1000;
constexpr double kMargin = 24;
constexpr double kLane = 22;
constexpr double kLaneGap = 8;
constexpr double kLifeLine = 4;
constexpr double kLine = 19;  // of text
constexpr double kFont = 12;
constexpr double kAxis = 46;
constexpr double kLossHeight = 190;
constexpr double kBadge = 8;  // radius of a change's number
// More cannot be read.
constexpr size_t kMostListed = 40;
constexpr size_t kMostPoints = 2000;

constexpr Colour kRankColours[] = {kBlue, kOrange, kGreen, kPurple, kSkyBlue, kVermilion};
const Colour& ColourOf(size_t rank) { return kRankColours[rank % std::size(kRankColours)]; }

std::string Seconds(double seconds) {
  return seconds < 10 ? absl::StrFormat("%.2f s", seconds) : absl::StrFormat("%.1f s", seconds);
}

// The words of a text; "3 s" is one of them.
std::vector<std::string> WordsOf(absl::string_view text) {
  std::vector<std::string> words;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    if (!words.empty() && (word == "s" || word == "s," || word == "s;")) {
      absl::StrAppend(&words.back(), " ", word);
    } else {
      words.emplace_back(word);
    }
  }
  return words;
}

std::string HashText(uint64_t hash) { return absl::StrFormat("%016x", hash); }

class RunPicture {
 public:
  RunPicture(const LaunchHistory& history, const QuietRun& quiet)
      : run_(history), quiet_(quiet), left_(kMargin + LabelWidth()), right_(kWidth - kMargin) {}

  std::string Draw() {
    std::string svg = Header();
    svg += Lanes();
    svg += Changes();
    if (!run_.steps.empty()) svg += Losses();
    return absl::StrCat(SvgOpening(kWidth, y_), svg, "</svg>\n");
  }

 private:
  double LabelWidth() const {
    double widest = TextWidth("loss 0.0000", kFont);
    for (const LaunchHistory::Process& process : run_.processes) {
      widest = std::max(widest, TextWidth(NameOf(process), kFont));
    }
    return widest + 10;
  }
  static std::string NameOf(const LaunchHistory::Process& process) {
    return absl::StrCat("process ", process.pid);
  }
  double X(double seconds) const {
    return left_ + (run_.seconds > 0 ? seconds / run_.seconds : 0) * (right_ - left_);
  }

  std::string Header() {
    const auto lost =
        std::count_if(run_.processes.begin(), run_.processes.end(),
                      [](const auto& each) { return each.end == LaunchHistory::End::kLost; });
    const int64_t steps = run_.steps.empty() ? 0 : run_.steps.back().step;
    std::vector<std::string> facts = {
        Counted(run_.processes.size(), "process"), absl::StrCat(lost, " lost"),
        absl::StrCat(Counted(run_.groups.size(), "group"), " of ranks")};
    if (run_.weights_hash) facts.push_back(absl::StrCat("weights ", HashText(*run_.weights_hash)));
    std::string svg = Text(
        kMargin, 34, "title",
        absl::StrCat("sluice launch: ", Counted(steps, "step"), " in ", Seconds(run_.seconds)));
    y_ = 36;
    for (const std::string& line : LinesOf(facts, "  \u00b7  ", right_ - kMargin, 13)) {
      y_ += 20;
      svg += Text(kMargin, y_, "facts", line);
    }
    y_ += 34;
    return svg;
  }

  // The layers of a group's rank, where each has one stage.
  static std::string LayersOf(const LaunchHistory::Group& group, size_t rank) {
    const std::vector<std::string> stages = absl::StrSplit(group.partition, ',');
    const bool one_each = group.replicas == 1 && stages.size() == group.processes.size();
    return one_each && !stages[rank].empty() ? absl::StrCat(", layers ", stages[rank]) : "";
  }

  std::string Lanes() {
    const double top = y_;
    std::string svg;
    for (size_t i = 0; i < run_.processes.size(); ++i) {
      svg += Lane(i, top + static_cast<double>(i) * (kLane + kLaneGap));
    }
    const double bottom = top + static_cast<double>(run_.processes.size()) * (kLane + kLaneGap);
    std::string marks;
    for (size_t i = 0; i < std::min(run_.groups.size(), kMostListed); ++i) {
      const double x = X(run_.groups[i].from);
      marks += Mark(x, top - 4, bottom, i);
    }
    for (const double tick : AxisTicks(run_.seconds, 10)) {
      svg += Text(X(tick), bottom + 17, "tick", FormatNumber(tick));
    }
    svg += Text((left_ + right_) / 2, bottom + 33, "mid axis", "time (s)");
    y_ = bottom + kAxis;
    return marks + svg;
  }

  // Where a group began: a line, and the group's number above it.
  static std::string Mark(double x, double top, double bottom, size_t group) {
    return absl::StrCat(
        absl::StrFormat("<path d=\"M%.6g %.6gV%.6g\" stroke=\"#888\" stroke-dasharray=\"3 3\"/>\n",
                        x, top, bottom),
        Badge(x, top - kBadge, group));
  }

  static std::string Badge(double x, double y, size_t group) {
    return absl::StrCat(
        absl::StrFormat("<circle cx=\"%.6g\" cy=\"%.6g\" r=\"%.6g\" fill=\"#444\"/>", x, y, kBadge),
        absl::StrFormat("<text x=\"%.6g\" y=\"%.6g\" class=\"mid\" style=\"fill:#fff;"
                        "font-size:10px\">%d</text>\n",
                        x, y + 3.5, group + 1));
  }

  std::string Lane(size_t index, double y) const {
    const LaunchHistory::Process& process = run_.processes[index];
    const double middle = y + kLane / 2;
    std::string svg = Text(left_ - 8, middle + 4, "end", NameOf(process));
    svg += Rect(X(process.from), middle - kLifeLine / 2, X(process.until) - X(process.from),
                kLifeLine, "#ccc") +
           "\n";
    for (const LaunchHistory::Group& group : run_.groups) {
      const auto at = std::find(group.processes.begin(), group.processes.end(), index);
      if (at == group.processes.end()) continue;
      svg += Bar(group, static_cast<size_t>(at - group.processes.begin()), y);
    }
    return svg + EndOf(process, middle);
  }

  std::string Bar(const LaunchHistory::Group& group, size_t rank, double y) const {
    const double x = X(group.from), width = std::max(1.0, X(group.until) - x);
    const Colour& colour = ColourOf(rank);
    std::string svg = Rect(x, y, width, kLane, Hex(colour)) + "\n";
    const std::string name = absl::StrCat("rank ", rank);
    for (const std::string& label : {name + LayersOf(group, rank), name, absl::StrCat(rank)}) {
      if (TextWidth(label, kFont) + 6 > width) continue;
      return svg + absl::StrFormat(
                       "<text x=\"%.6g\" y=\"%.6g\" class=\"mid\" style=\"fill:%s\">%s</text>\n",
                       x + width / 2, y + kLane / 2 + 4, TextOn(colour), label);
    }
    return svg;
  }

  // How a process ended before the run did.
  std::string EndOf(const LaunchHistory::Process& process, double y) const {
    if (process.end == LaunchHistory::End::kDone) return "";
    const double x = X(process.until);
    const bool lost = process.end == LaunchHistory::End::kLost;
    const char* const colour = lost ? "#c00" : "#444";
    std::string svg;
    if (lost) {
      svg = absl::StrFormat(
          "<path d=\"M%.6g %.6gl10 10m0 -10l-10 10\" stroke=\"%s\" stroke-width=\"3\"/>\n", x - 5,
          y - 5, colour);
    } else {
      svg = absl::StrFormat(
          "<circle cx=\"%.6g\" cy=\"%.6g\" r=\"4.5\" fill=\"#fff\" stroke=\"%s\" "
          "stroke-width=\"2\"/>\n",
          x, y, colour);
    }
    const std::string words = EscapedForXml(lost ? process.how : "left");
    const bool fits = x + 10 + TextWidth(words, kFont) < right_;
    return svg + (fits
                      ? absl::StrFormat("<text x=\"%.6g\" y=\"%.6g\" style=\"fill:%s\">%s</text>\n",
                                        x + 10, y + 4, colour, words)
                      : "");
  }

  // What each group began with.
  std::string Changes() {
    std::string svg;
    for (size_t i = 0; i < std::min(run_.groups.size(), kMostListed); ++i) {
      const LaunchHistory::Group& group = run_.groups[i];
      std::string words =
          absl::StrCat("after step ", group.step, ": ", Counted(group.stages, "stage"));
      if (group.replicas > 1) absl::StrAppend(&words, " in ", group.replicas, " replicas");
      absl::StrAppend(&words, ", layers ", group.partition);
      if (group.since_loss)
        absl::StrAppend(&words, ", ", Seconds(*group.since_loss), " after the loss");
      if (!group.why.empty()) absl::StrAppend(&words, "; ", group.why);
      y_ += kLine;
      svg += Badge(kMargin + kBadge, y_ - 4, i);
      std::vector<std::string> lines = LinesOf(WordsOf(words), " ", right_ - kMargin - 90, kFont);
      svg += Text(kMargin + 76, y_, "end", Seconds(group.from));
      for (size_t line = 0; line < lines.size(); ++line) {
        if (line > 0) y_ += kLine - 4;
        svg += Text(kMargin + 86, y_, "line", lines[line]);
      }
    }
    if (run_.groups.size() > kMostListed) {
      y_ += kLine;
      svg += Text(kMargin + 86, y_, "note",
                  absl::StrCat("and ", run_.groups.size() - kMostListed, " more"));
    }
    y_ += kMargin;
    return svg;
  }

  // Losses over the steps, that of the quiet run as a broader line below.
  std::string Losses() {
    const std::pair<int64_t, int64_t> steps = {run_.steps.front().step, run_.steps.back().step};
    std::vector<std::pair<int64_t, float>> own, others;
    for (const LaunchHistory::Step& step : run_.steps) own.emplace_back(step.step, step.loss);
    for (const auto& [step, loss] : quiet_.losses) {
      if (step >= steps.first && step <= steps.second) others.emplace_back(step, loss);
    }
    float least = std::numeric_limits<float>::infinity(), most = -least;
    for (const auto* curve : {&own, &others}) {
      for (const auto& [step, loss] : *curve) {
        if (!std::isfinite(loss)) continue;
        least = std::min(least, loss);
        most = std::max(most, loss);
      }
    }
    if (!(least <= most)) return "";
    const double height = most > least ? most - least : 1;
    std::string svg = Text(kMargin, y_ + 8, "line", Comparison(others.size()));
    const double top = y_ + 22 + 2 * kBadge, bottom = top + kLossHeight;
    const auto x_of = [&](int64_t step) {
      const double all = std::max<double>(1, static_cast<double>(steps.second - steps.first));
      return left_ + static_cast<double>(step - steps.first) / all * (right_ - left_);
    };
    const auto y_of = [&](double loss) { return bottom - (loss - least) / height * kLossHeight; };
    for (const double tick : AxisTicks(most, 8)) {
      if (tick < least) continue;
      svg += absl::StrFormat("<path d=\"M%.6g %.6gH%.6g\" stroke=\"#ddd\"/>\n", left_, y_of(tick),
                             right_);
      svg += Text(left_ - 8, y_of(tick) + 4, "end", absl::StrCat("loss ", FormatNumber(tick)));
    }
    for (size_t i = 0; i < std::min(run_.groups.size(), kMostListed); ++i) {
      const double x = x_of(std::clamp(run_.groups[i].step, steps.first, steps.second));
      svg += Mark(x, top, bottom, i);
    }
    svg += Curve(others, "#bbb", 6, x_of, y_of) + Curve(own, Hex(kBlue), 1.6, x_of, y_of);
    for (const double tick : AxisTicks(static_cast<double>(steps.second), 10)) {
      const auto step = static_cast<int64_t>(tick);
      if (step < steps.first || static_cast<double>(step) != tick) continue;
      svg += Text(x_of(step), bottom + 17, "tick", FormatNumber(tick));
    }
    svg += Text((left_ + right_) / 2, bottom + 33, "mid axis", "step");
    y_ = bottom + kAxis;
    return svg;
  }

  template <typename XOf, typename YOf>
  static std::string Curve(const std::vector<std::pair<int64_t, float>>& points,
                           absl::string_view colour, double width, const XOf& x_of,
                           const YOf& y_of) {
    const size_t every = points.size() / kMostPoints + 1;
    std::string path;
    bool pen_down = false;
    for (size_t i = 0; i < points.size(); i += every) {
      const auto& [step, loss] = points[i];
      const bool drawn = std::isfinite(loss);
      if (drawn) {
        absl::StrAppendFormat(&path, "%c%.6g %.6g", pen_down ? 'L' : 'M', x_of(step), y_of(loss));
      }
      pen_down = drawn;
    }
    if (path.empty()) return "";
    return absl::StrFormat(
        "<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.6g\" "
        "stroke-linejoin=\"round\"/>\n",
        path, colour, width);
  }

  // Whether losses and weights have the bits of the quiet run's.
  std::string Comparison(size_t others) const {
    if (quiet_.name.empty()) return "loss of each step";
    int64_t compared = 0;
    for (const LaunchHistory::Step& step : run_.steps) {
      const auto other = quiet_.losses.find(step.step);
      if (other == quiet_.losses.end()) continue;
      if (std::bit_cast<uint32_t>(other->second) != std::bit_cast<uint32_t>(step.loss)) {
        return absl::StrCat("loss of each step: from step ", step.step, " on not that of ",
                            quiet_.name, " (grey)");
      }
      ++compared;
    }
    std::string words =
        others == 0 || compared == 0
            ? absl::StrCat("loss of each step; ", quiet_.name, " has none of these")
            : absl::StrCat("loss of each step, over that of ", quiet_.name,
                           " (grey): ", FormatNumber(static_cast<double>(compared)),
                           compared == 1 ? " loss has" : " losses have", " the same bits");
    if (run_.weights_hash && quiet_.weights_hash) {
      absl::StrAppend(&words,
                      *run_.weights_hash == *quiet_.weights_hash
                          ? ", and so have the weights"
                          : absl::StrCat(", but its weights are ", HashText(*quiet_.weights_hash)));
    }
    return words;
  }

  const LaunchHistory& run_;
  const QuietRun& quiet_;
  const double left_, right_;
  double y_ = 0;
};

}  // namespace

std::string DrawRun(const LaunchHistory& history, const QuietRun& quiet) {
  return RunPicture(history, quiet).Draw();
}

}  // namespace sluice
