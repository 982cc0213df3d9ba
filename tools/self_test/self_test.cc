#include "tools/self_test/self_test.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "models/device/cuda_device.h"
#include "models/spec/json.h"
#include "schedules/counted.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/memory_file.h"
#include "tools/run_program.h"

namespace sluice {
namespace {

constexpr char kTraining[] =
    "--json --model char-gpt --layers 4 --dim 64 --heads 4 --seq 64 --micro-batch-size 2 "
    "--micro-batches 4 --steps 8 --eval-micro-batches 1 --no-pin --timeout 20s";

std::vector<std::string> Words(absl::string_view text) {
  return absl::StrSplit(text, ' ', absl::SkipEmpty());
}

// What is read of it is as good as any text.
std::string Text() {
  std::string text;
  for (int day = 1; day <= 400; ++day) {
    absl::StrAppend(&text, day, " And the evening and the morning were day ", day * day, ".\n");
  }
  return text;
}

// The last of its messages, without who says it.
std::string Said(const std::string& errors) {
  std::vector<std::string> lines = absl::StrSplit(errors, '\n', absl::SkipEmpty());
  if (lines.empty()) return "it printed no message";
  constexpr absl::string_view kWho = "sluice: ";
  absl::string_view last = lines.back();
  if (last.substr(0, kWho.size()) == kWho) last.remove_prefix(kWho.size());
  return std::string(last);
}

void TakeOutput(const std::string& output, WayResult* result) {
  for (const absl::string_view line : absl::StrSplit(output, '\n', absl::SkipEmpty())) {
    const absl::StatusOr<nlohmann::json> parsed = ParseJson(line);
    if (!parsed.ok() || !parsed->is_object()) continue;
    const nlohmann::json& json = *parsed;
    if (json.contains("loss_hex")) {
      result->losses.push_back(json["loss_hex"].get<std::string>());
      result->last_loss = json.value("loss", 0.0);
    }
    if (json.contains("weights_hash")) result->weights_hash = json["weights_hash"];
  }
}

absl::StatusOr<WayResult> TrainInWay(const std::string& program, const TrainingWay& way,
                                     const std::string& data) {
  std::vector<std::string> arguments = way.arguments;
  for (const std::string& word : Words(absl::StrCat(kTraining, " --data ", data)))
    arguments.push_back(word);
  WayResult result;
  result.way = way;
  const auto start = std::chrono::steady_clock::now();
  const absl::StatusOr<EndedProgram> ended =
      RunProgram({.program = program, .arguments = std::move(arguments)});
  if (!ended.ok()) return ended.status();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (ended->exit_code != kExitDone) {
    return WithExitCode(
        absl::InternalError(absl::StrCat(way.name, " failed: ", Said(ended->errors))),
        static_cast<ExitCode>(ended->exit_code));
  }
  TakeOutput(ended->output, &result);
  if (!result.losses.empty() && !result.weights_hash.empty()) return result;
  return absl::InternalError(absl::StrCat(way.name, " printed no losses or no weights_hash"));
}

}  // namespace

std::vector<TrainingWay> WaysOfThisMachine() {
  constexpr char kHere[] = "train --transport inprocess ";
  const auto on_processor = [&](const char* name, const char* flags) {
    return TrainingWay{name, "processor", Words(absl::StrCat(kHere, flags))};
  };
  std::vector<TrainingWay> ways = {
      on_processor("1 stage", "--stages 1"),
      on_processor("2 stages, 1f1b", "--stages 2"),
      on_processor("2 stages, zb-h1", "--stages 2 --schedule zb-h1"),
      on_processor("2 ranks of 2 stages, interleaved",
                   "--stages 2 --chunks 2 --schedule interleaved"),
      {"2 processes over TCP", "processor", Words("launch --processes 2 -- train --stages 2")}};
  if (CudaDeviceCount() == 0) return ways;
  for (const char* stages : {"1", "2"}) {
    ways.push_back({absl::StrCat("GPU, ", stages, stages[0] == '1' ? " stage" : " stages"), "GPU",
                    Words(absl::StrCat(kHere, "--device cuda --stages ", stages))});
  }
  return ways;
}

std::string FirstDifference(const WayResult& first, const WayResult& other) {
  const size_t steps = std::min(first.losses.size(), other.losses.size());
  for (size_t step = 0; step < steps; ++step) {
    if (first.losses[step] == other.losses[step]) continue;
    return absl::StrCat("the loss of step ", step + 1, " is ", other.losses[step], " instead of ",
                        first.losses[step]);
  }
  if (first.losses.size() != other.losses.size()) {
    return absl::StrCat(Counted(other.losses.size(), "step"), " instead of ", first.losses.size());
  }
  if (first.weights_hash == other.weights_hash) return "";
  return absl::StrCat("the weights are ", other.weights_hash, " instead of ", first.weights_hash);
}

absl::StatusOr<std::vector<WayResult>> TrainInWays(
    const std::string& program, const std::vector<TrainingWay>& ways,
    const std::function<void(const WayResult&)>& done) {
  const MemoryFile data;
  if (!data.status().ok()) return data.status();
  if (absl::Status status = WriteAll(data.fd(), Text(), "the text to train on"); !status.ok())
    return status;
  std::vector<WayResult> results;
  for (const TrainingWay& way : ways) {
    absl::StatusOr<WayResult> result = TrainInWay(program, way, data.path());
    if (!result.ok()) return result.status();
    const auto first = std::find_if(results.begin(), results.end(), [&](const WayResult& other) {
      return other.way.kind == way.kind;
    });
    if (first != results.end()) {
      result->reference = first->way.name;
      result->difference = FirstDifference(*first, *result);
    }
    done(*result);
    results.push_back(*std::move(result));
  }
  return results;
}

}  // namespace sluice
