#include "schedules/render/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "drawn.h"
#include "random_timetable.h"
#include "schedules/generators/catalogue.h"
#include "schedules/lower.h"
#include "schedules/render/messages.h"
#include "schedules/render/render_common.h"
#include "schedules/render/render_text_density.h"
#include "schedules/render/svg_elements.h"

namespace sluice {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Without ANSI escapes; of each UTF-8 character only the first byte.
std::string Visible(const std::string& text) {
  std::string visible;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b')
      i = text.find('m', i);
    else if ((text[i] & 0xc0) != 0x80)  // a character of several bytes takes one column
      visible += text[i];
  }
  return visible;
}

int64_t CountOf(const std::string& text, const std::string& part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(RenderText, DrawsTheStaircase) {
  const Drawn drawn = Draw("1f1b", {2, 3});
  const std::string text = RenderText(drawn.run, drawn.table, {.columns = 80});
  // 12 units in 67 columns: 5 columns each. B0 of rank 0 waits for F0 and B0 of rank 1, until 4.
  EXPECT_THAT(text, HasSubstr("rank 0 |F0---F1---..........B0========F2---B1========"
                              ".....B2========|    2\n"));
  EXPECT_THAT(text, HasSubstr("rank 1 |.....F0---B0========F1---B1========F2---B2========"
                              "..........|    1\n"));
  EXPECT_THAT(text, HasSubstr("makespan 12  bubble 25.0%  span bubble 25.0%  bound 10  gap 20.0%"));
}

TEST(RenderText, IsNeverWiderThanAsked) {
  Random random(11);
  for (int i = 0; i < 300; ++i) {
    const Timetable table = RandomTimetable(random);
    const auto run = Simulate(table, RandomCosts(random, table.placement.stages()));
    for (int columns : {60, 80, 160}) {
      for (bool colour : {false, true}) {
        for (const std::string& line : Lines(RenderText(*run, table, {columns, colour}))) {
          EXPECT_LE(static_cast<int>(Visible(line).size()), columns) << line;
        }
      }
    }
  }
}

TEST(RenderText, FitsTheWidthWhereColumnsStandForManyBars) {
  for (const auto& [ranks, micro_batches] : {std::pair(4, 8), {32, 512}, {100, 200}}) {
    const Drawn drawn = Draw("1f1b", {ranks, micro_batches});
    for (int columns : {40, 80, 160}) {
      for (bool colour : {false, true}) {
        size_t width = 0;
        const std::string text =
            RenderText(drawn.run, drawn.table, {columns, colour, /*unicode=*/true});
        for (const std::string& line : Lines(text)) {
          EXPECT_LE(static_cast<int>(Visible(line).size()), columns) << line;
          if (line.rfind("rank ", 0) != 0) continue;
          if (width == 0) width = Visible(line).size();
          EXPECT_EQ(Visible(line).size(), width) << line;
        }
        EXPECT_EQ(CountOf(text, "\nrank "), std::min(ranks, 64));
        EXPECT_EQ(CountOf(text, "\n... 36 more ranks\n"), ranks == 100 ? 1 : 0);
      }
    }
  }
}

// 1F1B's steady state is one third F and two thirds B; the rest is the bubble.
TEST(RenderText, ColumnsTellTheirParts) {
  const Drawn drawn = Draw("1f1b", {4, 1000});
  constexpr int kColumns = 60;
  for (const auto& row : drawn.run.rows) {
    const auto parts =
        PartsOf(BarsOf(row, ChunkOfStage(drawn.table.placement)), drawn.run.makespan, kColumns);
    ColumnParts sum{};
    for (const ColumnParts& column : parts) {
      double all = 0;
      for (size_t i = 0; i < column.size(); ++i) {
        all += column[i];
        sum[i] += column[i] * drawn.run.makespan / kColumns;
      }
      EXPECT_NEAR(all, 1, 1e-9);
    }
    EXPECT_NEAR(sum[0], 1000, 1e-6);
    EXPECT_NEAR(sum[1], 2000, 1e-6);
    EXPECT_NEAR(sum[kBubblePart], drawn.run.makespan - 3000, 1e-6);
    const Mix mix = MixOf(parts[kColumns / 2]);
    EXPECT_EQ(mix.lower, 0u);
    EXPECT_EQ(mix.upper, 1u);
    EXPECT_EQ(mix.eighths, 3);  // 8 / 3, rounded
    EXPECT_EQ(MostOf(parts[kColumns / 2]), 1u);
  }
}

TEST(RenderText, LanesAreEquallyLong) {
  for (const CatalogueEntry& entry : Catalogue()) {
    const Drawn drawn = Draw(entry.name, {4, 12, entry.default_chunks});
    for (int columns : {80, 160}) {
      size_t width = 0;
      for (const std::string& line : Lines(RenderText(drawn.run, drawn.table, {columns, false}))) {
        if (line.rfind("rank ", 0) != 0) continue;
        if (width == 0) width = line.size();
        EXPECT_EQ(line.size(), width);
      }
      EXPECT_GT(width, 0u);
    }
  }
}

// A plan's times are seconds: facts, axis and legend say so, with numbers of few digits.
TEST(RenderText, SecondsHaveAUnit) {
  const Drawn drawn = Draw("1f1b", {.ranks = 4, .micro_batches = 60});
  const absl::StatusOr<Simulation> run =
      Simulate(drawn.table, StageCosts::Uniform(4, 1.23456789e-3, 1e-3, 1e-3));
  ASSERT_TRUE(run.ok()) << run.status();
  const std::string text =
      RenderText(*run, drawn.table, {.columns = 80, .unicode = true, .seconds = true});
  EXPECT_THAT(text, HasSubstr("makespan 203.8 ms  "));
  EXPECT_THAT(text, HasSubstr("200 ms\n"));
  EXPECT_THAT(text, ContainsRegex("column: [a-z ]+ of 3\\.[0-9]+ ms\n"));
  const std::string svg = RenderSvg(*run, drawn.table, {.seconds = true});
  // A message that holds the whole picture helps nobody.
  EXPECT_NE(svg.find("makespan 203.8 ms"), std::string::npos);
  EXPECT_NE(svg.find("<title>0F1  1.23457 ms to 2.46914 ms</title>"), std::string::npos);

  const absl::StatusOr<Simulation> fast =
      Simulate(drawn.table, StageCosts::Uniform(4, 1e-6, 1e-6, 1e-6));
  ASSERT_TRUE(fast.ok()) << fast.status();
  EXPECT_THAT(RenderText(*fast, drawn.table, {.columns = 80, .unicode = true, .seconds = true}),
              HasSubstr("makespan 189 \u00b5s"));
  EXPECT_THAT(RenderText(*fast, drawn.table, {.columns = 80, .seconds = true}),
              HasSubstr("makespan 189 us"));
}

TEST(RenderText, UsesEscapesOnlyForColour) {
  const Drawn drawn = Draw("zb-h1", {4, 8});
  EXPECT_EQ(RenderText(drawn.run, drawn.table, {80, false}).find('\x1b'), std::string::npos);
  EXPECT_NE(RenderText(drawn.run, drawn.table, {80, true}).find('\x1b'), std::string::npos);
}

TEST(RenderSvg, HasABarForEveryComputation) {
  Random random(12);
  for (int i = 0; i < 50; ++i) {
    Timetable table = RandomTimetable(random);
    if (i % 2 == 1) table = *LowerTimetable(table);
    const auto run = Simulate(table, RandomCosts(random, table.placement.stages()));
    int64_t computations = 0;
    for (const auto& row : table.rows) {
      computations +=
          std::count_if(row.begin(), row.end(), [](const Action& a) { return IsCompute(a.op); });
    }
    const std::string svg = RenderSvg(*run, table);
    EXPECT_EQ(CountOf(svg, "<title>") - CountOf(svg, "<title>message of"), computations);
    EXPECT_EQ(CountOf(svg, "<g>"), CountOf(svg, "</g>"));
    EXPECT_EQ(svg.find("nan"), std::string::npos);
  }
}

// With F = 1, B = 2 and 0.5 on the link: rank 1 waits for 0F0, and rank 0 for 1B0.
TEST(RenderSvg, ShowsMessagesOnTheirWay) {
  const Timetable table = *GenerateSchedule("1f1b", {.ranks = 2, .micro_batches = 1});
  const std::string instant = RenderSvg(*Simulate(table, StageCosts::Uniform(2, 1, 1, 1)), table);
  EXPECT_EQ(instant.find("message"), instant.find("message\" width"));  // its pattern alone
  EXPECT_EQ(CountOf(instant, "on its way"), 0);
  const std::string svg = RenderSvg(*Simulate(table, StageCosts::Uniform(2, 1, 1, 1, 0.5)), table);
  EXPECT_THAT(svg, HasSubstr("<title>message of 0F0  1 to 1.5</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>message of 1B0  4.5 to 5</title>"));
  EXPECT_EQ(CountOf(svg, "<title>message of"), 2);
  EXPECT_EQ(CountOf(svg, ">bubble: message on its way<"), 1);
}

// A wait begins where its message is made, or later, when its rank falls idle; until the action
// that needs the message begins the rank does nothing.
TEST(MessageWaits, LieInIdleTimeAndEndWhereTheMessageIsUsed) {
  Random random(31);
  int64_t waits = 0;
  for (int i = 0; i < 200; ++i) {
    const Timetable table = RandomTimetable(random);
    const auto run = Simulate(table, RandomCosts(random, table.placement.stages()));
    ASSERT_TRUE(run.ok()) << run.status();
    const auto found = MessageWaitsOf(*run, table);
    ASSERT_EQ(found.size(), run->rows.size());
    for (size_t rank = 0; rank < found.size(); ++rank) {
      for (const MessageWait& wait : found[rank]) {
        ++waits;
        EXPECT_LT(wait.start, wait.end);
        EXPECT_GE(wait.start, wait.from->end);
        bool used = false, idle = wait.start == wait.from->end || wait.start == 0;
        for (const TimedAction& timed : run->rows[rank]) {
          EXPECT_FALSE(timed.start < wait.end && timed.end > wait.start) << ToString(timed.action);
          used |=
              timed.start == wait.end && timed.action.micro_batch == wait.from->action.micro_batch;
          idle |= timed.end == wait.start;
        }
        EXPECT_TRUE(used && idle) << rank << " " << wait.start;
      }
    }
  }
  EXPECT_GT(waits, 1000);
}

TEST(RenderSvg, ManyBarsBecomeColumns) {
  const Drawn drawn = Draw("1f1b", {4, 4000});
  const std::string svg = RenderSvg(drawn.run, drawn.table);
  EXPECT_LT(svg.size(), 1'000'000u);
  EXPECT_EQ(CountOf(svg, "<title>"), 0);
  EXPECT_EQ(CountOf(svg, "<path fill="), 2 * 4);  // forward and backward of each rank
  EXPECT_EQ(svg.find("nan"), std::string::npos);
}

// The value of `attribute` of each element `name`.
std::vector<double> Attributes(const std::string& svg, const std::string& name,
                               const std::string& attribute) {
  std::vector<double> values;
  const std::string key = " " + attribute + "=\"";
  for (size_t at = svg.find("<" + name + " "); at != std::string::npos;
       at = svg.find("<" + name + " ", at + 1)) {
    const size_t value = svg.find(key, at);
    if (value < svg.find('>', at)) values.push_back(std::atof(svg.c_str() + value + key.size()));
  }
  return values;
}

TEST(RenderSvg, IsAsWideAsAsked) {
  for (const char* name : {"1f1b", "zbv", "chimera", "interleaved"}) {
    for (const int width : {320, 700, 2000}) {
      const bool chunks = std::string(name) != "1f1b";
      const Drawn drawn = Draw(name, {8, 64, chunks ? 2 : 1});
      const std::string svg = RenderSvg(drawn.run, drawn.table, {.width = width});
      EXPECT_THAT(svg, HasSubstr(absl::StrCat("width=\"", width, "\"")));
      for (const double x : Attributes(svg, "text", "x")) {
        EXPECT_GE(x, 0) << name;
        EXPECT_LE(x, width) << name;
      }
      const std::vector<double> x = Attributes(svg, "rect", "x");
      ASSERT_FALSE(x.empty());
      EXPECT_LE(*std::max_element(x.begin(), x.end()), width) << name;
    }
  }
}

TEST(RenderSvg, TitleAndFactsAreThoseAskedFor) {
  const Drawn drawn = Draw("1f1b", {4, 8});
  EXPECT_THAT(RenderSvg(drawn.run, drawn.table), HasSubstr(">makespan 33"));
  const std::string named = RenderSvg(drawn.run, drawn.table, {.title = "A <title>"});
  EXPECT_THAT(named, HasSubstr("class=\"title\">A &lt;title&gt;<"));
  EXPECT_THAT(named, HasSubstr(">makespan 33"));
  // XML cannot have these.
  EXPECT_THAT(RenderSvg(drawn.run, drawn.table, {.title = "a\x01\xffz\tü"}),
              HasSubstr("class=\"title\">a\uFFFD\uFFFDz\tü<"));
  const std::string bare = RenderSvg(drawn.run, drawn.table, {.title = ""});
  EXPECT_EQ(CountOf(bare, "class=\"title\""), 0);
  EXPECT_EQ(CountOf(bare, "makespan"), 0);
  EXPECT_THAT(RenderSvg(drawn.run, drawn.table, {.facts = {"one", "two"}}), HasSubstr(">one  "));
}

// The bars begin behind the longest name.
TEST(RenderSvg, NamesOfRanksAreThoseAskedFor) {
  const Drawn drawn = Draw("1f1b", {2, 8});
  const std::string plain = RenderSvg(drawn.run, drawn.table);
  EXPECT_EQ(RenderSvg(drawn.run, drawn.table, {.rank_names = {"rank 0", "rank 1"}}), plain);
  const std::string longest = "the <first> of both ranks";
  const std::string named =
      RenderSvg(drawn.run, drawn.table, {.width = 700, .rank_names = {longest, "second"}});
  EXPECT_EQ(CountOf(named, ">rank "), 0);
  EXPECT_THAT(named, HasSubstr(" class=\"end\">the &lt;first&gt; of both ranks<"));
  const size_t second = named.find(" class=\"end\">second<");
  ASSERT_NE(second, std::string::npos);
  const double end = Attributes(named.substr(named.rfind('<', second)), "text", "x").front();
  EXPECT_GT(end, TextWidth(longest, 12));
  for (const double bar : Attributes(named, "rect", "x")) EXPECT_GT(bar, end);
}

// The axis says what its numbers are, and a chart in seconds has numbers of few digits.
TEST(RenderSvg, AxisHasAUnit) {
  Drawn drawn = Draw("1f1b", {4, 8});
  EXPECT_THAT(RenderSvg(drawn.run, drawn.table), HasSubstr(">time (units of the costs)<"));
  EXPECT_THAT(RenderSvg(drawn.run, drawn.table, {.seconds = true}), HasSubstr(">time (s)<"));
  const StageCosts costs = StageCosts::Uniform(4, 1e-4 / 3, 1e-4, 1e-4);
  const auto fast = Simulate(drawn.table, costs);
  ASSERT_TRUE(fast.ok());
  EXPECT_THAT(RenderSvg(*fast, drawn.table, {.seconds = true}), HasSubstr(">time (ms)<"));
}

TEST(RenderSvg, LegendSaysWhatLighterBarsAre) {
  const Drawn chimera = Draw("chimera", {4, 8, 2});
  EXPECT_THAT(RenderSvg(chimera.run, chimera.table),
              HasSubstr(">lighter: the second copy of the model<"));
  EXPECT_THAT(RenderText(chimera.run, chimera.table, {.columns = 80}),
              HasSubstr("small letters: the second copy"));
  const Drawn zbv = Draw("zbv", {4, 8, 2});
  EXPECT_THAT(RenderSvg(zbv.run, zbv.table), HasSubstr(">lighter: later chunks of a rank<"));
}

// PipeDream changes a stage's weights after each micro-batch, 2BW after each four.
TEST(RenderSvg, MarksEveryWeightUpdate) {
  const Drawn plain = Draw("1f1b", {4, 8});
  EXPECT_EQ(CountOf(RenderSvg(plain.run, plain.table), "OPTIMIZER_STEP"), 0);
  EXPECT_EQ(CountOf(RenderSvg(plain.run, plain.table), "weight update"), 0);
  const Drawn pipedream = Draw("pipedream", {4, 8});
  EXPECT_EQ(CountOf(RenderSvg(pipedream.run, pipedream.table), "OPTIMIZER_STEP"), 4 * 8);
  const Drawn double_buffered = Draw("pipedream-2bw", {4, 8});
  const std::string svg = RenderSvg(double_buffered.run, double_buffered.table);
  EXPECT_EQ(CountOf(svg, "OPTIMIZER_STEP"), 4 * 8 / 4);
  EXPECT_EQ(CountOf(svg, ">weight update<"), 1);
}

TEST(RenderSvg, EscapesNames) {
  Drawn drawn = Draw("gpipe", {2, 2});
  drawn.table.name = "a<b>&\"c\".csv";
  EXPECT_THAT(RenderSvg(drawn.run, drawn.table),
              HasSubstr("a&lt;b&gt;&amp;&quot;c&quot;.csv: 2 ranks"));
}

TEST(RenderTrace, IsJsonWithOneEventAnAction) {
  Drawn drawn = Draw("interleaved", {3, 6, 2});
  drawn.table = *LowerTimetable(drawn.table);
  drawn.run = *Simulate(drawn.table, StageCosts::Uniform(6, 1, 1, 1));
  drawn.table.name = "quo\"te\\\n";
  const auto trace = nlohmann::json::parse(RenderTrace(drawn.run, drawn.table));
  int64_t complete = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    ++complete;
    const auto& row = drawn.run.rows.at(event["tid"].get<size_t>() - 1);
    const auto same = std::find_if(row.begin(), row.end(), [&](const TimedAction& t) {
      return ToString(t.action) == event["name"];
    });
    ASSERT_NE(same, row.end());
    EXPECT_EQ(event["pid"], 1);
    EXPECT_EQ(event["args"]["rank"], event["tid"].get<int>() - 1);
    EXPECT_EQ(event["ts"].get<double>(), 1e6 * same->start);
    EXPECT_EQ(event["dur"].get<double>(), 1e6 * (same->end - same->start));
  }
  EXPECT_EQ(complete, drawn.table.action_count());
  EXPECT_EQ(trace["traceEvents"][0]["args"]["name"], "quo\"te\\\n");
}

