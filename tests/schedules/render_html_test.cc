#include "schedules/render/render_html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "drawn.h"
#include "random_timetable.h"
#include "schedules/generators/catalogue.h"
#include "schedules/lower.h"
#include "schedules/render/pack_actions.h"
#include "schedules/render/render_common.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Page(const Drawn& drawn) {
  HtmlPanel panel;
  panel.table = &drawn.table;
  panel.run = &drawn.run;
  return RenderHtml({panel});
}

// The text of the data element with this id.
std::string Element(const std::string& page, const std::string& id) {
  const std::string opening = "<script type=\"text/plain\" id=\"" + id + "\">";
  const size_t from = page.find(opening);
  if (from == std::string::npos) return "";
  const size_t start = from + opening.size();
  return page.substr(start, page.find("</script>", start) - start);
}

int64_t CountOf(const std::string& text, const std::string& part) {
  int64_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Reads packed actions as the page's script does.
struct Unpacked {
  explicit Unpacked(const PackedActions& packed) : bytes(packed.bytes), tick(packed.tick) {
    for (size_t rank_count : packed.counts) count += rank_count;
  }
  uint32_t Number(size_t offset, size_t size) const {
    uint32_t number = 0;
    for (size_t i = 0; i < size; ++i)
      number |= uint32_t{static_cast<unsigned char>(bytes.at(offset + i))} << (8 * i);
    return number;
  }
  double start(size_t i) const { return Number(4 * i, 4) * tick; }
  double end(size_t i) const { return Number(4 * (count + i), 4) * tick; }
  uint8_t kind(size_t i) const { return static_cast<uint8_t>(Number(14 * count + i, 1)); }
  Action action(size_t i) const {
    return {.op = static_cast<Op>(kind(i) & 0xf),
            .overlaps_next = (kind(i) & kFirstHalfBit) != 0,
            .stage = static_cast<uint16_t>(Number(12 * count + 2 * i, 2)),
            .micro_batch = static_cast<int32_t>(Number(8 * count + 4 * i, 4))};
  }
  const std::string& bytes;
  double tick;
  size_t count = 0;
};

TEST(PackActions, KeepsEveryComputationInOrder) {
  Random random(21);
  for (int i = 0; i < 60; ++i) {
    Timetable table = RandomTimetable(random);
    if (i % 2 == 1) table = *LowerTimetable(table);
    const auto run = Simulate(table, RandomCosts(random, table.placement.stages()));
    const PackedActions packed = PackActions(run->rows, CriticalSet(run->critical_path));
    const Unpacked unpacked(packed);
    EXPECT_EQ(packed.bytes.size(), 15 * unpacked.count);
    EXPECT_GE(packed.tick * 4294967295.0, run->makespan);
    size_t at = 0;
    int64_t critical = 0;
    for (const auto& row : run->rows) {
      for (size_t k = 0; k < row.size(); ++k) {
        if (!IsCompute(row[k].action.op)) continue;
        EXPECT_EQ(unpacked.action(at), row[k].action);
        EXPECT_NEAR(unpacked.start(at), row[k].start, packed.tick / 2);
        EXPECT_NEAR(unpacked.end(at), row[k].end, packed.tick / 2);
        EXPECT_EQ((unpacked.kind(at) & kSecondHalfBit) != 0,
                  k > 0 && row[k - 1].action.overlaps_next);
        critical += (unpacked.kind(at) & kCriticalBit) != 0;
        ++at;
      }
    }
    EXPECT_EQ(at, unpacked.count);
    EXPECT_EQ(critical, static_cast<int64_t>(run->critical_path.size()));
  }
}

TEST(PackActions, WholeTimesStayExact) {
  const Drawn drawn = Draw("zb-h1", {8, 24});
  const PackedActions packed = PackActions(drawn.run.rows, CriticalSet({}));
  const Unpacked unpacked(packed);
  size_t at = 0;
  for (const auto& row : drawn.run.rows) {
    for (const TimedAction& timed : row) {
      EXPECT_EQ(unpacked.start(at), timed.start);
      EXPECT_EQ(unpacked.end(at++), timed.end);
    }
  }
}

TEST(PackActions, StandsTimesOfAnySize) {
  for (double last : {0.0, 1e-300, 1.0, 4294967296.0, 1e300}) {
    const PackedActions packed =
        PackActions({{{{Op::kForward, false, 0, 0}, 0, last}}}, CriticalSet({}));
    EXPECT_NEAR(Unpacked(packed).end(0), last, packed.tick / 2);
  }
}

TEST(RenderHtml, CarriesTheActionsAndTheirDescription) {
  const Drawn drawn = Draw("interleaved", {4, 8, 2});
  const std::string page = Page(drawn);
  const auto about = nlohmann::json::parse(Element(page, "about"));
  const auto& panel = about["panels"][0];
  EXPECT_EQ(panel["ranks"], 4);
  EXPECT_EQ(panel["stages"], 8);
  EXPECT_EQ(panel["microBatches"], 8);
  EXPECT_EQ(panel["makespan"].get<double>(), drawn.run.makespan);
  EXPECT_EQ(panel["peakActivations"].get<std::vector<int>>(), drawn.run.peak_activations);
  EXPECT_EQ(panel["chunkOfStage"], (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1}));
  const PackedActions packed = PackActions(drawn.run.rows, CriticalSet(drawn.run.critical_path));
  const auto& layer = panel["layers"][0];
  EXPECT_EQ(layer["counts"].get<std::vector<size_t>>(), packed.counts);
  std::string bytes;
  ASSERT_TRUE(absl::Base64Unescape(Element(page, layer["data"]), &bytes));
  EXPECT_EQ(bytes, packed.bytes);
}

