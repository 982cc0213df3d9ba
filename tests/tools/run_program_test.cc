#include "tools/run_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/status/status.h"
#include "tools/command.h"

namespace sluice {
namespace {

using testing::HasSubstr;

ProgramCall Shell(const char* script) {
  return {.program = "/bin/sh", .arguments = {"-c", script}};
}

TEST(RunProgram, ReadsAndPrintsAndEnds) {
  ProgramCall call = Shell("cat; echo wrong >&2; exit 7");
  call.input = std::string("a\0b\n", 4) + std::string(1 << 20, 'x');  // more than a pipe holds
  const absl::StatusOr<EndedProgram> ended = RunProgram(call);
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->exit_code, 7);
  EXPECT_EQ(ended->output, call.input);
  EXPECT_EQ(ended->errors, "wrong\n");
}

TEST(RunProgram, SaysThatASignalHasEndedIt) {
  const absl::StatusOr<EndedProgram> ended = RunProgram(Shell("kill -9 $$"));
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->exit_code, kExitPeerLost);
}

TEST(RunProgram, SaysThatItCannotBeStarted) {
  const absl::Status status = RunProgram({.program = "/no/such", .arguments = {}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("/no/such: No such file"));
}

// A program that never ends is killed: else this test does not end.
TEST(RunProgram, WaitsNoLongerThanItsCallerWants) {
  ProgramCall call = Shell("while :; do sleep 1; done");
  call.patience = absl::Milliseconds(50);
  const absl::Status status = RunProgram(call).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("/bin/sh took longer than 50ms"));
  call = Shell("exit 3");
  call.patience = absl::Hours(1);
  EXPECT_EQ(RunProgram(call)->exit_code, 3);
}

}  // namespace
}  // namespace sluice
