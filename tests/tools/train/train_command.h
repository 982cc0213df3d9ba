#ifndef SLUICE_TESTS_TOOLS_TRAIN_TRAIN_COMMAND_H_
#define SLUICE_TESTS_TOOLS_TRAIN_TRAIN_COMMAND_H_

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/tools/sluice_process.h"
#include "tests/tools/tiny_run.h"
#include "tools/command.h"

namespace sluice {

// `err` without the note of a processor that has no fast bf16 arithmetic, as this one may be.
inline std::string WithoutProcessorNote(std::string err) {
  if (absl::StartsWith(err, "sluice: note: this processor has no fast bf16 arithmetic")) {
    err.erase(0, err.find('\n') + 1);
  }
  return err;
}

// A tokenizer that writes A as 0, n as 1 and d as 2, and has no other words.
inline constexpr char kThreeWords[] =
    R"({"added_tokens":[],"normalizer":null,"pre_tokenizer":null,"post_processor":null,)"
    R"("decoder":{"type":"Fuse"},"model":{"type":"BPE","dropout":null,"unk_token":null,)"
    R"("continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,)"
    R"("byte_fallback":false,"vocab":{"A":0,"n":1,"d":2},"merges":[]}})";

// Whole runs of `sluice train` with the smallest model, in a folder of their own.
class TrainCommandTest : public ::testing::Test {
 protected:
  void SetUp() override { WriteText(folder_ / "text"); }

  std::vector<std::string> Arguments(const std::string& more) const {
    return Words(absl::StrCat("train --data ", folder_ / "text", " ", WithTinyRun(more)));
  }
  ProcessResult Run(const std::string& more, int file_limit_kib = 0) const {
    return RunSluice(Arguments(more), file_limit_kib);
  }
  // Runs to a normal end; returns the summary.
  nlohmann::json Summary(const std::string& more) const {
    const ProcessResult result = Run(absl::StrCat(more, " --json"));
    EXPECT_EQ(result.exit_code, kExitDone) << result.err;
    EXPECT_EQ(WithoutProcessorNote(result.err), "");
    return LastLine(result.out);
  }

  TempFolder folder_;
};

}  // namespace sluice

#endif  // SLUICE_TESTS_TOOLS_TRAIN_TRAIN_COMMAND_H_
