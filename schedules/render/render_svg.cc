#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "schedules/render/render.h"
#include "schedules/render/render_common.h"
#include "schedules/render/render_text_density.h"

namespace sluice {
namespace {

// Sizes in pixels.
constexpr double kMargin = 24;
constexpr double kLabelWidth = 64;
constexpr double kPeakWidth = 56;
constexpr double kLaneHeight = 30;
constexpr double kLaneGap = 6;
constexpr double kHeader = 84;
constexpr double kAxisHeight = 34;
constexpr double kLegendHeight = 30;
constexpr double kLeastChart = 760;
constexpr double kMostChart = 6000;
// Where a rank has more bars than fit into kMostChart at kLeastBar each, the chart is made of
// columns of that width, which show the shares of the kinds of actions.
constexpr double kLeastBar = 2;
constexpr double kCrowdedChart = 1520;
// The width of the shortest bar must leave room for its number: the two sides, and each digit.
constexpr double kBarSides = 4;
constexpr double kBarDigit = 7;
constexpr double kDigit = 0.62;  // width of a digit, in font sizes
constexpr double kFont = 12;
constexpr double kLeastFont = 6;

struct Colour {
  double red, green, blue;
};

// Okabe and Ito's palette, which people with any colour vision can tell apart ("Color Universal
// Design", 2008).
struct Look {
  Op op;
  Colour colour;
};
constexpr Look kLooks[] = {{Op::kForward, {0, 114, 178}},
                           {Op::kBackward, {230, 159, 0}},
                           {Op::kInputGrad, {213, 94, 0}},
                           {Op::kWeightGrad, {0, 158, 115}},
                           {Op::kRecompute, {204, 121, 167}}};
constexpr const char* kBubbleFill = "url(#bubble)";

std::string Hex(const Colour& c) {
  const auto byte = [](double value) { return static_cast<int>(std::lround(value)); };
  return absl::StrFormat("#%02x%02x%02x", byte(c.red), byte(c.green), byte(c.blue));
}

// Later chunks are lighter, evenly down to half way to white.
Colour Shade(Op op, int chunk, int chunks) {
  const Colour& c = std::find_if(std::begin(kLooks), std::end(kLooks) - 1, [op](const Look& look) {
                      return look.op == op;
                    })->colour;
  const double white = chunks > 1 ? 0.55 * chunk / (chunks - 1) : 0;
  const auto mix = [white](double value) { return value + white * (255 - value); };
  return {mix(c.red), mix(c.green), mix(c.blue)};
}

// Black or white, whichever can be read on `c` (relative luminance of WCAG, without its gamma).
const char* TextOn(const Colour& c) {
  constexpr double kDark = 125;
  return 0.299 * c.red + 0.587 * c.green + 0.114 * c.blue < kDark ? "#fff" : "#111";
}

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string Rect(double x, double y, double width, double height, const std::string& fill,
                 const char* more = "") {
  return absl::StrFormat(
      "<rect x=\"%.6g\" y=\"%.6g\" width=\"%.6g\" height=\"%.6g\" fill=\"%s\"%s/>", x, y, width,
      height, fill, more);
}

std::string Text(double x, double y, const char* kind, const std::string& text) {
  return absl::StrFormat("<text x=\"%.6g\" y=\"%.6g\" class=\"%s\">%s</text>\n", x, y, kind,
                         Escaped(text));
}

class SvgChart {
 public:
  SvgChart(const Simulation& run, const Timetable& table)
      : run_(run),
        table_(table),
        chunks_(table.placement.chunks()),
        chunk_of_stage_(ChunkOfStage(table.placement)),
        crowded_(IsCrowded(run)),
        chart_width_(crowded_ ? kCrowdedChart
                              : ChartWidth(run, absl::StrCat(table.micro_batches - 1).size())),
        left_(kMargin + kLabelWidth),
        bottom_(kHeader + static_cast<double>(run.rows.size()) * (kLaneHeight + kLaneGap)) {}

  std::string Draw() const {
    const double width = left_ + chart_width_ + kPeakWidth + kMargin;
    const double height = bottom_ + kAxisHeight + kLegendHeight + kMargin / 2;
    std::string svg = absl::StrCat(Opening(width, height), Header(), Grid());
    for (size_t rank = 0; rank < run_.rows.size(); ++rank) svg += Lane(rank);
    return absl::StrCat(svg, Legend(), "</svg>\n");
  }