TEST(RenderHtml, AsksForNothingElse) {
  // A name that nobody looks up, and a part of the picture itself.
  const std::string page = absl::StrReplaceAll(
      Page(Draw("1f1b", {4, 8})),
      {{"http://www.w3.org/2000/svg", ""}, {"url(#hatch-", ""}, {"url(#${", ""}});
  for (const char* outside : {"http:", "https:", "//cdn", " src=", "@import", "url(", "import("})
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  EXPECT_THAT(page, Not(HasSubstr("{{")));
}

TEST(RenderHtml, NamesCannotBreakThePage) {
  Drawn drawn = Draw("gpipe", {2, 2});
  const int64_t usual = CountOf(Page(drawn), "</script");
  for (const std::string name :
       {"</script><script>alert(1)</script>.csv", "<!--<script>.csv", "\"}]'\\.csv",
        "{{data}}{{script}}.csv", "\xff\xc3(\x01\n.csv", "</title><b>&amp;.csv"}) {
    drawn.table.name = name;
    const std::string page = Page(drawn);
    EXPECT_EQ(CountOf(page, "</script"), usual) << name;
    EXPECT_EQ(CountOf(page, "<script"), usual) << name;
    EXPECT_EQ(CountOf(page, "</title>"), 1) << name;
    const auto about = nlohmann::json::parse(Element(page, "about"));
    const std::string title = about["panels"][0]["title"];
    if (name.find('\xff') == std::string::npos) {
      EXPECT_EQ(title, TitleOf(drawn.table));
    } else {
      EXPECT_TRUE(absl::StartsWith(title, "\ufffd\ufffd(\x01\n.csv: ")) << title;
    }
  }
}

TEST(RenderHtml, PutsAMeasuredRunUnderThePlan) {
  const Drawn drawn = Draw("1f1b", {2, 4});
  HtmlPanel panel;
  panel.table = &drawn.table;
  panel.run = &drawn.run;
  panel.measured = MeasuredRun{"step 3", drawn.run.rows};
  const std::string page = RenderHtml({panel, panel}, {.seconds = true});
  const auto about = nlohmann::json::parse(Element(page, "about"));
  EXPECT_EQ(about["seconds"], true);
  ASSERT_EQ(about["panels"].size(), 2u);
  for (const auto& shown : about["panels"]) {
    ASSERT_EQ(shown["layers"].size(), 2u);
    EXPECT_EQ(shown["layers"][1]["name"], "step 3");
    EXPECT_NE(Element(page, shown["layers"][1]["data"]), "");
  }
}

TEST(JsonQuoted, IsReadBackWhateverTheBytes) {
  Random random(22);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (int k = 0; k < 12; ++k) text += static_cast<char>(random() & 0xff);
    const auto read = nlohmann::json::parse(JsonQuoted(text));  // throws on bad UTF-8
    EXPECT_TRUE(read.is_string());
  }
  EXPECT_EQ(JsonQuoted("a\"b\\c<\n\u00e9"), "\"a\\\"b\\\\c\\u003c\\u000a\u00e9\"");
  EXPECT_EQ(JsonQuoted("\xed\xa0\x80|\xc0\x80"),
            "\"\\ufffd\\ufffd\\ufffd|\\ufffd\\ufffd\"");  // a surrogate, an overlong NUL
}

TEST(JsonNumber, ReadsBackTheSame) {
  for (double value : {0.0, 0.1, 1.0 / 3, 1310405.0, 5e-324, 1.7e308, 0.1 + 0.2})
    EXPECT_EQ(std::strtod(JsonNumber(value).c_str(), nullptr), value);
  EXPECT_EQ(JsonNumber(0.1), "0.1");
}

}  // namespace
}  // namespace sluice
