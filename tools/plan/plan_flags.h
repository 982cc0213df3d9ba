#ifndef SLUICE_TOOLS_PLAN_PLAN_FLAGS_H_
#define SLUICE_TOOLS_PLAN_PLAN_FLAGS_H_

#include <optional>
#include <string>

#include "tools/train/adaptation_flags.h"
#include "tools/train/model_choice.h"

namespace CLI {
class App;
}

namespace sluice {

// `sluice plan` as it was typed; empty or nullopt where a flag was not given. Only ReadQuestion()
// reads it, and makes a question of it.
struct PlanFlags {
  ModelChoice model;
  AdaptationFlags adaptation;
  bool pack = false;
  int devices = 1;
  std::string attention, assume, device, memory, bandwidth, latency, cluster;
  std::string micro_batch_size;
  std::optional<int> micro_batches, global_batch, seq;
  std::string dtype, schedule = "auto", recompute = "auto", objective = "step", partition;
  std::optional<int> chunks;
  std::string data_parallel = "1", tensor_parallel = "1";
  std::string optimizer;  // usual: adamw, or as it was measured
  int zero = 0;
  bool sequence_parallel = false, overlap_sync = false, mirror = false;
  int audit = 0;
  std::string time_limit, gap;
  bool pareto = false, what_if = false;
  std::string format = "text", output;
  bool format_given = false;
  bool json = false;
  std::optional<int> width;          // of an SVG
  std::optional<std::string> title;  // of one; empty text: none
};

void AddPlanFlags(CLI::App& command, PlanFlags* flags);

}  // namespace sluice

#endif  // SLUICE_TOOLS_PLAN_PLAN_FLAGS_H_
