#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "schedules/render/messages.h"
#include "schedules/render/render.h"
#include "schedules/render/render_common.h"
#include "schedules/render/render_text_density.h"
#include "schedules/render/svg_elements.h"

namespace sluice {
namespace {

// Sizes in pixels.
constexpr double kMargin = 24;
constexpr double kLeastLabel = 64;
constexpr double kLeastPeak = 56;
constexpr double kLaneHeight = 30;
constexpr double kLaneGap = 6;
constexpr double kTitleHeight = 36;
constexpr double kFactsHeight = 20;
constexpr double kHeadingHeight = 28;  // of the line above the lanes
constexpr double kAxisHeight = 50;
constexpr double kLegendLine = 20;
constexpr double kTitleFont = 19;
constexpr double kTitleWidth = 1.15;  // bold text, against other text
constexpr double kFactsFont = 13;
constexpr double kNoteFont = 10.5;
constexpr double kLeastChart = 760;
constexpr double kMostChart = 6000;
// Where a rank has more bars than fit into the chart at kLeastBar each, the chart is made of
// columns of that width, which show the shares of the kinds of actions.
constexpr double kLeastBar = 2;
constexpr double kCrowdedChart = 1520;
// The width of the shortest bar must leave room for its number: the two sides, and each digit.
constexpr double kBarSides = 4;
constexpr double kBarDigit = 7;
constexpr double kDigit = 0.62;  // width of a digit, in font sizes
constexpr double kFont = 12;
constexpr double kLeastFont = 6.5;
constexpr double kSwatch = 14;
constexpr const char* kBubbleFill = "url(#bubble)";
constexpr const char* kMessageFill = "url(#message)";
constexpr double kLeastWait = 0.5;  // a narrower one is not seen

bool UpdatesWeights(const Simulation& run) {
  return std::any_of(run.rows.begin(), run.rows.end(), [](const auto& row) {
    return std::any_of(row.begin(), row.end(), [](const TimedAction& timed) {
      return timed.action.op == Op::kOptimizerStep;
    });
  });
}

class SvgChart {
 public:
  SvgChart(const Simulation& run, const Timetable& table, const SvgOptions& options)
      : run_(run),
        table_(table),
        options_(options),
        unit_(UnitOf(run.makespan, options.seconds)),
        chunks_(table.placement.chunks()),
        chunk_of_stage_(ChunkOfStage(table.placement)),
        updates_(UpdatesWeights(run)),
        left_(kMargin + LabelWidth()),
        peak_width_(PeakWidth()),
        room_(options.width > 0 ? options.width - left_ - peak_width_ - kMargin : kMostChart),
        crowded_(IsCrowded(run, room_)),
        waits_(crowded_ ? std::vector<std::vector<MessageWait>>(run.rows.size())
                        : MessageWaitsOf(run, table)),
        chart_width_(options.width > 0 ? room_
                     : crowded_        ? kCrowdedChart
                                : ChartWidth(run, absl::StrCat(table.micro_batches - 1).size())),
        width_(left_ + chart_width_ + peak_width_ + kMargin),
        header_(Header()),
        bottom_(top_ + static_cast<double>(run.rows.size()) * (kLaneHeight + kLaneGap)) {}

  std::string Draw() {
    const std::string legend = Legend();
    const double height = legend_bottom_ + kMargin / 2;
    std::string svg = absl::StrCat(SvgOpening(width_, height), header_, Grid());
    for (size_t rank = 0; rank < run_.rows.size(); ++rank) svg += Lane(rank);
    return absl::StrCat(svg, legend, "</svg>\n");
  }

