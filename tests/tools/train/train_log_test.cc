// `train --log FILE`: what is in the file is what --json prints, step by step, and no step twice.
#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/tools/train/train_command.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

class TrainLogTest : public TrainCommandTest {
 protected:
  static std::vector<std::string> Lines(const std::string& text) {
    return absl::StrSplit(text, '\n', absl::SkipEmpty());
  }
  // The lines of steps and evaluations that a run with --json has printed.
  static std::vector<std::string> Printed(const std::string& out) {
    std::vector<std::string> lines;
    for (const std::string& line : Lines(out)) {
      if (absl::StartsWith(line, "{\"step\"") || absl::StartsWith(line, "{\"evaluated_step\""))
        lines.push_back(line);
    }
    return lines;
  }
  std::string Text(const std::string& name) const { return ReadBytes(folder_ / name); }
  // The rows below the names of the columns.
  std::vector<std::map<std::string, std::string>> Rows(const std::string& name) const {
    const std::vector<std::string> lines = Lines(Text(name));
    std::vector<std::map<std::string, std::string>> rows;
    const std::vector<std::string> names = absl::StrSplit(lines.front(), ',');
    for (size_t line = 1; line < lines.size(); ++line) {
      const std::vector<std::string> cells = absl::StrSplit(lines[line], ',');
      EXPECT_EQ(cells.size(), names.size()) << lines[line];
      rows.emplace_back();
      for (size_t cell = 0; cell < names.size(); ++cell) rows.back()[names[cell]] = cells[cell];
    }
    return rows;
  }
  // The steps, and "3e" for the evaluation after step 3.
  std::vector<std::string> Order(const std::string& name) const {
    std::vector<std::string> order;
    if (absl::EndsWith(name, ".csv")) {
      for (const auto& row : Rows(name))
        order.push_back(row.at("step") + (row.at("loss").empty() ? "e" : ""));
      return order;
    }
    for (const std::string& line : Lines(Text(name))) {
      const Json json = Json::parse(line);
      order.push_back(json.contains("step") ? absl::StrCat(json["step"].get<int>())
                                            : absl::StrCat(json["evaluated_step"].get<int>(), "e"));
    }
    return order;
  }
  std::string Log(const std::string& name) const {
    return absl::StrCat(" --log ", folder_ / name, " ");
  }
};

TEST_F(TrainLogTest, JsonLinesAreThoseOfStandardOutput) {
  const ProcessResult run = Run("--steps 4 --eval-every 2 --json" + Log("log.jsonl"));
  ASSERT_EQ(run.exit_code, kExitDone) << run.err;
  EXPECT_EQ(Lines(Text("log.jsonl")), Printed(run.out));
  EXPECT_THAT(Order("log.jsonl"), ElementsAre("1", "2", "2e", "3", "4", "4e"));
}

TEST_F(TrainLogTest, ARowOfCsvHasTheSameNumbers) {
  const ProcessResult run = Run("--steps 3 --mirror --json" + Log("log.csv"));
  ASSERT_EQ(run.exit_code, kExitDone) << run.err;
  const std::vector<std::map<std::string, std::string>> rows = Rows("log.csv");
  const std::vector<std::string> printed = Printed(run.out);
  ASSERT_EQ(rows.size(), printed.size());
  for (size_t row = 0; row < rows.size(); ++row) {
    const Json json = Json::parse(printed[row]);
    for (const auto& [key, value] : json.items()) {
      if (value.is_array()) {
        for (size_t rank = 0; rank < value.size(); ++rank)
          EXPECT_EQ(rows[row].at(absl::StrCat(key, "_", rank)), value[rank].dump());
      } else {
        const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
        EXPECT_EQ(rows[row].at(key == "evaluated_step" ? "step" : key), text);
      }
    }
  }
  EXPECT_EQ(rows.front().at("eval_loss"), "");
  EXPECT_EQ(rows.back().at("loss"), "");
}

