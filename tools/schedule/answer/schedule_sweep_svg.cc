// The trade-off curve as a line chart.
#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "schedules/counted.h"
#include "schedules/render/render_common.h"
#include "schedules/render/svg_elements.h"
#include "tools/schedule/answer/schedule_sweep.h"

namespace sluice {
namespace {

// Sizes in pixels.
constexpr double kWidth = 860;
constexpr double kHeight = 480;
constexpr double kLeft = 76;
constexpr double kRight = 28;
constexpr double kTop = 84;
constexpr double kBottom = 64;
constexpr double kDot = 4;
constexpr double kSquare = 7;
constexpr int kMostTicks = 6;
constexpr double kHeadroom = 1.08;
constexpr double kLabelHeight = 13;
constexpr double kBaseline = 4;  // below the middle of a name
constexpr double kLetterWidth = 7;
constexpr Colour kFoundColour = kBlue;
constexpr Colour kEntryColour = kVermilion;
constexpr char kUnreachable[] = "#eee";

// Where a name or a mark stands.
struct Place {
  double x, middle, width, height;
};

bool Meet(const Place& a, const Place& b) {
  return std::abs(a.middle - b.middle) < (a.height + b.height) / 2 && a.x < b.x + b.width &&
         b.x < a.x + a.width;
}

Place MarkAt(double x, double y, double size) { return {x - size / 2, y, size, size}; }

class Chart {
 public:
  explicit Chart(const TradeOffCurve& curve) : curve_(curve) {
    first_ = curve.points.front().limit;
    last_ = std::max(first_ + 1.0, static_cast<double>(curve.points.back().limit));
    for (const auto& point : curve.points) highest_ = std::max(highest_, point.bubble);
    highest_ = std::max(0.01, highest_ * kHeadroom);
  }

  std::string Draw() const {
    return absl::StrCat(Open(), Axes(), Area(), Line(), Entries(), Legend(), "</svg>\n");
  }

 private:
  double X(double limit) const {
    return kLeft + (limit - first_) / (last_ - first_) * (kWidth - kLeft - kRight);
  }
  double Y(double bubble) const {
    return kHeight - kBottom - bubble / highest_ * (kHeight - kTop - kBottom);
  }
  // The bubble that follows from the bound: the work is constant.
  static double BoundBubble(const TradeOffCurve::Point& point) {
    return std::max(0.0, 1 - (1 - point.bubble) * point.makespan / point.bound);
  }

  std::string Open() const {
    return absl::StrCat(SvgOpening(kWidth, kHeight), Text(24, 32, "title", "Memory against time"),
                        Text(24, 52, "facts",
                             absl::StrCat(Counted(curve_.ranks, "rank"), ", ",
                                          Counted(curve_.micro_batches, "micro-batch"))));
  }

  std::string Axes() const {
    std::string svg;
    for (double tick : AxisTicks(highest_ * 100, kMostTicks)) {
      const double y = Y(tick / 100);
      absl::StrAppendFormat(&svg,
                            "<line x1=\"%g\" y1=\"%.1f\" x2=\"%g\" y2=\"%.1f\" stroke=\"#ddd\"/>"
                            "%s",
                            kLeft, y, kWidth - kRight, y,
                            Text(kLeft - 8, y + 4, "end", absl::StrCat(FormatNumber(tick), "%")));
    }
    for (const auto& point : curve_.points) {
      svg += Text(X(point.limit), kHeight - kBottom + 18, "mid", absl::StrCat(point.limit));
    }
    absl::StrAppendFormat(
        &svg,
        "<line x1=\"%g\" y1=\"%g\" x2=\"%g\" y2=\"%g\" stroke=\"#444\"/>\n"
        "%s<text transform=\"translate(20 %g) rotate(-90)\" class=\"mid\">bubble</text>\n",
        kLeft, kHeight - kBottom, kWidth - kRight, kHeight - kBottom,
        Text((kLeft + kWidth - kRight) / 2, kHeight - 20, "mid",
             "activations that a rank may hold"),
        (kTop + kHeight - kBottom) / 2);
    return svg;
  }

