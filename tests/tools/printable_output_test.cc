// What is printed for people: no control characters, wherever a name came from, and no message
// without an end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/tools/sluice_process.h"
#include "tests/tools/tiny_run.h"
#include "tools/command.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kEvil[] = "evil\x1b]0;title\x07\x1b[2J\x7f\xc2\x9b\xff";
constexpr char kShown[] = "evil\uFFFD]0;title\uFFFD\uFFFD[2J\uFFFD\uFFFD\uFFFD";

bool IsControl(char letter) {
  const auto byte = static_cast<uint8_t>(letter);
  return (byte < 0x20U && letter != '\n' && letter != '\t') || byte == 0x7FU;
}

class PrintableOutputTest : public testing::Test {
 protected:
  // Runs it, and checks that no control character is printed.
  static ProcessResult Run(const std::vector<std::string>& words) {
    ProcessResult result = RunSluice(words);
    for (const std::string& text : {result.out, result.err}) {
      EXPECT_TRUE(std::none_of(text.begin(), text.end(), IsControl)) << text;
    }
    return result;
  }

  TempFolder folder_;
};

TEST_F(PrintableOutputTest, FlagsAndFileNamesInMessages) {
  WriteText(folder_ / "text");
  const std::vector<std::string> train =
      Words(absl::StrCat("train --data ", folder_ / "text", " ", WithTinyRun("")));
  const auto with = [&train](const std::string& flag) {
    std::vector<std::string> words = train;
    words.insert(words.end(), {flag, kEvil});
    return words;
  };
  const std::vector<std::vector<std::string>> commands = {
      with("--schedule"),
      with("--partition"),
      with("--model"),
      with("--init"),
      with("--steps"),
      with("--lora"),
      with("--plan"),
      {"plan", kEvil, "--devices", "2"},
      {"schedule", "show", kEvil, "-p", "2", "-m", "2"},
      {"schedule", "check", kEvil},
      {kEvil}};
  for (const std::vector<std::string>& command : commands) {
    const ProcessResult result = Run(command);
    EXPECT_EQ(result.exit_code, kExitBadInput);
    EXPECT_THAT(result.err, HasSubstr(kShown));
  }
}

TEST_F(PrintableOutputTest, NamesInFilesInTables) {
  const std::string escape = "\x1b[2J";
  const std::string costs =
      " -- forward_compute_time=1, backward_compute_time=2, activation_size=4e6, "
      "parameter_size=8e6\n";
  const std::string graph = folder_ / "graph.txt", device = folder_ / "device.json";
  WriteBytes(graph, absl::StrCat("a", escape, " -- Linear", costs, "b -- Linear", costs, "\ta",
                                 escape, " -- b\n"));
  WriteBytes(device, R"({"name": "x\u001b[2J", "fp32_flops": 1e12, "bf16_flops": 1e12,
                         "memory_bytes": 1e11, "memory_bandwidth": 1e12})");
  const ProcessResult graph_table = Run({"plan", graph, "--devices", "2"});
  EXPECT_EQ(graph_table.exit_code, kExitDone) << graph_table.err;
  const ProcessResult device_table = Run({"plan", "gpt2", "--devices", "2", "--device", device});
  EXPECT_EQ(device_table.exit_code, kExitDone) << device_table.err;
  EXPECT_THAT(device_table.out, HasSubstr("x\uFFFD[2J"));
}

TEST_F(PrintableOutputTest, WhatARunTells) {
  const std::string text = folder_ / absl::StrCat("text", "\x1b[2J");
  WriteText(text);
  std::vector<std::string> words = {"train", "--data", text, "--save", folder_ / "out\x1b[2J"};
  for (const std::string& word : Words(WithTinyRun(""))) words.push_back(word);
  const ProcessResult result = Run(words);
  EXPECT_EQ(result.exit_code, kExitDone) << result.err;
  EXPECT_THAT(result.out, HasSubstr("out\uFFFD[2J"));
}

// Where something is wrong, and what is expected, even if a megabyte was given.
TEST_F(PrintableOutputTest, LongMessagesLoseTheirMiddle) {
  const std::string header =
      absl::StrCat("{\"wte.", std::string(1'000'000, 'x'),
                   ".weight\":", R"({"dtype":"F99","shape":[1],"data_offsets":[0,4]}})");
  std::string bytes;
  for (size_t i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(header.size() >> 8 * i & 0xFFU));
  WriteBytes(folder_ / "long.safetensors", bytes + header + "abcd");
  WriteText(folder_ / "text");
  const ProcessResult result =
      Run(Words(absl::StrCat("train --data ", folder_ / "text", " ",
                             WithTinyRun("--init " + folder_ / "long.safetensors"))));
  EXPECT_EQ(result.exit_code, kExitBadInput);
  EXPECT_LT(result.err.size(), 2200u);
  EXPECT_THAT(result.err, StartsWith("sluice: "));
  EXPECT_THAT(result.err, HasSubstr("wte.xxx"));
  EXPECT_THAT(result.err, HasSubstr(" bytes are left out) ... "));
  // At the edge of characters.
  std::string name;
  for (int i = 0; i < 3000; ++i) name += "ä";
  const ProcessResult umlauts = Run({"plan", name, "--devices", "2"});
  EXPECT_LT(umlauts.err.size(), 2200u);
  EXPECT_THAT(umlauts.err, HasSubstr("ä ... ("));
  EXPECT_EQ(umlauts.err.find("\uFFFD"), std::string::npos);
}

TEST_F(PrintableOutputTest, MessagesNameTheirFlag) {
  WriteText(folder_ / "text");
  const auto train = [this](const std::string& more) {
    return Run(Words(absl::StrCat("train --data ", folder_ / "text", " ", WithTinyRun(more)))).err;
  };
  EXPECT_THAT(train("--sum-groups 3"), HasSubstr("--sum-groups"));
  EXPECT_THAT(train("--data-parallel 2 --sum-groups 1"), HasSubstr("--sum-groups"));
  EXPECT_THAT(train("--schedule 1f1b --chunks 7"), HasSubstr("--chunks"));
  EXPECT_THAT(train("--partition 1-9"), HasSubstr("--partition '1-9'"));
  EXPECT_THAT(Run(Words("sample --load x --top-p inf")).err, HasSubstr("is not a finite number"));
}

}  // namespace
}  // namespace sluice
