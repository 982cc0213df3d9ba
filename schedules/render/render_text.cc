#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "schedules/render/render.h"
#include "schedules/render/render_common.h"
#include "schedules/render/render_text_density.h"

namespace sluice {
namespace {

constexpr char kBubble = '.';

// How a kind of bar looks: a letter and a fill in plain text; with colour, backgrounds from the
// 256-colour palette, different for even and odd micro-batches so that neighbours can be told
// apart. Odd chunks have small letters and lighter shades.
struct Look {
  Op op;
  char fill;
  int background[2][2];  // [chunk mod 2][micro-batch mod 2]
};
constexpr Look kLooks[] = {{Op::kForward, '-', {{33, 39}, {117, 153}}},
                           {Op::kBackward, '=', {{208, 214}, {222, 229}}},
                           {Op::kInputGrad, '~', {{202, 209}, {216, 223}}},
                           {Op::kWeightGrad, '_', {{35, 42}, {120, 157}}},
                           {Op::kRecompute, '+', {{140, 146}, {182, 189}}}};
constexpr int kBubbleShade = 240;
// The lower 0 to 8 eighths of a column, in UTF-8.
constexpr const char* kBlocks[] = {" ",      "\u2581", "\u2582", "\u2583", "\u2584",
                                   "\u2585", "\u2586", "\u2587", "\u2588"};

const Look& LookOf(Op op) {
  return *std::find_if(std::begin(kLooks), std::end(kLooks) - 1,
                       [op](const Look& look) { return look.op == op; });
}

// Maps time to columns. When all times are multiples of the shortest bar, each such unit gets the
// same number of columns, and bars carry numbers. Otherwise bars carry numbers where each has room
// for `label` characters.
class TimeScale {
 public:
  TimeScale(const Simulation& run, int columns, int label) : columns_(std::max(columns, 1)) {
    if (!(run.makespan > 0)) return;
    scale_ = columns_ / run.makespan;
    const double shortest = Shortest(run);
    numbered_ = shortest * scale_ >= label;
    const int whole = static_cast<int>(columns_ * shortest / run.makespan + kTiny);
    if (whole < 1 || !MultiplesOf(shortest, run)) return;
    numbered_ = true;
    scale_ = whole / shortest;
    columns_ = Column(run.makespan);
  }
  int columns() const { return columns_; }
  // Whether bars are wide enough, and evenly so, to carry numbers.
  bool numbered() const { return numbered_; }
  int Column(double time) const { return static_cast<int>(std::lround(time * scale_)); }

 private:
  static constexpr double kTiny = 1e-6;

  static double Shortest(const Simulation& run) {
    double shortest = run.makespan;
    for (const auto& row : run.rows) {
      for (const TimedAction& timed : row) {
        if (timed.end > timed.start) shortest = std::min(shortest, timed.end - timed.start);
      }
    }
    return shortest;
  }

  static bool MultiplesOf(double unit, const Simulation& run) {
    const auto off = [unit](double time) {
      return std::abs(time / unit - std::round(time / unit)) > kTiny;
    };
    for (const auto& row : run.rows) {
      for (const TimedAction& timed : row) {
        if (off(timed.start) || off(timed.end)) return false;
      }
    }
    return true;
  }

  int columns_;
  double scale_ = 0;
  bool numbered_ = false;
};

struct Item {
  std::string text;
  int width;  // in columns; escape sequences take none
};

// `items` with gaps between them, on as many lines as they need.
std::string Wrap(const std::vector<Item>& items, int indent, int columns) {
  constexpr int kGap = 2;
  std::string text(indent, ' ');
  int at = indent;
  for (const Item& item : items) {
    if (at > indent && at + kGap + item.width > columns) {
      absl::StrAppend(&text, "\n", std::string(indent, ' '));
      at = indent;
    } else if (at > indent) {
      text += std::string(kGap, ' ');
      at += kGap;
    }
    text += item.text;
    at += item.width;
  }
  return text;
}

class TextChart {
 public:
  TextChart(const Simulation& run, const Timetable& table, const TextOptions& options)
      : run_(run),
        table_(table),
        colour_(options.colour),
        unicode_(options.unicode),
        seconds_(options.seconds),
        unit_(UnitOf(run.makespan, options.seconds, !options.unicode)),
        most_ranks_(static_cast<size_t>(std::max(options.most_ranks, 2))),
        columns_(options.columns),
        chunk_of_stage_(ChunkOfStage(table.placement)),
        label_(Width(absl::StrCat("rank ", table.placement.ranks() - 1))),
        peak_width_(std::max(Width("peak"), Width(absl::StrCat(MostHeld())))),
        // "rank 0 |" and "| peak".
        scale_(run, options.columns - label_ - peak_width_ - 4,
               1 + Width(absl::StrCat(table.micro_batches - 1))),
        crowded_(IsCrowded()),
        bare_digits_(scale_.numbered() && table.micro_batches <= 10) {}