// Every result that crosses ranks has one arrow, from inside the action that makes it to inside the
// one that uses it, at least `latency` later.
TEST(RenderTrace, HasAnArrowForEveryMessage) {
  constexpr double kLatency = 0.25;
  for (bool lowered : {false, true}) {
    Drawn drawn = Draw("interleaved", {3, 6, 2});
    if (lowered) drawn.table = *LowerTimetable(drawn.table);
    drawn.run = *Simulate(drawn.table, StageCosts::Uniform(6, 1, 1, 1, kLatency));
    const auto trace = nlohmann::json::parse(RenderTrace(drawn.run, drawn.table));
    const auto inside = [&](const nlohmann::json& event, const std::string& name) {
      const auto& row = drawn.run.rows.at(event["tid"].get<size_t>() - 1);
      const double time = event["ts"].get<double>() / 1e6;
      return std::any_of(row.begin(), row.end(), [&](const TimedAction& t) {
        return t.start < time && time < t.end && (name.empty() || ToString(t.action) == name);
      });
    };
    std::map<int, nlohmann::json> open;
    int arrows = 0;
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] == "s") {
        EXPECT_TRUE(inside(event, event["name"])) << event;
        EXPECT_TRUE(open.emplace(event["id"], event).second);
      } else if (event["ph"] == "f") {
        const auto& start = open.at(event["id"]);
        EXPECT_TRUE(inside(event, "")) << event;
        EXPECT_NE(start["tid"], event["tid"]);
        EXPECT_GE(event["ts"].get<double>() - start["ts"].get<double>(), 1e6 * kLatency);
        ++arrows;
      }
    }
    // 5 of 5 boundaries between stages lie between ranks; there and back, 6 micro-batches.
    EXPECT_EQ(arrows, 2 * 5 * 6);
    EXPECT_EQ(open.size(), 60u);
  }
}