  // The area that no timetable can reach: what is proved for a limit holds for all below it, back
  // to the next lower one.
  std::string Area() const {
    std::string path;
    double before = X(first_);
    for (const auto& point : curve_.points) {
      const double x = X(point.limit), y = Y(BoundBubble(point));
      absl::StrAppendFormat(&path, " L%.1f %.1f L%.1f %.1f", before, y, x, y);
      before = x;
    }
    return absl::StrFormat("<path fill=\"%s\" stroke=\"none\" d=\"M%.1f %.1f%s L%.1f %.1f Z\"/>\n",
                           kUnreachable, X(first_), Y(0), path, before, Y(0));
  }

  // What is found for a limit can be had with more memory, too, up to the next higher one.
  std::string Line() const {
    std::string path;
    double before = Y(curve_.points.front().bubble);
    for (const auto& point : curve_.points) {
      const double x = X(point.limit), y = Y(point.bubble);
      absl::StrAppendFormat(&path, " L%.1f %.1f L%.1f %.1f", x, before, x, y);
      before = y;
    }
    std::string svg = absl::StrFormat(
        "<path fill=\"none\" stroke-width=\"2\" stroke=\"%s\" d=\"M%.1f %.1f%s\"/>\n",
        Hex(kFoundColour), X(first_), Y(curve_.points.front().bubble), path);
    for (const auto& point : curve_.points) {
      absl::StrAppendFormat(
          &svg,
          "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%g\" fill=\"%s\"><title>limit %d, %s: makespan %s, "
          "bubble %s, gap %s</title></circle>\n",
          X(point.limit), Y(point.bubble), kDot, Hex(kFoundColour), point.limit, point.placement,
          FormatNumber(point.makespan), FormatPercent(point.bubble), FormatGap(point.gap));
    }
    return svg;
  }

  // What stands for an entry of the catalogue.
  static std::string Square(double x, double y) {
    return Rect(x, y, kSquare, kSquare, Hex(kEntryColour));
  }

  template <typename Entry>
  bool Shows(const Entry& entry) const {
    return entry.peak >= first_ && entry.peak <= last_ && entry.bubble <= highest_;
  }

  std::vector<Place> Marks() const {
    std::vector<Place> marks;
    for (const auto& point : curve_.points)
      marks.push_back(MarkAt(X(point.limit), Y(point.bubble), 2 * kDot));
    for (const auto& entry : curve_.entries) {
      if (Shows(entry)) marks.push_back(MarkAt(X(entry.peak), Y(entry.bubble), kSquare));
    }
    return marks;
  }

  // The catalogue's entries that fit; names are moved where they would overlap.
  std::string Entries() const {
    std::string svg;
    std::vector<Place> taken = Marks();
    for (const auto& entry : curve_.entries) {
      if (!Shows(entry)) continue;
      const double x = X(entry.peak);
      const std::string name =
          entry.parts > 1 ? absl::StrCat(entry.name, " /", entry.parts) : entry.name;
      Place place{x + 6, 0, kLetterWidth * static_cast<double>(name.size()), kLabelHeight};
      for (double shift : {-12.0, 0.0, 14.0, -26.0, 28.0, -40.0, -54.0}) {
        place.middle = Y(entry.bubble) + shift;
        if (std::none_of(taken.begin(), taken.end(),
                         [&](const Place& other) { return Meet(place, other); })) {
          break;
        }
      }
      taken.push_back(place);
      svg += Square(x - kSquare / 2, Y(entry.bubble) - kSquare / 2);
      svg += Text(place.x, place.middle + kBaseline, "axis", name);
    }
    return svg;
  }

  std::string Legend() const {
    const bool parts = std::any_of(curve_.entries.begin(), curve_.entries.end(),
                                   [](const auto& entry) { return entry.parts > 1; });
    std::string svg = absl::StrFormat("<circle cx=\"420\" cy=\"48\" r=\"%g\" fill=\"%s\"/>", kDot,
                                      Hex(kFoundColour));
    svg += Text(430, 52, "axis", "best found") + Square(516, 44.5) +
           Text(529, 52, "axis", "catalogue");
    svg += Rect(610, 42, 16, 11, kUnreachable, " stroke=\"#555\"");
    svg += Text(632, 52, "axis", "proved out of reach");
    if (parts) svg += Text(24, 70, "note", kPartsNote);
    return svg;
  }

  const TradeOffCurve& curve_;
  double first_ = 0;
  double last_ = 0;
  double highest_ = 0;
};

}  // namespace

std::string TradeOffSvg(const TradeOffCurve& curve) { return Chart(curve).Draw(); }

}  // namespace sluice