 private:
  double LabelWidth() const {
    constexpr double kGap = 10;
    double widest = 0;
    for (size_t rank = 0; rank < run_.rows.size(); ++rank)
      widest = std::max(widest, TextWidth(NameOf(rank), kFont));
    for (const std::string& note : options_.rank_notes)
      widest = std::max(widest, TextWidth(note, kNoteFont));
    return std::max(kLeastLabel, widest + kGap);
  }
  std::string NameOf(size_t rank) const {
    return options_.rank_names.empty() ? absl::StrCat("rank ", rank) : options_.rank_names[rank];
  }
  const std::string& PeakName() const {
    static const std::string* const kActivations = new std::string("peak");
    return options_.peaks.empty() ? *kActivations : options_.peak_name;
  }
  std::string PeakOf(size_t rank) const {
    return options_.peaks.empty() ? absl::StrCat(run_.peak_activations[rank])
                                  : options_.peaks[rank];
  }
  double PeakWidth() const {
    constexpr double kGap = 12;
    double widest = TextWidth(PeakName(), kFont);
    for (size_t rank = 0; rank < run_.rows.size(); ++rank)
      widest = std::max(widest, TextWidth(PeakOf(rank), kFont));
    return std::max(kLeastPeak, widest + kGap);
  }

  static bool IsCrowded(const Simulation& run, double room) {
    return std::any_of(run.rows.begin(), run.rows.end(), [room](const auto& row) {
      return static_cast<double>(row.size()) * kLeastBar > room;
    });
  }

  static double ChartWidth(const Simulation& run, size_t digits) {
    double shortest = run.makespan;
    for (const auto& row : run.rows) {
      for (const TimedAction& timed : row) {
        if (timed.end > timed.start) shortest = std::min(shortest, timed.end - timed.start);
      }
    }
    const double bar = kBarSides + kBarDigit * static_cast<double>(digits);
    const double wanted = shortest > 0 ? bar * run.makespan / shortest : kLeastChart;
    return std::clamp(wanted, kLeastChart, kMostChart);
  }

  double X(double time) const {
    return left_ + (run_.makespan > 0 ? time / run_.makespan : 0) * chart_width_;
  }
  double Y(size_t rank) const {
    return top_ + static_cast<double>(rank) * (kLaneHeight + kLaneGap);
  }

  // The title and the facts, and the height of both: top_.
  std::string Header() {
    std::string svg;
    double y = 0;
    const double room = width_ - 2 * kMargin;
    const std::string title = options_.title.value_or(TitleOf(table_));
    if (!title.empty()) {
      const std::vector<std::string> words = absl::StrSplit(title, ' ');
      for (const std::string& line : LinesOf(words, " ", room, kTitleWidth * kTitleFont)) {
        svg += Text(kMargin, y + 34, "title", line);
        y += 23;
      }
      y += kTitleHeight - 23;
      const std::vector<std::string> facts =
          options_.facts.empty() ? ShortFactsOf(run_, options_.seconds) : options_.facts;
      for (const std::string& line : LinesOf(facts, "  \u00b7  ", room, kFactsFont)) {
        svg += Text(kMargin, y + kFactsHeight, "facts", line);
        y += kFactsHeight;
      }
    }
    top_ = y + kHeadingHeight;
    return svg + Text(width_ - kMargin, top_ - 8, "end", PeakName());
  }

  std::string Grid() const {
    constexpr double kPixelsPerTick = 90;
    std::string svg;
    const int most = std::max(1, static_cast<int>(chart_width_ / kPixelsPerTick));
    for (double tick : AxisTicks(run_.makespan / unit_.scale, most)) {
      const double x = X(tick * unit_.scale);
      svg += absl::StrFormat("<path d=\"M%.6g %.6gV%.6g\" stroke=\"#ccc\"/>\n", x, top_ - 4,
                             bottom_ + 2);
      svg += Text(x, bottom_ + 17, "tick", FormatNumber(tick));
    }
    return svg + Text(left_ + chart_width_ / 2, bottom_ + 33, "mid axis",
                      absl::StrCat("time (", unit_.name, ")"));
  }