  std::string Draw() const {
    std::string text = absl::StrFormat("%*s %*s  %*s\n", label_, "", scale_.columns() + 1, "",
                                       peak_width_, "peak");
    const size_t ranks = run_.rows.size();
    const size_t left_out = ranks > most_ranks_ ? ranks - most_ranks_ : 0;
    for (size_t rank = 0; rank < ranks; ++rank) {
      if (left_out > 0 && rank == most_ranks_ / 2) {
        absl::StrAppend(&text, "... ", left_out, " more ranks\n");
        rank += left_out;
      }
      const std::string label = absl::StrCat("rank ", rank);
      const std::vector<Bar> bars = BarsOf(run_.rows[rank], chunk_of_stage_);
      absl::StrAppend(&text, absl::StrFormat("%-*s |", label_, label),
                      crowded_ ? CrowdedLane(bars) : Lane(bars),
                      absl::StrFormat("| %*d\n", peak_width_, run_.peak_activations[rank]));
    }
    return absl::StrCat(text, Axis(), "\n", Legend(), "\n");
  }

 private:
  static int Width(const std::string& text) { return static_cast<int>(text.size()); }

  int MostHeld() const {
    return run_.peak_activations.empty()
               ? 0
               : *std::max_element(run_.peak_activations.begin(), run_.peak_activations.end());
  }

  // Whether some row has more bars than there are columns.
  bool IsCrowded() const {
    return std::any_of(run_.rows.begin(), run_.rows.end(), [&](const auto& row) {
      return std::count_if(row.begin(), row.end(), [](const TimedAction& timed) {
               return TakesTime(timed.action.op);
             }) > scale_.columns();
    });
  }

  std::string CrowdedLane(const std::vector<Bar>& bars) const {
    std::string lane;
    for (const ColumnParts& parts : PartsOf(bars, run_.makespan, scale_.columns())) {
      if (!colour_) {
        lane += LetterOf(MostOf(parts));
      } else if (!unicode_) {
        absl::StrAppendFormat(&lane, "\x1b[48;5;%dm \x1b[0m", ShadeOf(MostOf(parts)));
      } else {
        const Mix mix = MixOf(parts);
        absl::StrAppendFormat(&lane, "\x1b[38;5;%d;48;5;%dm%s\x1b[0m", ShadeOf(mix.lower),
                              ShadeOf(mix.upper), kBlocks[mix.eighths]);
      }
    }
    return lane;
  }

  static char LetterOf(size_t part) {
    if (part == kBubblePart) return kBubble;
    return kBarKinds[part].op == Op::kRecompute ? 'R' : OpName(kBarKinds[part].op)[0];
  }
  static int ShadeOf(size_t part) {
    return part == kBubblePart ? kBubbleShade : LookOf(kBarKinds[part].op).background[0][0];
  }

  std::string Lane(const std::vector<Bar>& bars) const {
    std::string lane;
    int at = 0;
    for (const Bar& bar : bars) {
      int from = scale_.Column(bar.timed.start);
      int to = scale_.Column(bar.timed.end);
      // The halves of a pair share its time: they are drawn one after the other.
      if (bar.half == 0) to = (from + to) / 2;
      if (bar.half == 1) from = (from + to) / 2;
      from = std::max(from, at);
      if (to <= from) continue;
      absl::StrAppend(&lane, Bubble(from - at), Paint(bar, to - from));
      at = to;
    }
    return absl::StrCat(lane, Bubble(scale_.columns() - at));
  }

  std::string Bubble(int width) const {
    if (width <= 0) return "";
    if (!colour_) return std::string(width, kBubble);
    return absl::StrFormat("\x1b[38;5;%dm%s\x1b[0m", kBubbleShade, std::string(width, kBubble));
  }

  std::string Paint(const Bar& bar, int width) const {
    const Action& action = bar.timed.action;
    const Look& look = LookOf(action.op);
    if (!colour_) return PlainBar(bar, look, width);
    std::string inside = absl::StrCat(action.micro_batch);
    if (Width(inside) > width || !scale_.numbered()) inside.clear();
    inside.resize(width, ' ');
    const int background = look.background[bar.chunk % 2][action.micro_batch % 2];
    return absl::StrFormat("\x1b[48;5;%d;38;5;16m%s\x1b[0m", background, inside);
  }

