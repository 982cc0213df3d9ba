#include "tools/train/train_flags.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>

namespace sluice {
namespace {

// Whether ranks are kept on cores of their own, given these flags and this OMP_PROC_BIND.
bool Pins(const std::string& flags, const char* bind) {
  if (bind == nullptr) {
    unsetenv("OMP_PROC_BIND");
  } else {
    setenv("OMP_PROC_BIND", bind, /*replace=*/1);
  }
  CLI::App command;
  TrainFlags parsed;
  AddTrainFlags(command, &parsed);
  command.parse("--data text " + flags);
  const absl::StatusOr<TrainQuestion> question = QuestionOf(parsed);
  EXPECT_TRUE(question.ok()) << question.status();
  return question.ok() && question->options.running.pin_threads;
}

TEST(TrainFlags, RanksArePinnedUnlessOpenMpMayMoveItsThreads) {
  for (const char* bind : {"true", "close", "spread", "", "falsely"}) {
    EXPECT_TRUE(Pins("", bind)) << bind;
  }
  EXPECT_TRUE(Pins("", nullptr));
  for (const char* bind : {"false", "FALSE", " false "}) {
    EXPECT_FALSE(Pins("", bind)) << bind;
    EXPECT_TRUE(Pins("--pin", bind)) << bind;
  }
  for (const char* bind : {"true", "false"}) EXPECT_FALSE(Pins("--no-pin", bind)) << bind;
}

}  // namespace
}  // namespace sluice