 private:
  static bool IsCrowded(const Simulation& run) {
    return std::any_of(run.rows.begin(), run.rows.end(), [](const auto& row) {
      return static_cast<double>(row.size()) * kLeastBar > kMostChart;
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
  static double Y(size_t rank) {
    return kHeader + static_cast<double>(rank) * (kLaneHeight + kLaneGap);
  }

  static std::string Opening(double width, double height) {
    return absl::StrFormat(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.6g\" height=\"%.6g\" viewBox=\"0 0 "
        "%.6g %.6g\" "
        "font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\">\n"
        "<style>text{font-size:12px;fill:#222}.title{font-size:19px;font-weight:bold}.facts{font-"
        "size:13px;fill:#444}"
        ".end{text-anchor:end}.mid{text-anchor:middle}.tick{text-anchor:middle;fill:#666;font-size:"
        "11px}</style>\n"
        "<defs><pattern id=\"bubble\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><rect width=\"7\" height=\"7\" fill=\"#f3f3f3\"/>"
        "<rect width=\"1.6\" height=\"7\" fill=\"#dedede\"/></pattern></defs>\n"
        "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
        width, height, width, height);
  }

  std::string Header() const {
    return absl::StrCat(Text(kMargin, 34, "title", TitleOf(table_)),
                        Text(kMargin, 56, "facts", absl::StrJoin(FactsOf(run_), "  \u00b7  ")),
                        Text(left_ + chart_width_ + kPeakWidth, kHeader - 8, "end", "peak"));
  }

  std::string Grid() const {
    constexpr double kPixelsPerTick = 90;
    std::string svg;
    for (double tick : AxisTicks(run_.makespan, static_cast<int>(chart_width_ / kPixelsPerTick))) {
      svg += absl::StrFormat("<path d=\"M%.6g %.6gV%.6g\" stroke=\"#ccc\"/>\n", X(tick),
                             kHeader - 4, bottom_ + 2);
      svg += Text(X(tick), bottom_ + 17, "tick", FormatNumber(tick));
    }
    return svg;
  }

  std::string Lane(size_t rank) const {
    const double y = Y(rank);
    std::string svg = Text(left_ - 10, y + kLaneHeight / 2 + 4, "end", absl::StrCat("rank ", rank));
    svg += Rect(left_, y, chart_width_, kLaneHeight, kBubbleFill) + "\n";
    const std::vector<Bar> bars = BarsOf(run_.rows[rank], chunk_of_stage_);
    if (crowded_) {
      svg += Columns(bars, y);
    } else {
      for (const Bar& bar : bars) svg += Draw(bar, y);
    }
    svg += Text(left_ + chart_width_ + kPeakWidth, y + kLaneHeight / 2 + 4, "end",
                absl::StrCat(run_.peak_activations[rank]));
    return svg;
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
                                      FormatNumber(bar.timed.start), FormatNumber(bar.timed.end));
    absl::StrAppend(&svg,
                    Rect(x, y, width, height, Hex(colour), " stroke=\"#fff\" stroke-width=\".7\""));
    const std::string number = absl::StrCat(action.micro_batch);
    const double font = std::min(
        {kFont, width * 0.92 / (kDigit * static_cast<double>(number.size())), height * 0.8});
    if (font >= kLeastFont) {
      absl::StrAppend(
          &svg, absl::StrFormat(
                    "<text x=\"%.6g\" y=\"%.6g\" class=\"mid\" style=\"font-size:%.3gpx;"
                    "fill:%s\">%s</text>",
                    x + width / 2, y + height / 2 + 0.36 * font, font, TextOn(colour), number));
    }
    return svg + "</g>\n";
  }

  std::string Legend() const {
    constexpr double kSwatch = 14;
    constexpr double kLetter = 6.2;
    const double y = bottom_ + kAxisHeight;
    double x = left_;
    std::string svg;
    const auto item = [&](const std::string& swatches, double width, const std::string& name) {
      svg += swatches + Text(x + width + 6, y + 11.5, "key", name);
      x += width + 6 + kLetter * static_cast<double>(name.size()) + 22;
    };
    const int shades = crowded_ ? 1 : chunks_;
    for (const BarKind& kind : KindsIn(table_)) {
      std::string swatches;
      for (int chunk = 0; chunk < shades; ++chunk) {
        swatches +=
            Rect(x + chunk * kSwatch, y, kSwatch, kSwatch, Hex(Shade(kind.op, chunk, chunks_)));
      }
      item(swatches, shades * kSwatch, kind.name);
    }
    item(Rect(x, y, kSwatch, kSwatch, kBubbleFill, " stroke=\"#ccc\" stroke-width=\".5\""), kSwatch,
         "bubble");
    if (crowded_) {
      item("", 0, "each column: what its time is made of");
    } else if (chunks_ > 1) {
      item("", 0, "lighter: later chunks of a rank");
    }
    return svg;
  }

  const Simulation& run_;
  const Timetable& table_;
  const int chunks_;
  const std::vector<int> chunk_of_stage_;
  const bool crowded_;
  const double chart_width_;
  const double left_;
  const double bottom_;
};

}  // namespace

std::string RenderSvg(const Simulation& simulation, const Timetable& timetable) {
  return SvgChart(simulation, timetable).Draw();
}

}  // namespace sluice