  std::string Lane(size_t rank) const {
    const double y = Y(rank);
    const std::string name = NameOf(rank);
    std::string svg =
        options_.rank_notes.empty()
            ? Text(left_ - 10, y + kLaneHeight / 2 + 4, "end", name)
            : absl::StrCat(Text(left_ - 10, y + 12, "end", name),
                           Text(left_ - 10, y + 26, "end note", options_.rank_notes[rank]));
    svg += Rect(left_, y, chart_width_, kLaneHeight, kBubbleFill) + "\n";
    const std::vector<Bar> bars = BarsOf(run_.rows[rank], chunk_of_stage_);
    for (const MessageWait& wait : waits_[rank]) {
      if (!IsSeen(wait)) continue;
      const double x = X(wait.start);
      absl::StrAppend(&svg, "<g><title>message of ", ToString(wait.from->action), "  ",
                      Time(wait.start), " to ", Time(wait.end), "</title>",
                      Rect(x, y, X(wait.end) - x, kLaneHeight, kMessageFill), "</g>\n");
    }
    if (crowded_) {
      svg += Columns(bars, y);
    } else {
      for (const Bar& bar : bars) svg += Draw(bar, y);
    }
    svg += Updates(run_.rows[rank], y);
    return svg + Text(width_ - kMargin, y + kLaneHeight / 2 + 4, "end", PeakOf(rank));
  }

  bool IsSeen(const MessageWait& wait) const { return X(wait.end) - X(wait.start) >= kLeastWait; }
  bool ShowsWaits() const {
    return std::any_of(waits_.begin(), waits_.end(), [this](const auto& waits) {
      return std::any_of(waits.begin(), waits.end(),
                         [this](const MessageWait& wait) { return IsSeen(wait); });
    });
  }

  // A line across the lane where weights change, with a head above it.
  static std::string UpdateMark(double x, double y) {
    return absl::StrFormat("<path d=\"M%.6g %.6gl-4 -6h8zv%.6g\" fill=\"#111\" stroke=\"#111\"/>",
                           x, y, kLaneHeight);
  }
  std::string Updates(const std::vector<TimedAction>& row, double lane) const {
    std::string svg;
    for (const TimedAction& timed : row) {
      if (timed.action.op != Op::kOptimizerStep) continue;
      absl::StrAppend(&svg, "<g><title>", ToString(timed.action), "  ", Time(timed.start),
                      "</title>", UpdateMark(X(timed.start), lane), "</g>\n");
    }
    return svg;
  }

  // For a tooltip: enough digits to tell neighbours apart.
  std::string Time(double time) const {
    constexpr int kDigits = 6;
    if (!options_.seconds) return FormatNumber(time);
    return absl::StrCat(FormatShort(time / unit_.scale, kDigits), " ", unit_.name);
  }

  // The shares of each column, stacked from below in the order of the legend: one path per kind.
  std::string Columns(const std::vector<Bar>& bars, double lane) const {
    const int columns = static_cast<int>(chart_width_ / kLeastBar);
    const std::vector<ColumnParts> parts = PartsOf(bars, run_.makespan, columns);
    std::vector<double> filled(parts.size(), 0);
    std::string svg;
    for (size_t kind = 0; kind < kBubblePart; ++kind) {
      std::string path;
      for (size_t c = 0; c < parts.size(); ++c) {
        const double part = parts[c][kind] * kLaneHeight;
        if (part <= 0) continue;
        absl::StrAppendFormat(&path, "M%.6g %.6gh%.3gv%.4gh-%.3gz",
                              left_ + static_cast<double>(c) * kLeastBar,
                              lane + kLaneHeight - filled[c], kLeastBar, -part, kLeastBar);
        filled[c] += part;
      }
      if (path.empty()) continue;
      absl::StrAppend(&svg, "<path fill=\"", Hex(Shade(kBarKinds[kind].op, 0, chunks_)), "\" d=\"",
                      path, "\"/>\n");
    }
    return svg;
  }

  // A bar with its micro-batch, and the whole action as the tooltip that a browser shows. The
  // halves of a pair are drawn one above the other.
  std::string Draw(const Bar& bar, double lane) const {
    const Action& action = bar.timed.action;
    const double x = X(bar.timed.start);
    const double width = X(bar.timed.end) - x;
    const double height = bar.half < 0 ? kLaneHeight : kLaneHeight / 2;
    const double y = bar.half == 1 ? lane + height : lane;
    const Colour colour = Shade(action.op, bar.chunk, chunks_);
    std::string svg = absl::StrFormat("<g><title>%s  %s to %s</title>", ToString(action),
                                      Time(bar.timed.start), Time(bar.timed.end));
    // Of a narrow bar, the white line around it leaves most.
    const double line = std::min(0.7, width / 6);
    absl::StrAppend(&svg, Rect(x, y, width, height, Hex(colour),
                               absl::StrFormat(" stroke=\"#fff\" stroke-width=\"%.3g\"", line)));
    const std::string number = absl::StrCat(action.micro_batch);
    // Equal bars have numbers of equal size, whatever their digits.
    const auto digits = static_cast<double>(absl::StrCat(table_.micro_batches - 1).size());
    const double font = std::min({kFont, width * 0.92 / (kDigit * digits), height * 0.8});
    if (font >= kLeastFont) {
      absl::StrAppend(
          &svg, absl::StrFormat(
                    "<text x=\"%.6g\" y=\"%.6g\" class=\"mid\" style=\"font-size:%.3gpx;"
                    "fill:%s\">%s</text>",
                    x + width / 2, y + height / 2 + 0.36 * font, font, TextOn(colour), number));
    }
    return svg + "</g>\n";
  }

