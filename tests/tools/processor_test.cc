// What depends on the processor and what does not. DNNL_MAX_CPU_ISA forbids oneDNN to use some
// instructions, as on a smaller processor. It is read when oneDNN is first used, so each case
// starts the program.
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "tests/models/data/files.h"
#include "tests/tools/sluice_process.h"
#include "tests/tools/tiny_run.h"
#include "tools/command.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

constexpr char kVariable[] = "DNNL_MAX_CPU_ISA";
constexpr char kThisOne[] = "ALL";
constexpr char kNoBFloat16[] = "AVX2";
constexpr char kOld[] = "SSE41";  // older than any that tests run on
constexpr char kNote[] = "sluice: note: this processor has no fast bf16 arithmetic";

// Runs `sluice` like a processor that has only the instructions up to `instructions`.
ProcessResult RunOn(const char* instructions, const std::string& arguments) {
  setenv(kVariable, instructions, 1);
  ProcessResult result = RunSluice(Words(arguments));
  unsetenv(kVariable);
  EXPECT_EQ(result.signal, 0) << instructions << ": " << arguments;
  return result;
}

// The same for a processor without bf16; expects a note about that and no other message.
ProcessResult RunWithANote(const std::string& arguments) {
  ProcessResult result = RunOn(kNoBFloat16, arguments);
  EXPECT_EQ(result.exit_code, kExitDone) << result.err;
  EXPECT_THAT(result.err, StartsWith(kNote));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  return result;
}

class ProcessorTest : public ::testing::Test {
 protected:
  void SetUp() override { WriteText(folder_ / "text"); }

  // [line]: the objects that a run prints in bf16.
  std::vector<Json> Train(const std::string& more) const {
    const ProcessResult result = RunWithANote(
        absl::StrCat("train --data ", folder_ / "text", " --dtype bf16 --json ", more));
    std::vector<Json> lines;
    for (const auto line : absl::StrSplit(result.out, '\n', absl::SkipEmpty()))
      lines.push_back(Json::parse(line, nullptr, false));
    return lines;
  }

  TempFolder folder_;
};

// Losses, and the hash of the weights, to the bit.
std::vector<std::string> BitsOf(const std::vector<Json>& lines) {
  std::vector<std::string> bits;
  for (const Json& line : lines) {
    for (const char* field : {"loss_hex", "weights_hash"}) {
      if (line.contains(field)) bits.push_back(line[field]);
    }
  }
  return bits;
}

TEST_F(ProcessorTest, DoesNotShowInAPlanForAnother) {
  const std::string model = "plan char-gpt --layers 4 --dim 96 --heads 4 --seq 64 --devices 2 ";
  for (const char* flags : {"--device h200", "--device h200 --dtype fp32",
                            "--device a100 --memory 40MiB --schedule 1f1b --what-if"}) {
    const std::string command = model + flags + " --format json";
    const ProcessResult here = RunOn(kThisOne, command);
    ASSERT_EQ(here.exit_code, kExitDone) << here.err;
    for (const char* instructions : {"AVX512_CORE", "AVX2", "AVX", "SSE41"}) {
      const ProcessResult there = RunOn(instructions, command);
      EXPECT_EQ(there.out, here.out) << instructions << ": " << command;
      EXPECT_EQ(there.err, here.err) << instructions << ": " << command;
    }
  }
}

TEST_F(ProcessorTest, WithoutBFloat16TrainsInItToTheSameBits) {
  const std::vector<Json> one = Train(WithTinyRun("--stages 1 --steps 3"));
  const std::vector<std::string> bits = BitsOf(one);
  ASSERT_EQ(bits.size(), 4u) << "three losses, and weights";
  EXPECT_EQ(one.at(0)["arena_bytes"], one.at(0)["peak_bytes"]) << "allocated, foretold";
  for (const char* more : {"--stages 2 --schedule gpipe", "--stages 2 --schedule 1f1b",
                           "--stages 3 --schedule zb-h1 --recompute full"}) {
    EXPECT_EQ(BitsOf(Train(WithTinyRun(absl::StrCat("--steps 3 ", more)))), bits) << more;
  }
}

