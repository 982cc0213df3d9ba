#include "tools/plan/graph_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "models/spec/units.h"
#include "schedules/counted.h"
#include "tools/plan/table_text.h"

namespace sluice {
namespace {

constexpr int kFixedColumns = 81;  // of a line, without the names of operations
constexpr int kLeastColumns = 12, kEnoughColumns = 17;
constexpr size_t kMostRejected = 6;

// "node4 node5 node10", as many as fit into the column, and how many more there are.
std::string NameNodes(const PlanContext& context, const std::vector<int>& nodes, size_t columns) {
  std::string text;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const std::string part = fmt::format("{}{}", i == 0 ? "" : " ", context.layer_names[nodes[i]]);
    const size_t left = nodes.size() - i;
    const std::string more = fmt::format("{}and {} more", i == 0 ? "" : " ", left);
    const bool last = left == 1;
    if (text.size() + part.size() + (last ? 0 : more.size()) > columns) return text + more;
    text += part;
  }
  return text;
}

// "3", or "0-7"; without a schedule the number of devices, since nothing says which.
std::string DevicesOf(const Plan& plan, const PlanStage& stage) {
  if (!plan.has_schedule()) return fmt::format("{}", stage.replicas);
  if (stage.replicas == 1) return fmt::format("{}", stage.rank);
  return fmt::format("{}-{}", stage.rank, stage.rank + stage.replicas - 1);
}

std::string Bytes(int64_t bytes) { return FormatBytes(static_cast<double>(bytes)); }

std::string FormatHead(const Plan& plan, const PlanContext& context) {
  std::string out = fmt::format("{} on {}", context.model, Counted(plan.devices, "device"));
  if (plan.has_schedule()) {
    out += fmt::format(": {}, {}", plan.description, Counted(plan.micro_batches, "micro-batch"));
  }
  out +=
      fmt::format("\n  {}, which can be cut in ", Counted(context.layer_names.size(), "operation"));
  if (plan.all_cuts) return out + fmt::format("{} ways\n\n", plan.cuts);
  return out + fmt::format("more ways than can be tried; {} were\n\n", plan.cuts);
}

std::string FormatStage(const Plan& plan, const PlanContext& context, size_t s, int columns) {
  const PlanStage& stage = plan.stages[s];
  const bool last = s + 1 == plan.stages.size();
  std::string line = fmt::format(
      "  {:>5} {:>7} {:>10} {:>9} {:>9} {:>10} {:>10} {:>10}  {}", s, DevicesOf(plan, stage),
      stage.layers.size(), AlignRight(FormatSeconds(stage.cost.forward), 9),
      AlignRight(FormatSeconds(stage.cost.backward()), 9), Bytes(stage.cost.parameter_bytes),
      last ? "" : Bytes(stage.cost.output_bytes), Bytes(plan.peak_bytes[stage.rank]),
      columns >= kEnoughColumns ? NameNodes(context, stage.layers, static_cast<size_t>(columns))
                                : "");
  while (line.back() == ' ') line.pop_back();
  return line + "\n";
}

std::string AtBest(const Plan& plan) {
  return fmt::format("  at best    {}, so at most {:.2f} % longer than need be\n",
                     FormatSeconds(plan.lower_bound), 100 * plan.gap());
}

std::string FormatProof(const Plan& plan) {
  if (!plan.has_schedule()) {
    const std::string bottleneck =
        fmt::format("\n  bottleneck {} per micro-batch\n", FormatSeconds(plan.bottleneck_seconds));
    return bottleneck + (plan.optimal ? "  optimal    proved over every cut\n" : AtBest(plan));
  }
  const std::string step = fmt::format("\n  step       {}, bubble {:.1f} %\n",
                                       FormatSeconds(plan.step_seconds), 100 * plan.bubble);
  if (plan.optimal) return step + "  optimal    proved over every cut and the schedules tried\n";
  return step + AtBest(plan);
}

}  // namespace

std::string FormatGraphTable(const Plan& plan, const PlanContext& context, int columns) {
  std::string out = FormatHead(plan, context);
  out += "  stage devices operations   forward  backward parameters      sends       peak\n";
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    out += FormatStage(plan, context, s, std::max(kLeastColumns, columns - kFixedColumns));
  }
  out += FormatProof(plan);
  if (plan.rejected.empty()) return out;
  return out + "\n  not chosen\n" + FormatRejected(plan.rejected, kMostRejected, columns);
}

}  // namespace sluice
