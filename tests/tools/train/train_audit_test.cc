// Runs of the program whose ranks audit each other (`--audit`).
#include <gmock/gmock.h>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "tests/tools/train/train_command.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

std::vector<std::string> Losses(const std::string& out) {
  std::vector<std::string> losses;
  for (const absl::string_view line : absl::StrSplit(out, '\n', absl::SkipEmpty())) {
    const Json json = Json::parse(line);
    if (json.contains("step")) losses.push_back(json["loss_hex"]);
  }
  return losses;
}

class TrainAuditTest : public TrainCommandTest {};

TEST_F(TrainAuditTest, ChangesNoBitAndSaysWhatItHasCost) {
  const ProcessResult plain = Run("--steps 7 --json");
  const ProcessResult audited = Run("--steps 7 --json --audit 3");
  ASSERT_EQ(audited.exit_code, kExitDone) << audited.err;
  EXPECT_EQ(Losses(audited.out).size(), 7U);
  EXPECT_EQ(Losses(audited.out), Losses(plain.out));
  const Json summary = LastLine(audited.out);
  EXPECT_EQ(summary["weights_hash"], LastLine(plain.out)["weights_hash"]);
  EXPECT_FALSE(LastLine(plain.out).contains("audits"));
  const Json& audits = summary["audits"];
  EXPECT_EQ(audits["audits"], 2);         // steps 3 and 6,
  EXPECT_EQ(audits["micro_batches"], 4);  // on both ranks
  EXPECT_GT(audits["seconds"], 0);
  EXPECT_GT(audits["share"], 0);
  EXPECT_LT(audits["share"], 1);
}

TEST_F(TrainAuditTest, IsPrintedForPeople) {
  const ProcessResult result = Run("--steps 7 --audit 3");
  EXPECT_EQ(result.exit_code, kExitDone) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("audits    2, 4 micro-batches computed again, all bits equal: "));
}

TEST_F(TrainAuditTest, IsPartOfTheMemoryThatIsPredicted) {
  const auto bytes = [this](const std::string& more) {
    const ProcessResult result = Run("--steps 1 --json " + more);
    const Json step = Json::parse(result.out.substr(0, result.out.find('\n')));
    EXPECT_EQ(step["peak_bytes"], step["arena_bytes"]);
    return step["arena_bytes"][0].get<int64_t>();
  };
  EXPECT_GT(bytes("--audit 1"), bytes(""));
}

TEST_F(TrainAuditTest, IsRefusedWhereItCannotBe) {
  for (const auto& [flags, why] : {
           std::pair{"--audit 5 --stages 1", "--audit 5: there is one rank"},
           std::pair{"--audit 5 --schedule pipedream", "changes the weights without a flush"},
           std::pair{"--audit -5", "--audit"},
       }) {
    const ProcessResult result = Run(flags);
    EXPECT_EQ(result.exit_code, kExitBadInput) << flags;
    EXPECT_THAT(result.err, HasSubstr(why)) << flags;
  }
}

}  // namespace
}  // namespace sluice