  // What the shades of a colour are.
  const char* ShadesNote() const {
    return table_.placement.copies() > 1 ? "lighter: the second copy of the model"
                                         : "lighter: later chunks of a rank";
  }

  // The swatches with their names, and how far down they reach: legend_bottom_.
  std::string Legend() {
    constexpr double kGap = 22, kNameGap = 6;
    double x = left_, y = bottom_ + kAxisHeight;
    std::string svg;
    const auto item = [&](double width, const std::string& name, const auto& draw) {
      const double whole = (width > 0 ? width + kNameGap : 0) + TextWidth(name, kFont);
      if (x > left_ && x + whole > width_ - kMargin) {
        x = left_;
        y += kLegendLine;
      }
      svg += draw(x, y) + Text(x + whole - TextWidth(name, kFont), y + 11.5, "key", name);
      x += whole + kGap;
    };
    const auto note = [&](const std::string& text) {
      item(0, text, [](double, double) { return std::string(); });
    };
    const int shades = crowded_ ? 1 : chunks_;
    for (const BarKind& kind : KindsIn(table_)) {
      item(shades * kSwatch, kind.name, [&](double at, double top) {
        std::string swatches;
        for (int chunk = 0; chunk < shades; ++chunk) {
          swatches += Rect(at + chunk * kSwatch, top, kSwatch, kSwatch,
                           Hex(Shade(kind.op, chunk, chunks_)));
        }
        return swatches;
      });
    }
    item(kSwatch, "bubble", [](double at, double top) {
      return Rect(at, top, kSwatch, kSwatch, kBubbleFill, " stroke=\"#ccc\" stroke-width=\".5\"");
    });
    if (ShowsWaits()) {
      item(kSwatch, "bubble: message on its way", [](double at, double top) {
        return Rect(at, top, kSwatch, kSwatch, kMessageFill,
                    " stroke=\"#ccc\" stroke-width=\".5\"");
      });
    }
    if (updates_) {
      item(kSwatch / 2, "weight update", [](double at, double top) {
        return absl::StrFormat(
            "<path d=\"M%.6g %.6gl-4 -6h8zv%.6g\" fill=\"#111\" stroke=\"#111\"/>",
            at + kSwatch / 4, top + 4, kSwatch - 4);
      });
    }
    if (crowded_) {
      note("each column: what its time is made of");
    } else if (chunks_ > 1) {
      note(ShadesNote());
    }
    legend_bottom_ = y + kLegendLine;
    return svg;
  }

  const Simulation& run_;
  const Timetable& table_;
  const SvgOptions& options_;
  const TimeUnit unit_;
  const int chunks_;
  const std::vector<int> chunk_of_stage_;
  const bool updates_;
  const double left_;
  const double peak_width_;
  const double room_;  // for the chart at most
  const bool crowded_;
  const std::vector<std::vector<MessageWait>> waits_;  // [rank]; none where crowded
  const double chart_width_;
  const double width_;
  double top_ = 0;  // of the lanes; Header() sets it
  const std::string header_;
  const double bottom_;  // of the lanes
  double legend_bottom_ = 0;
};

}  // namespace

std::string RenderSvg(const Simulation& simulation, const Timetable& timetable,
                      const SvgOptions& options) {
  return SvgChart(simulation, timetable, options).Draw();
}

}  // namespace sluice
