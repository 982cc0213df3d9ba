#include "schedules/sum_order.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/strings/str_join.h"
#include "schedules/dependency.h"

namespace sluice {
namespace {

// The micro-batches whose weight gradients the row of stage 0 makes, in its order; empty where they
// are not each of the table's micro-batches once, and where they ascend.
std::vector<int> OrderOfFirstStage(const Timetable& table) {
  const auto rank = static_cast<size_t>(table.placement.rank(0));
  if (rank >= table.rows.size()) return {};
  std::vector<int> order;
  for (const Action& action : table.rows[rank]) {
    if (action.stage == 0 && MakesWeightGrad(action.op)) order.push_back(action.micro_batch);
  }
  if (std::is_sorted(order.begin(), order.end())) return {};
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  const auto count = static_cast<size_t>(std::max(table.micro_batches, 0));
  if (sorted.size() != count) return {};
  for (size_t i = 0; i < count; ++i) {
    if (sorted[i] != static_cast<int>(i)) return {};
  }
  return order;
}

// Whether every stage makes its weight gradients in this order.
bool AllStagesHave(const std::vector<int>& order, const Timetable& table) {
  std::vector<size_t> made(static_cast<size_t>(table.placement.stages()), 0);
  for (const std::vector<Action>& row : table.rows) {
    for (const Action& action : row) {
      if (!MakesWeightGrad(action.op)) continue;
      if (action.stage >= made.size()) return false;
      size_t& next = made[action.stage];
      if (next == order.size() || order[next] != action.micro_batch) return false;
      ++next;
    }
  }
  return std::all_of(made.begin(), made.end(), [&](size_t count) { return count == order.size(); });
}

}  // namespace

SumOrder SumOrder::Of(const Timetable& timetable) {
  SumOrder result;
  if (timetable.placement.copies() > 1 || timetable.updates != WeightUpdates::kFlush) {
    return result;
  }
  std::vector<int> order = OrderOfFirstStage(timetable);
  if (order.empty() || !AllStagesHave(order, timetable)) return result;
  result.positions_.resize(order.size());
  for (size_t position = 0; position < order.size(); ++position) {
    result.positions_[static_cast<size_t>(order[position])] = static_cast<int>(position);
  }
  result.micro_batches_ = std::move(order);
  return result;
}

std::string SumOrder::ToString() const {
  if (ascending()) return "ascending";
  if (std::is_sorted(micro_batches_.begin(), micro_batches_.end(), std::greater<>())) {
    return "descending";
  }
  return absl::StrJoin(micro_batches_, ",");
}

}  // namespace sluice
