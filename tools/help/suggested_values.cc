#include "tools/help/suggested_values.h"

#include <utility>

#include "models/spec/presets.h"
#include "partitioner/costs/device.h"
#include "schedules/generators/catalogue.h"

namespace sluice {
namespace {

using Names = std::vector<std::string>;

// The catalogue's schedules, and `more`.
Names Schedules(Names more) {
  for (const CatalogueEntry& entry : Catalogue()) more.emplace_back(entry.name);
  return more;
}

Names Devices(Names more) {
  for (const absl::string_view name : BuiltInDeviceNames()) more.emplace_back(name);
  return more;
}

struct Row {
  const char* command;  // empty: any
  const char* option;
  SuggestedValues suggested;
};

std::vector<Row> Rows() {
  const SuggestedValues nothing = {{}, false};
  return {
      {"plan", "MODEL", {PresetNames(), true}},
      {"profile", "MODEL", {PresetNames(), true}},
      {"roofline", "MODEL", {PresetNames(), true}},
      {"train", "--model", {PresetNames(), true}},
      {"schedule list", "schedule", {Schedules({"auto"}), false}},
      {"schedule show", "schedule", {Schedules({"auto"}), true}},
      {"schedule show", "--against", {Schedules({}), true}},
      {"schedule compare", "schedules", {Schedules({}), true}},
      {"plan", "--schedule", {Schedules({"auto"}), false}},
      {"train", "--schedule", {Schedules({"auto"}), true}},
      {"plan", "--device", {Devices({"cpu"}), true}},
      {"calibrate", "--device", {Devices({}), true}},
      {"roofline", "--device", {Devices({}), true}},
      {"roofline", "--recompute", {{"none", "selective", "full"}, false}},
      {"train", "--device", {{"cpu", "cuda"}, false}},
      {"profile", "--device", {{"cpu", "cuda"}, false}},
      {"sample", "--device", {{"cpu", "cuda"}, false}},
      {"chat", "--device", {{"cpu", "cuda"}, false}},
      {"score", "--device", {{"cpu", "cuda"}, false}},
      {"train", "--transport", {{"inprocess", "mpi", "tcp", "nccl"}, false}},
      {"", "--dtype", {{"fp32", "bf16"}, false}},
      {"", "--base-dtype", {{"fp32", "bf16"}, false}},
      {"", "--optimizer", {{"adamw", "sgd"}, false}},
      {"plan", "--recompute", {{"auto", "none", "selective", "full"}, false}},
      {"plan", "--objective", {{"step", "bottleneck"}, false}},
      {"schedule show", "--chunks", {{"auto"}, false}},
      {"schedule compare", "--chunks", {{"auto"}, false}},
      {"train", "--zero", {{"0", "1", "2"}, false}},
      {"", "--data-parallel", {{"auto"}, false}},
      {"plan", "--tensor-parallel", {{"auto"}, false}},
      {"plan", "--micro-batch-size", {{"auto"}, false}},
      {"train", "--stages", {{"auto"}, false}},
      {"train", "--keep", {{"all"}, false}},
      // Texts that name no file.
      {"", "--cost", nothing},
      {"", "--time-limit", nothing},
      {"", "--stage-replicas", nothing},
      {"", "--memory", nothing},
      {"", "--bandwidth", nothing},
      {"", "--latency", nothing},
      {"", "--gap", nothing},
      {"", "--partition", nothing},
      {"", "--assume", nothing},
      {"", "--lora", nothing},
      {"", "--freeze", nothing},
      {"", "--timeout", nothing},
      {"", "--title", nothing},
      {"", "--trace-steps", nothing},
      {"", "--master-addr", nothing},
      {"", "--prompt", nothing},
      {"", "--tokens", nothing},
      {"", "--system", nothing},
  };
}

}  // namespace

SuggestedValues SuggestValues(absl::string_view command, absl::string_view option) {
  static const std::vector<Row> rows = Rows();
  for (const Row& row : rows) {
    const absl::string_view of = row.command;
    if (option == row.option && (of.empty() || of == command)) return row.suggested;
  }
  return {};
}

}  // namespace sluice