TEST(RenderTrace, CountsWhatIsHeld) {
  const Drawn drawn = Draw("zb-h1", {4, 8});
  StageCosts costs = StageCosts::Uniform(4, 1, 1, 1);
  costs.activation_bytes = {10, 20, 30, 40};
  costs.weight_grad_bytes = {1, 2, 3, 4};
  const Simulation run = *Simulate(drawn.table, costs);
  const auto peaks = [&](const StageCosts* with, const char* what) {
    std::vector<double> most(4);
    const auto trace = nlohmann::json::parse(RenderTrace(run, drawn.table, with));
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] != "C") continue;
      const std::string name = event["name"];
      const size_t rank = name[5] - '0';
      EXPECT_EQ(name, "rank " + std::to_string(rank) + " " + what);
      most[rank] = std::max(most[rank], event["args"]["held"].get<double>());
    }
    return most;
  };
  EXPECT_EQ(peaks(nullptr, "activations"),
            std::vector<double>(run.peak_activations.begin(), run.peak_activations.end()));
  EXPECT_EQ(peaks(&costs, "bytes"), run.peak_bytes);
}

TEST(FormatNumber, GroupsThousands) {
  EXPECT_EQ(FormatNumber(33), "33");
  EXPECT_EQ(FormatNumber(49.6), "49.6");
  EXPECT_EQ(FormatNumber(9999), "9999");
  EXPECT_EQ(FormatNumber(1432709), "1,432,709");
  EXPECT_EQ(FormatNumber(12345.5), "12,345.5");
  EXPECT_EQ(FormatNumber(1e300), "1e+300");
}

