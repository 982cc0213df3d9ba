#include "schedules/render.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "random_timetable.h"
#include "schedules/catalogue.h"
#include "schedules/lower.h"
#include "schedules/render_common.h"

namespace sluice {
namespace {

using testing::HasSubstr;

struct Drawn {
  Timetable table;
  Simulation run;
};

Drawn Draw(const char* schedule, const ScheduleRequest& request) {
  Drawn drawn{*GenerateSchedule(schedule, request), {}};
  drawn.run = *Simulate(drawn.table, StageCosts::Uniform(drawn.table.placement.stages(), 1, 1, 1));
  return drawn;
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Without ANSI escapes.
std::string Visible(const std::string& text) {
  std::string visible;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b')
      i = text.find('m', i);
    else
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
  // 12 units in 67 columns: 5 each. B0 of rank 0 waits for F0 and B0 of rank 1, until 4.
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
    EXPECT_EQ(CountOf(svg, "<title>"), computations);
    EXPECT_EQ(CountOf(svg, "<g>"), CountOf(svg, "</g>"));
    EXPECT_EQ(svg.find("nan"), std::string::npos);
  }
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
    const auto& row = drawn.run.rows.at(event["tid"].get<size_t>());
    const auto same = std::find_if(row.begin(), row.end(), [&](const TimedAction& t) {
      return ToString(t.action) == event["name"];
    });
    ASSERT_NE(same, row.end());
    EXPECT_EQ(event["ts"].get<double>(), 1e6 * same->start);
    EXPECT_EQ(event["dur"].get<double>(), 1e6 * (same->end - same->start));
  }
  EXPECT_EQ(complete, drawn.table.action_count());
  EXPECT_EQ(trace["traceEvents"][0]["args"]["name"], "quo\"te\\\n");
}

TEST(FormatNumber, GroupsThousands) {
  EXPECT_EQ(FormatNumber(33), "33");
  EXPECT_EQ(FormatNumber(49.6), "49.6");
  EXPECT_EQ(FormatNumber(9999), "9999");
  EXPECT_EQ(FormatNumber(1432709), "1,432,709");
  EXPECT_EQ(FormatNumber(12345.5), "12,345.5");
  EXPECT_EQ(FormatNumber(1e300), "1e+300");
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
