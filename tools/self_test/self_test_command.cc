#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "models/spec/json_text.h"
#include "tools/command.h"
#include "tools/self_test/self_test.h"

namespace sluice {
namespace {

constexpr char kExample[] =
    "Trains a small GPT in several ways: stages, schedules, processes, GPUs. Where\n"
    "bits differ, the machine or this build computes wrongly, and the exit code is\n"
    "that of a lost device.\n"
    "Example:\n"
    "  sluice test";

void Print(const WayResult& result) {
  const std::string found =
      result.reference.empty()
          ? fmt::format("loss {:.7f}, weights {}", result.last_loss, result.weights_hash)
      : result.difference.empty() ? "the same bits"
                                  : "OTHER BITS: " + result.difference;
  fmt::print("{:<34}{:<43}{:.1f} s\n", result.way.name, found, result.seconds);
  std::fflush(stdout);
}

nlohmann::ordered_json ToJson(const WayResult& result) {
  nlohmann::ordered_json json = {{"name", result.way.name},
                                 {"losses_hex", result.losses},
                                 {"weights_hash", result.weights_hash},
                                 {"seconds", result.seconds}};
  if (result.reference.empty()) return json;
  json["compared_with"] = result.reference;
  json["same_bits"] = result.difference.empty();
  return json;
}

absl::Status RunSelfTest(bool json) {
  const std::vector<TrainingWay> ways = WaysOfThisMachine();
  const absl::StatusOr<std::vector<WayResult>> results =
      TrainInWays("/proc/self/exe", ways, [json](const WayResult& result) {
        if (!json) Print(result);
      });
  if (!results.ok()) return results.status();
  const auto wrong = std::find_if(results->begin(), results->end(), [](const WayResult& result) {
    return !result.difference.empty();
  });
  const bool same = wrong == results->end();
  if (json) {
    nlohmann::ordered_json document = {{"same_bits", same}};
    for (const WayResult& result : *results) document["runs"].push_back(ToJson(result));
    fmt::print("{}\n", JsonText(document, 2));
  } else if (same) {
    const bool gpu = ways.back().kind == "GPU";
    fmt::print("\nThe bits agree.{}\n", gpu ? "" : " There is no GPU that this build can use.");
  }
  if (same) return absl::OkStatus();
  return WithExitCode(
      absl::DataLossError(absl::StrCat(wrong->way.name, " and ", wrong->reference,
                                       " give other bits: ", wrong->difference,
                                       "; the machine, or this build, computes wrongly")),
      kExitPeerLost);
}

}  // namespace

void AddSelfTestCommand(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("test", "Train a little in several ways, and compare the bits");
  command->footer(kExample);
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print one JSON document instead");
  command->callback([json, exit_code] {
    const absl::Status status = RunSelfTest(*json);
    *exit_code = status.ok() ? kExitDone : Fail(status);
  });
}

}  // namespace sluice
