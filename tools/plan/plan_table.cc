#include "tools/plan/plan_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "models/spec/units.h"
#include "tools/plan/graph_table.h"
#include "tools/plan/layer_table.h"
#include "tools/plan/table_text.h"
#include "tools/terminal.h"

namespace sluice {
namespace {

// The times and memory of the `variants` of `plan`, under `title`; empty without variants.
std::string FormatVariants(const char* title, const std::vector<PlanVariant>& variants,
                           const Plan& plan, int columns) {
  if (variants.empty()) return "";
  std::string out = fmt::format("\n  {}\n", title);
  size_t width = 0;
  for (const PlanVariant& variant : variants) width = std::max(width, variant.what.size());
  for (const PlanVariant& variant : variants) {
    std::string line = fmt::format("    {:<{}}  ", variant.what, width);
    if (variant.why.empty()) {
      const double change = variant.seconds / plan.objective_seconds() - 1;
      line += fmt::format("{} {:>+7.1f} %  {:>9}  ", AlignRight(FormatSeconds(variant.seconds), 10),
                          100 * change, FormatBytes(static_cast<double>(variant.bytes)));
    }
    out += RowWithText(line, variant.why.empty() ? variant.description : variant.why, columns);
  }
  return out;
}

}  // namespace

std::string FormatPlanTable(const PlanAnswer& answer, int columns, bool colour) {
  if (answer.context.graph) return FormatGraphTable(answer.plan, answer.context, columns);
  std::string table = FormatLayerTable(answer, columns, colour);
  const PlanVariants& variants = answer.variants;
  if (variants.pareto) {
    table += FormatVariants("fastest for its memory", *variants.pareto, answer.plan, columns);
  }
  if (variants.what_if) table += FormatVariants("what if", *variants.what_if, answer.plan, columns);
  return table;
}

}  // namespace sluice