TEST(FormatShort, HasFewDigitsButWholeNumbersWhole) {
  EXPECT_EQ(FormatShort(1.007765704, 4), "1.008");
  EXPECT_EQ(FormatShort(0.9437113442, 4), "0.9437");
  EXPECT_EQ(FormatShort(33, 4), "33");
  EXPECT_EQ(FormatShort(14327, 4), "14,327");
  EXPECT_EQ(FormatShort(25.500000000000004, 4), "25.5");
  EXPECT_EQ(FormatShort(12345.678, 4), "12,346");
  EXPECT_EQ(FormatShort(0, 4), "0");
  EXPECT_EQ(FormatShort(1e300, 4), "1e+300");
}

TEST(AxisTicks, AreThereForTheShortestTime) {
  EXPECT_EQ(AxisTicks(std::numeric_limits<double>::denorm_min(), 8), std::vector<double>{0});
}

TEST(AxisTicks, AreRoundAndFew) {
  for (double makespan : {0.001, 0.7, 9.0, 33.0, 100.0, 1432709.0}) {
    for (int most : {1, 3, 7, 20}) {
      const std::vector<double> ticks = AxisTicks(makespan, most);
      EXPECT_LE(static_cast<int>(ticks.size()), most + 1);
      EXPECT_EQ(ticks.front(), 0);
      EXPECT_LE(ticks.back(), makespan);
    }
  }
}

}  // namespace
}  // namespace sluice
