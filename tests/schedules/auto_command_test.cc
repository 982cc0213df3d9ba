// `sluice schedule show auto` and `compare --memory-sweep`, run as a script runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/built_files.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

using nlohmann::json;
using testing::HasSubstr;

struct Outcome {
  int exit_code = -1;
  std::string text;  // stdout and stderr
};

Outcome Sluice(const std::string& arguments) {
  const std::string command = "COLUMNS=100 " + SluiceProgram() + " schedule " + arguments + " 2>&1";
  Outcome outcome;
  std::FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> block;
  while (const size_t count = std::fread(block.data(), 1, block.size(), pipe)) {
    outcome.text.append(block.data(), count);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

json Show(const std::string& arguments) {
  const Outcome outcome = Sluice("show auto --json " + arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  return json::parse(outcome.text);
}

TEST(Auto, KeepsTheLimitAndStatesTheGap) {
  for (int limit : {1, 2, 4, 7}) {
    const json run = Show("-p 4 -m 8 --memory-limit " + std::to_string(limit));
    EXPECT_EQ(run["schedule"], "auto");
    for (const int peak : run["peak_activations"]) EXPECT_LE(peak, limit);
    const double makespan = run["makespan"];
    const double bound = run["lower_bound"];
    EXPECT_NEAR(run["gap"].get<double>(), makespan / bound - 1, 1e-12);
  }
  // One that no timetable needs, also where it is multiplied for parts of stages.
  const json free = Show("-p 4 -m 8 -v auto");
  for (const char* limit : {"600000000", "2000000000", "2147483647"}) {
    const json run = Show(absl::StrCat("-p 4 -m 8 -v auto --memory-limit ", limit));
    EXPECT_EQ(run["makespan"], free["makespan"]);
    EXPECT_EQ(run["lower_bound"], free["lower_bound"]);
  }
  // With one activation per rank nothing overlaps: m (p (F + I) + W).
  EXPECT_EQ(Show("-p 4 -m 8 --memory-limit 1")["makespan"], 8 * (4 * 2 + 1));
  EXPECT_EQ(Show("-p 4 -m 8")["makespan"], 27);
}

TEST(Auto, TakesPlacementsAndTime) {
  EXPECT_EQ(Show("-p 3 -m 5 -v 2 --placement v")["stages"], 6);
  EXPECT_EQ(Show("-p 3 -m 5 -v 2 --placement looped")["chunks"], 2);
  EXPECT_EQ(Show("-p 3 -m 5 --placement v")["chunks"], 2);
  EXPECT_EQ(Show("-p 4 -m 40 --memory-limit 3 --time-limit 100ms")["micro_batches"], 40);
}

TEST(Auto, ChoosesTheCut) {
  // Of fewer micro-batches under sanitizers, which make the search ten times as slow.
  const std::string size = kSanitized ? "-p 3 -m 4" : "-p 4 -m 8";
  const json chosen = Show(size + " -v auto --memory-limit 2");
  const int parts = chosen["chunks"];
  for (const int peak : chosen["peak_activations"]) EXPECT_LE(peak, 2 * parts);
  EXPECT_LE(chosen["makespan"], Show(size + " --memory-limit 2")["makespan"]);
  EXPECT_EQ(Sluice("show 1f1b -p 4 -m 8 -v auto").exit_code, 2);
}

// The stages of `auto` may be cut; those of the schedule beside it are not.
TEST(Auto, StandsAgainstScheduleOfWholeStages) {
  const Outcome page = Sluice(
      "show auto -p 4 -m 8 -v auto --memory-limit 3 --against 1f1b --cost F=2 "
      "--time-limit 200ms --format html");
  EXPECT_EQ(page.exit_code, 0) << page.text;
  EXPECT_THAT(page.text, HasSubstr("1f1b"));
}

TEST(Auto, SaysWhatWouldDo) {
  const Outcome none = Sluice("show auto -p 4 -m 8 -v 3 --memory-limit 2");
  EXPECT_EQ(none.exit_code, 3);
  EXPECT_THAT(none.text, HasSubstr("the least limit that would do is 3"));
  const Outcome named = Sluice("show 1f1b -p 4 -m 8 --memory-limit 3");
  EXPECT_EQ(named.exit_code, 3);
  EXPECT_THAT(named.text, HasSubstr("1f1b holds 4 activations on rank 0; --memory-limit is 3"));
}

// Files of a table keep the limit that its pictures keep.
TEST(MemoryLimit, HoldsForEveryFormat) {
  const std::string file = testing::TempDir() + "sluice_limit.csv";
  ASSERT_EQ(Sluice("show 1f1b -p 4 -m 8 --format csv -o " + file).exit_code, 0);
  for (const char* format : {"text", "svg", "html", "csv", "comms-csv", "trace", "json"}) {
    for (const std::string& what : {std::string("1f1b -p 4 -m 8"), file}) {
      const std::string show = absl::StrCat("show ", what, " --format ", format);
      const Outcome refused = Sluice(absl::StrCat(show, " --memory-limit 3"));
      EXPECT_EQ(refused.exit_code, 3) << show;
      EXPECT_THAT(refused.text, HasSubstr("holds 4 activations on rank 0; --memory-limit is 3"));
      const Outcome kept = Sluice(absl::StrCat(show, " --memory-limit 4"));
      EXPECT_EQ(kept.exit_code, 0) << kept.text;
      // Pages and pictures say the limit.
      if (std::string_view(format).ends_with("csv")) {
        EXPECT_EQ(kept.text, Sluice(show).text);
      }
    }
  }
  std::remove(file.c_str());
}

TEST(MemoryLimit, IsAtLeastOneActivation) {
  for (const char* command :
       {"show 1f1b", "show auto", "show auto -v auto", "show zb-2p", "show 1f1b --format csv",
        "compare", "compare 1f1b auto", "compare --memory-sweep"}) {
    for (const char* limit : {"0", "-1"}) {
      const Outcome outcome = Sluice(absl::StrCat(command, " -p 4 -m 8 --memory-limit=", limit));
      EXPECT_EQ(outcome.exit_code, 2) << command;
      EXPECT_EQ(outcome.text,
                absl::StrCat("sluice: --memory-limit must be at least 1, not ", limit, "\n"));
    }
  }
}

// The sweep begins with a third of the memory of 1F1B, here 2; less is a limit, too.
TEST(MemorySweep, HasTheOnlyLimitThatIsAllowed) {
  const Outcome outcome = Sluice("compare --memory-sweep -p 8 -m 4 --memory-limit 1 --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.text;
  const json curve = json::parse(outcome.text)["curve"];
  ASSERT_EQ(curve.size(), 1u);
  EXPECT_EQ(curve[0]["memory_limit"], 1);
  const Outcome two_chunks = Sluice("compare --memory-sweep -p 8 -m 4 -v 2 --memory-limit 1");
  EXPECT_EQ(two_chunks.exit_code, 3) << two_chunks.text;
}

TEST(MemorySweep, FallsWithTheLimit) {
  const Outcome outcome = Sluice("compare --memory-sweep -p 3 -m 6 --json");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.text;
  const json sweep = json::parse(outcome.text);
  const json& curve = sweep["curve"];
  ASSERT_GT(curve.size(), 4u);
  for (size_t i = 0; i < curve.size(); ++i) {
    EXPECT_LE(curve[i]["lower_bound"], curve[i]["makespan"]);
    if (i == 0) continue;
    EXPECT_LE(curve[i]["makespan"], curve[i - 1]["makespan"]);
  }
  // No entry of the catalogue lies below the curve.
  for (const json& entry : sweep["catalogue"]) {
    for (const json& point : curve) {
      if (point["memory_limit"] < entry["peak_activations"]) continue;
      EXPECT_GE(entry["makespan"].get<double>(), point["makespan"].get<double>() - 1e-9)
          << entry["schedule"];
    }
  }
}

// Schedules of the catalogue that hold more bytes than a device has are no alternative.
TEST(MemorySweep, KeepsTheMemoryOfDevices) {
  const std::string file = testing::TempDir() + "sluice_sweep_memory.json";
  std::ofstream(file) << R"({"F":[1,1],"activation_bytes":[1,1],"device_memory":[1,1]})";
  const Outcome outcome = Sluice("compare --memory-sweep -p 2 -m 4 -v 1 --json --costs " + file);
  std::remove(file.c_str());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.text;
  const json sweep = json::parse(outcome.text);
  for (const json& point : sweep["curve"]) EXPECT_GE(point["makespan"], 17);
  // One activation at a time: of the whole catalogue nothing does with that.
  EXPECT_EQ(sweep["catalogue"], json::array());
}

// Without any work there is no bound to mark.
TEST(MemorySweep, DrawsStagesThatCostNothing) {
  const Outcome outcome = Sluice("compare --memory-sweep -p 2 -m 2 --cost F=0,I=0,W=0");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("best found"));
}

TEST(MemorySweep, Draws) {
  const Outcome text = Sluice("compare --memory-sweep -p 3 -m 6");
  EXPECT_EQ(text.exit_code, 0);
  for (const char* part :
       {"limit  placement", "activations that a rank may hold", "best found", "1f1b"}) {
    EXPECT_THAT(text.text, HasSubstr(part));
  }
  const Outcome svg = Sluice("compare --memory-sweep -p 3 -m 6 --format svg");
  EXPECT_EQ(svg.text.rfind("<svg xmlns", 0), 0u);
  EXPECT_THAT(svg.text, HasSubstr("</svg>"));
  EXPECT_EQ(svg.text.find("nan"), std::string::npos);
  EXPECT_EQ(Sluice("compare 1f1b --memory-sweep -p 3 -m 6").exit_code, 2);
  EXPECT_EQ(Sluice("compare --format svg -p 3 -m 6").exit_code, 2);
}

// The plot has a letter for each entry of the catalogue, wherever two have one place, and labels of
// whole tens of per cent.
TEST(MemorySweep, HidesNoEntry) {
  const std::string text = Sluice("compare --memory-sweep -p 4 -m 8").text;
  std::string plot, labels;
  size_t entries = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (const size_t bar = line.find(" |"); bar != absl::string_view::npos) {
      absl::StrAppend(&labels, line.substr(0, bar));
      absl::StrAppend(&plot, line.substr(bar + 2));
    }
    if (line.size() > 4 && line[2] == static_cast<char>('a' + entries) && line[3] == ' ') ++entries;
  }
  EXPECT_GE(entries, 14u) << text;
  for (size_t i = 0; i < entries; ++i)
    EXPECT_EQ(std::count(plot.begin(), plot.end(), static_cast<char>('a' + i)), 1) << text;
  EXPECT_EQ(std::count(plot.begin(), plot.end(), '#'), 10) << text;
  absl::RemoveExtraAsciiWhitespace(&labels);
  EXPECT_EQ(labels, "60% 40% 20% 0%");
}

}  // namespace
}  // namespace sluice
