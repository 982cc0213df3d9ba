// Numbers that are none, wherever a flag takes one.
#include <map>
#include <utility>

#include "tests/tools/bad_input/bad_input.h"

namespace sluice {
namespace {

std::vector<BadInput> NumberInputs() {
  std::vector<BadInput> inputs;
  const auto add = [&inputs](const std::string& name, const std::string& arguments,
                             const std::string& flag, const std::string& value) {
    inputs.push_back(
        {name, absl::StrCat(arguments, " ", flag, " ", value), kExitBadInput, {flag, value}});
  };
  for (const auto& [flag, name] : std::map<std::string, std::string>{{"--lr", "Rate"},
                                                                     {"--weight-decay", "Decay"},
                                                                     {"--clip", "Clip"},
                                                                     {"--momentum", "Momentum"}}) {
    add(name + "Nan", With(""), flag, "nan");
    add(name + "Infinite", With(""), flag, "inf");
    add(name + "BeyondDoubles", With(""), flag, "1e999");
  }
  // Finite, but not when the optimizer converts them to float.
  add("RateBeyondFloats", With(""), "--lr", "1e39");
  add("DecayBeyondFloats", With(""), "--weight-decay", "1e300");
  for (const char* value : {"nan", "inf", "1e999"}) {
    const std::string name = value == std::string("1e999") ? "Huge" : value;
    add("Timeout" + name, With(""), "--timeout", value);
    add("Temperature" + name, "sample --load @/good", "--temperature", value);
    const std::string plan = "plan gpt2 --device h200 --devices 2";
    add("Gap" + name, plan, "--gap", value);
    add("Bandwidth" + name, plan, "--bandwidth", value);
    add("Latency" + name, plan, "--latency", value);
    add("Memory" + name, plan, "--memory", value);
    add("TimeLimit" + name, plan, "--time-limit", value);
    inputs.push_back({"Cost" + name,
                      absl::StrCat("schedule show 1f1b -p 2 -m 2 --cost F=", value),
                      kExitBadInput,
                      {"--cost", value}});
    add("SearchTime" + name, "schedule show auto -p 2 -m 2", "--time-limit", value);
  }
  // Seeds, which are whole numbers and not taken modulo 2^64.
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"Negative", "-1"},
                                          {"Large", "18446744073709551616"},
                                          {"Word", "one"},
                                          {"Half", "1.5"}}) {
    add("Seed" + name, With(""), "--seed", value);
    add("SampleSeed" + name, "sample --load @/good", "--seed", value);
  }
  // Whole, but more than 32 bits.
  for (const auto& [name, flag] :
       {std::pair("Stages", "--stages"), std::pair("DataParallel", "--data-parallel")}) {
    inputs.push_back({absl::StrCat("NoCount", name),
                      With(absl::StrCat(flag, " 4294967296")),
                      kExitBadInput,
                      {absl::StrCat(flag, " 4294967296: expected a whole number of at least 1")}});
  }
  for (const char* flag : {"--rank", "--layers"}) {
    inputs.push_back({absl::StrCat("Beyond32Bits", flag + 2),
                      With(absl::StrCat(flag, " 4294967296")),
                      kExitBadInput,
                      {absl::StrCat(flag, ": 4294967296 is not a number that this flag takes")}});
  }
  // Twice as many steps would be more than 32 bits, and no profile says more than 2^20.
  add("Repetitions", "profile mlp", "--repetitions", "1073741824");
  add("RepetitionsNobodyReads", "profile mlp", "--repetitions", "1048577");
  inputs.push_back({"SeedEmpty", With("--seed="), kExitBadInput, {"--seed"}});
  return inputs;
}

INSTANTIATE_TEST_SUITE_P(Numbers, BadInputTest, ::testing::ValuesIn(NumberInputs()), NameOf);

}  // namespace
}  // namespace sluice