// The bits of two instruction sets differ, and whoever goes on with another one is told.
TEST_F(ProcessorTest, IsNamedByCheckpointsAndWhereOneIsResumedOnAnother) {
  const auto train = [this](const std::string& more) {
    return absl::StrCat("train --data ", folder_ / "text ", WithTinyRun(more), " --save ",
                        folder_ / "saved");
  };
  EXPECT_EQ(RunOn(kThisOne, train("--steps 1")).exit_code, kExitDone);
  const Json state =
      Json::parse(std::ifstream(folder_ / "saved/latest/state.json"), nullptr, false);
  ASSERT_TRUE(state.is_object());
  const std::string arithmetic = state.value("arithmetic", "");
  EXPECT_THAT(arithmetic, StartsWith("oneDNN with "));
  const std::string resume = absl::StrCat(" --resume ", folder_ / "saved");
  EXPECT_EQ(RunOn(kThisOne, train("--steps 2") + resume).err, "");
  const ProcessResult there = RunOn(kOld, train("--steps 3") + resume);
  EXPECT_EQ(there.exit_code, kExitDone) << there.err;
  EXPECT_THAT(there.err,
              StartsWith(absl::StrCat("sluice: the checkpoint was computed by ", arithmetic,
                                      ", this run by oneDNN with SSE4.1, vectors with ")));
  EXPECT_EQ(std::count(there.err.begin(), there.err.end(), '\n'), 1) << there.err;
}

TEST_F(ProcessorTest, WithoutBFloat16TakesTheMemoryThatAPlanThereSaid) {
  const std::string file = folder_ / "plan.json";
  RunWithANote(absl::StrCat("plan char-gpt --layers 2 --dim 48 --heads 2 --vocab 256 --seq 16 ",
                            "--devices 2 --device cpu --memory 1GiB --dtype bf16 --schedule 1f1b ",
                            "--micro-batch-size 2 --micro-batches 4 --format json -o ", file));
  Json peaks = Json::array();  // [rank]; each has one stage
  const Json plan = Json::parse(std::ifstream(file));
  for (const Json& stage : plan["stages"]) peaks.push_back(stage["peak_bytes"]);
  const std::vector<Json> lines = Train("--steps 1 --eval-micro-batches 1 --no-pin --plan " + file);
  EXPECT_EQ(lines.at(0)["peak_bytes"], peaks);
  EXPECT_EQ(lines.at(0)["arena_bytes"], peaks);
}

TEST_F(ProcessorTest, WithoutBFloat16IsMeasuredInIt) {
  const std::string model = "char-gpt --layers 2 --dim 32 --heads 2 --seq 16 --dtype bf16 ";
  const std::string file = folder_ / "profile.json";
  RunWithANote(absl::StrCat("profile ", model, "--repetitions 1 -o ", file));
  const ProcessResult plan = RunOn(kNoBFloat16, absl::StrCat("plan ", file, " --devices 2"));
  EXPECT_EQ(plan.exit_code, kExitDone) << plan.err;
  EXPECT_EQ(plan.err, "") << "nothing is computed";
  RunWithANote(absl::StrCat("plan ", model, "--devices 2 --device cpu"));
}

TEST_F(ProcessorTest, WithoutBFloat16IsNotedOnlyWhereThatMatters) {
  const ProcessResult train = RunOn(
      kNoBFloat16, absl::StrCat("train --data ", folder_ / "text ", WithTinyRun("--steps 1")));
  EXPECT_EQ(train.exit_code, kExitDone);
  EXPECT_EQ(train.err, "");
}

TEST_F(ProcessorTest, DoctorSaysWhatBecomesOfBFloat16) {
  const ProcessResult text = RunOn(kNoBFloat16, "doctor");
  EXPECT_THAT(text.out, HasSubstr("not native: --dtype bf16 computes its products in fp32"));
  const Json found = Json::parse(RunOn(kNoBFloat16, "doctor --json").out);
  EXPECT_EQ(found["native_bf16"], false);
  const auto lacks = [](const Json& doctor) {
    return std::any_of(doctor["missing"].begin(), doctor["missing"].end(),
                       [](const Json& lack) { return lack["what"] == "fast bf16"; });
  };
  EXPECT_TRUE(lacks(found));
  // Intel's processors with AMX are slow without it; its only one with bf16 and no AMX is not.
  const std::string cpu = ReadBytes("/proc/cpuinfo");
  const bool slow =
      absl::StrContains(cpu, "GenuineIntel") && !absl::StrContains(cpu, "\nmodel\t\t: 85\n");
  const bool has_pairs = absl::StrContains(cpu, " avx512_bf16");
  const Json pairs = Json::parse(RunOn("AVX512_CORE_BF16", "doctor --json").out);
  EXPECT_EQ(pairs["native_bf16"], has_pairs && !slow);
  const Json here = Json::parse(RunOn(kThisOne, "doctor --json").out);
  EXPECT_NE(here["native_bf16"].get<bool>(), lacks(here));
}

}  // namespace
}  // namespace sluice
