#include "tools/train/train_flags.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "tools/train/settings/settings_flags.h"

namespace sluice {
namespace {

void Set(const char* variable, const char* value) {
  if (value == nullptr) {
    unsetenv(variable);
  } else {
    setenv(variable, value, /*replace=*/1);
  }
}

// Whether ranks are kept on cores of their own, given these flags and this OMP_PROC_BIND.
bool Pins(const std::string& flags, const char* bind) {
  const char* const set = std::getenv("OMP_PROC_BIND");
  const std::string before = set == nullptr ? "" : set;
  Set("OMP_PROC_BIND", bind);
  const absl::Cleanup restore = [&] {
    Set("OMP_PROC_BIND", set == nullptr ? nullptr : before.c_str());
  };
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

// So that the run can be resumed from another folder.
TEST(TrainFlags, PathsAreKeptWhole) {
  CLI::App command;
  TrainFlags parsed;
  AddTrainFlags(command, &parsed);
  command.parse("--data text --algorithms tuned.json");
  const std::string text = SettingsText(command);
  const std::string folder = std::filesystem::current_path().string();
  EXPECT_NE(text.find("data = \"" + folder + "/text\"\n"), std::string::npos) << text;
  EXPECT_NE(text.find("algorithms = \"" + folder + "/tuned.json\"\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace sluice