  // "F7--", or "7" for a forward that is one column wide.
  std::string PlainBar(const Bar& bar, const Look& look, int width) const {
    const Action& action = bar.timed.action;
    std::string letter = action.op == Op::kRecompute ? "R" : OpName(action.op);
    if (bar.chunk % 2 == 1) letter[0] = static_cast<char>(letter[0] - 'A' + 'a');
    std::string number = absl::StrCat(action.micro_batch);
    if (width == 1 && action.op == Op::kForward && bare_digits_) return number;
    std::string inside = letter + number;
    if (Width(inside) > width || !scale_.numbered()) inside = letter;
    inside.resize(width, look.fill);
    return inside;
  }

  std::string Axis() const {
    constexpr int kColumnsPerTick = 10;
    std::string line;
    const int most = std::max(1, scale_.columns() / kColumnsPerTick);
    for (double tick : AxisTicks(run_.makespan / unit_.scale, most)) {
      const int column = scale_.Column(tick * unit_.scale);
      const std::string number = FormatNumber(tick);
      // Numbers of the axis may extend under the peaks, but no farther.
      if (column < Width(line) || label_ + 2 + column + Width(number) > columns_) continue;
      line.resize(column, ' ');
      absl::StrAppend(&line, number, " ");
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    if (seconds_ && label_ + 3 + Width(line) + Width(unit_.name) <= columns_)
      absl::StrAppend(&line, " ", unit_.name);
    return absl::StrCat(std::string(label_ + 2, ' '), line);
  }

  bool ShowsBareDigits() const {
    const auto narrow = [&](const TimedAction& t) {
      return t.action.op == Op::kForward && scale_.Column(t.end) - scale_.Column(t.start) == 1;
    };
    return bare_digits_ && std::any_of(run_.rows.begin(), run_.rows.end(), [&](const auto& row) {
             return std::any_of(row.begin(), row.end(), narrow);
           });
  }

  std::string Legend() const {
    const bool digits = ShowsBareDigits();
    std::vector<Item> items;
    const auto add = [&](const std::string& key, int key_width, const char* name) {
      items.push_back({absl::StrCat(key, " ", name), key_width + 1 + Width(name)});
    };
    for (const BarKind& kind : KindsIn(table_)) {
      const std::string letter = kind.op == Op::kRecompute           ? "R"
                                 : kind.op == Op::kForward && digits ? "0-9"
                                                                     : OpName(kind.op);
      const int shade = LookOf(kind.op).background[0][0];
      if (colour_) {
        add(absl::StrFormat("\x1b[48;5;%dm  \x1b[0m", shade), 2, kind.name);
      } else {
        add(letter, Width(letter), kind.name);
      }
    }
    const std::string shade = absl::StrFormat("\x1b[48;5;%dm  \x1b[0m", kBubbleShade);
    add(crowded_ && colour_ ? shade : Bubble(colour_ ? 2 : 1), colour_ ? 2 : 1, "bubble");
    if (crowded_) {
      const std::string note =
          absl::StrCat(colour_ && unicode_ ? "column: parts of " : "column: most of ",
                       absl::StrFormat("%.3g ", run_.makespan / unit_.scale / scale_.columns()),
                       seconds_ ? unit_.name : "units");
      items.push_back({note, Width(note)});
    } else if (table_.placement.chunks() > 1) {
      const std::string note =
          absl::StrCat(colour_ ? "lighter: " : "small letters: ",
                       table_.placement.copies() > 1 ? "the second copy" : "odd chunks");
      items.push_back({note, Width(note)});
    }
    return Wrap(items, label_ + 2, columns_);
  }

  const Simulation& run_;
  const Timetable& table_;
  const bool colour_;
  const bool unicode_;
  const bool seconds_;
  const TimeUnit unit_;
  const size_t most_ranks_;
  const int columns_;
  const std::vector<int> chunk_of_stage_;
  const int label_;
  const int peak_width_;
  const TimeScale scale_;
  const bool crowded_;
  const bool bare_digits_;  // forwards one column wide are digits
};

}  // namespace

std::string RenderText(const Simulation& simulation, const Timetable& timetable,
                       const TextOptions& options) {
  std::string text = TitleOf(timetable) + "\n";
  std::vector<Item> facts;
  for (const std::string& fact : FactsOf(simulation, options.seconds, !options.unicode))
    facts.push_back({fact, static_cast<int>(fact.size())});
  absl::StrAppend(&text, Wrap(facts, 0, options.columns), "\n\n");
  return text + TextChart(simulation, timetable, options).Draw();
}

}  // namespace sluice
