// What every flag of every command refuses, whatever else it takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/tools/sluice_process.h"
#include "tools/command.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kCommands[] = {
    "roofline",      "plan",          "profile",  "train",         "sample",
    "chat",          "score",         "tokenize", "merge",         "calibrate",
    "config",        "schedule list", "doctor",   "schedule show", "schedule compare",
    "schedule check"};

struct Flag {
  std::vector<std::string> command;
  std::string name;  // "--output"; of a positional: "MODEL"
  std::string type;  // "TEXT", "{text,svg}"

  std::vector<std::string> With(const std::string& value) const {
    std::vector<std::string> words = command;
    if (absl::StartsWith(name, "-")) words.push_back(name);
    words.push_back(value);
    return words;
  }
};

// The flags that --help shows with the kind of their value: "  -o,--output TEXT   File to write".
std::vector<Flag> FlagsOf(const std::string& command) {
  std::vector<Flag> flags;
  const ProcessResult help = RunSluice(Words(command + " --help"));
  bool lists = false;  // below a heading
  for (const absl::string_view line : absl::StrSplit(help.out, '\n')) {
    if (!absl::StartsWith(line, " "))
      lists = absl::EndsWith(line, ":") && !absl::StartsWith(line, "Example");
    if (!lists || !absl::StartsWith(line, "  ") || absl::StartsWith(line, "   ")) continue;
    const std::vector<std::string> words = Words(std::string(line));
    if (words.size() < 2 || line.find(words[0] + " " + words[1]) == absl::string_view::npos)
      continue;
    const std::vector<std::string> names = absl::StrSplit(words[0], ',');
    flags.push_back({Words(command), names.back(), words[1]});
  }
  return flags;
}

std::vector<Flag> AllFlags() {
  std::vector<Flag> all;
  for (const char* command : kCommands) {
    for (Flag& flag : FlagsOf(command)) all.push_back(std::move(flag));
  }
  return all;
}

// As of a script's variable that is not set: --secret-file "$UNSET".
TEST(FlagValuesTest, NoValueIsEmptyButATextForAModelOrAPicture) {
  const std::vector<Flag> flags = AllFlags();
  EXPECT_GT(flags.size(), 150u);
  for (const Flag& flag : flags) {
    if (flag.name == "--prompt" || flag.name == "--system" || flag.name == "--title") continue;
    const ProcessResult result = RunSluice(flag.With(""));
    const std::string words = absl::StrJoin(flag.command, " ");
    EXPECT_EQ(result.exit_code, kExitBadInput) << words << " " << flag.name;
    EXPECT_THAT(result.err, StartsWith(absl::StrCat("sluice: ", flag.name, ": the value is empty")))
        << words;
  }
}

TEST(FlagValuesTest, WholeNumbersAreNotCutOff) {
  int checked = 0;
  for (const Flag& flag : AllFlags()) {
    if (flag.type != "INT") continue;
    ++checked;
    const ProcessResult large = RunSluice(flag.With("18446744073709551616"));
    EXPECT_EQ(large.exit_code, kExitBadInput) << flag.name;
    EXPECT_THAT(large.err, StartsWith(absl::StrCat("sluice: ", flag.name, ": 18446744073709551616",
                                                   " is too large; expected at most ")));
    for (const char* value : {"inf", "1e3"}) {
      EXPECT_THAT(
          RunSluice(flag.With(value)).err,
          StartsWith(absl::StrCat("sluice: ", flag.name, ": ", value, " is not a whole number")));
    }
  }
  EXPECT_GT(checked, 40);
}

TEST(FlagValuesTest, NumbersAreDecimal) {
  int checked = 0;
  for (const Flag& flag : AllFlags()) {
    if (flag.type != "INT" && flag.type != "UINT" && flag.type != "FLOAT") continue;
    ++checked;
    for (const char* value : {"0x10", "0X1p3"}) {
      EXPECT_THAT(RunSluice(flag.With(value)).err,
                  StartsWith(absl::StrCat("sluice: ", flag.name, ": ", value, " is not a ")));
    }
  }
  EXPECT_GT(checked, 50);
  const ProcessResult zeros =
      RunSluice(Words("schedule show gpipe -p 010 -m 0012 --json --cost F=010"));
  ASSERT_EQ(zeros.exit_code, kExitDone) << zeros.err;
  const nlohmann::json shown = nlohmann::json::parse(zeros.out);
  EXPECT_EQ(shown["ranks"], 10);
  EXPECT_EQ(shown["micro_batches"], 12);
  EXPECT_EQ(shown["work"][0], 12 * (10 + 2));
}

// CLI11 takes them for a list where an option has several values.
TEST(FlagValuesTest, WordsInBracketsStayLetterForLetter) {
  for (const char* word : {"[a,b]", "[a]", "[]"}) {
    EXPECT_THAT(RunSluice({"calibrate", word}).err, HasSubstr(absl::StrCat(word, ": ")));
    EXPECT_THAT(RunSluice({"schedule", "compare", word, "-p", "2", "-m", "2"}).err,
                HasSubstr(absl::StrCat("'", word, "'")));
    EXPECT_THAT(RunSluice({"train", "--data", word}).err,
                HasSubstr(absl::StrCat("cannot open the data '", word, "'")));
    EXPECT_THAT(RunSluice({"launch", "--processes", "1", "--", "train", "--data", word}).err,
                HasSubstr(absl::StrCat("cannot open the data '", word, "'")));
    EXPECT_THAT(RunSluice({word}).err, HasSubstr(absl::StrCat("'", word, "' is no command")));
  }
}

TEST(FlagValuesTest, ListsHaveNoEmptyItems) {
  constexpr char kShow[] = "schedule show 1f1b -m 4 ";
  for (const auto& [command, flag, values] :
       std::vector<std::tuple<std::string, std::string, std::vector<std::string>>>{
           {absl::StrCat(kShow, "-p 2"), "--cost", {"F=1,,I=1", ",F=1", "F=1,", ","}},
           {kShow, "--stage-replicas", {"3,,1", "3,", ",1"}},
           {"plan char-gpt --devices 2 --device h200", "--freeze", {"a,,b", "a,", ",a", ","}},
           {"plan char-gpt --devices 2 --device h200", "--lora", {"r=2,,alpha=4", "r=2,", ","}}}) {
    for (const std::string& value : values) {
      std::vector<std::string> words = Words(command);
      words.push_back(flag);
      words.push_back(value);
      const ProcessResult result = RunSluice(words);
      EXPECT_EQ(result.exit_code, kExitBadInput) << flag << " " << value;
      EXPECT_THAT(result.err, StartsWith(absl::StrCat("sluice: ", flag))) << value;
      EXPECT_THAT(result.err, HasSubstr(absl::StrCat(value,
                                                     "': an item is empty; expected a list "
                                                     "such as ")));
    }
  }
}

}  // namespace
}  // namespace sluice