TEST_F(TrainLogTest, AResumedRunGoesOnAndRepeatsNothing) {
  for (const std::string name : {"log.jsonl", "log.csv"}) {
    const std::string out = folder_ / "out";
    const ProcessResult first = Run(absl::StrCat("--steps 6 --save-every 2 --eval-every 3 --save ",
                                                 out, " --keep all", Log(name)));
    ASSERT_EQ(first.exit_code, kExitDone) << first.err;
    const std::vector<std::string> before = Lines(Text(name));
    EXPECT_THAT(Order(name), ElementsAre("1", "2", "3", "3e", "4", "5", "6", "6e"));
    // As if it had been killed in the middle of step 6's line, with its last checkpoint after 4.
    fs::remove_all(out + "/step-00000006");
    fs::remove(out + "/latest");
    fs::create_directory_symlink("step-00000004", out + "/latest");
    const std::string text = Text(name);
    WriteBytes(folder_ / name, text.substr(0, text.rfind('\n', text.size() - 2) - 9));

    const ProcessResult resumed =
        RunSluice(Words(absl::StrCat("train --resume ", out, " --stages 3 --steps 7")));
    ASSERT_EQ(resumed.exit_code, kExitDone) << resumed.err;
    EXPECT_THAT(Order(name), ElementsAre("1", "2", "3", "3e", "4", "5", "6", "6e", "7", "7e"));
    for (size_t line = 1; line < 5; ++line)
      EXPECT_THAT(Lines(Text(name))[line], testing::StartsWith(before[line]));
    if (absl::EndsWith(name, ".csv")) {
      EXPECT_EQ(Rows(name)[1].at("arena_bytes_2"), "");
      EXPECT_NE(Rows(name)[8].at("arena_bytes_2"), "");
    }
    // One that begins anew has a new file; one that does not save leaves this one alone.
    const std::string whole = Text(name);
    RunSluice(Words(absl::StrCat("train --resume ", out, "/step-00000002")));
    EXPECT_EQ(Text(name), whole);
    Run("--steps 1" + Log(name));
    EXPECT_THAT(Order(name), ElementsAre("1", "1e"));
    fs::remove_all(out);
  }
}

TEST_F(TrainLogTest, ALineIsThereAsSoonAsItsStepIsDone) {
  SluiceProcess run(Arguments("--steps 1000000 --json" + Log("log.jsonl")));
  // A step is printed just before its line is written: when 21 is printed, 20 has its line.
  ASSERT_TRUE(run.WaitForOutput("{\"step\":21,"));
  run.Signal(SIGKILL);
  run.Wait();
  EXPECT_GE(Lines(Text("log.jsonl")).size(), 20u);
}

TEST_F(TrainLogTest, ALogThatCannotBeWrittenIsSaid) {
  const std::vector<std::pair<std::string, std::string>> refused = {
      {"log.txt", "expected a name that ends in .jsonl or .csv"},
      {"nowhere/log.csv", "cannot write"},
      {"folder.csv", "is no file that can be appended to"},
      {"other.csv", "line 1 does not begin with 'step,'"},
      {"other.jsonl", "line 1 does not begin with a 'step'"},
      {"broken.csv", "line 2 has 1 cells of 2"}};
  fs::create_directory(folder_ / "folder.csv");
  for (const char* name : {"other.csv", "other.jsonl"}) WriteBytes(folder_ / name, "precious");
  WriteBytes(folder_ / "broken.csv", "step,loss\n1\n");
  for (const auto& [name, why] : refused) {
    const ProcessResult result = Run("--steps 1 --json" + Log(name));
    EXPECT_EQ(result.exit_code, kExitBadInput) << name;
    EXPECT_EQ(result.out, "") << name;
    EXPECT_THAT(result.err, testing::AllOf(HasSubstr(folder_ / name), HasSubstr(why)));
  }
  EXPECT_EQ(Text("other.csv"), "precious");
}

TEST_F(TrainLogTest, AFullDiskEndsTheLogAndNotTheRun) {
  constexpr int kLimitKib = 8;
  const ProcessResult full = Run("--steps 60" + Log("log.jsonl"), kLimitKib);
  EXPECT_EQ(full.exit_code, kExitOutOfMemory);
  EXPECT_THAT(full.err, HasSubstr("the run goes on without its log"));
  EXPECT_THAT(full.out, HasSubstr("done after step 60"));
}

}  // namespace
}  // namespace sluice
