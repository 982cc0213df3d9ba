// Commands and flags that there are not, or that do not go together.
#include "tests/tools/bad_input/bad_input.h"

namespace sluice {
namespace {

std::vector<BadInput> UsageInputs() {
  return {
      {"NoCommand",
       "",
       kExitBadInput,
       {"'sluice' needs a command; there are: schedule, plan, ", "'sluice --help'"}},
      {"UnknownCommand",
       "trian",
       kExitBadInput,
       {"'trian' is no command", "did you mean 'train'?", "there are: train, ", "calibrate"}},
      {"UnknownCommandWithFlags",
       "samle --load @/good",
       kExitBadInput,
       {"'samle' is no command", "did you mean 'sample'?"}},
      {"UnknownScheduleCommand",
       "schedule shwo 1f1b -p 2 -m 2",
       kExitBadInput,
       {"'shwo' is no command", "did you mean 'show'?", "there are: show, ",
        "'sluice schedule --help'"}},
      {"NoScheduleCommand",
       "schedule",
       kExitBadInput,
       {"'sluice schedule' needs a command; there are: list, show, compare, check",
        "'sluice schedule --help'"}},
      {"NoData", "train", kExitBadInput, {"--data"}},
      {"UnknownFlag",
       With("--step 3"),
       kExitBadInput,
       {"--step is no flag of 'sluice train'; did you mean --steps?"}},
      // Rather than what the mistyped flag leaves missing.
      {"MistypedRequiredFlag",
       "train --dta @/good",
       kExitBadInput,
       {"--dta is no flag of 'sluice train'; did you mean --data?", "'sluice train --help'"}},
      {"NotANumber", With("--lr fast"), kExitBadInput, {"--lr: fast is no number"}},
      {"MegatronAndJson",
       "plan gpt2 --device h200 --devices 2 --format megatron --json",
       kExitBadInput,
       {"--json is short for --format json", "--format megatron"}},
      {"PictureAndJson",
       "schedule show 1f1b -p 2 -m 2 --format svg --json",
       kExitBadInput,
       {"--json is short for --format json", "--format svg"}},
      {"CalibrateNothing", "calibrate @/empty", kExitBadInput, {"@/empty: is empty", "params_b"}},
      {"CalibrateBlankLines",
       "calibrate @/blank",
       kExitBadInput,
       {"@/blank: is empty", "params_b"}},
  };
}

INSTANTIATE_TEST_SUITE_P(Usage, BadInputTest, ::testing::ValuesIn(UsageInputs()), NameOf);

}  // namespace
}  // namespace sluice
