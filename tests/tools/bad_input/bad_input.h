#ifndef SLUICE_TESTS_TOOLS_BAD_INPUT_BAD_INPUT_H_
#define SLUICE_TESTS_TOOLS_BAD_INPUT_BAD_INPUT_H_

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/tools/sluice_process.h"
#include "tests/tools/tiny_run.h"
#include "tools/command.h"

namespace sluice {

// What is given, and what must come of it: one line on stderr that has all words of `says`, and the
// exit code.
struct BadInput {
  std::string name;
  std::string arguments;  // @ stands for the folder with the files of BadInputTest
  int exit_code = kExitBadInput;
  std::vector<std::string> says = {};

  friend std::ostream& operator<<(std::ostream& out, const BadInput& input) {
    return out << input.arguments;
  }
};

inline std::string NameOf(const ::testing::TestParamInfo<BadInput>& info) {
  return info.param.name;
}

// Starts `sluice` once per input. A list of inputs joins by INSTANTIATE_TEST_SUITE_P.
class BadInputTest : public ::testing::TestWithParam<BadInput> {
 protected:
  // Good and bad files for the runs.
  static void SetUpTestSuite();
  static void TearDownTestSuite();

  static TempFolder* folder_;
};

// `sluice train` with the smallest run, but for the flags in `more`.
inline std::string With(const std::string& more) {
  return absl::StrCat("train --data @/text ", WithTinyRun(more));
}

}  // namespace sluice

#endif  // SLUICE_TESTS_TOOLS_BAD_INPUT_BAD_INPUT_H_
