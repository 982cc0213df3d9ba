#include "schedules/generators/recompute_ahead.h"

#include <cstddef>

#include "schedules/dependency.h"
#include "schedules/recomputed.h"

namespace sluice {
namespace {

// Appends to `row`, which continues with `backward`, a RECOMPUTE for it: not between the halves of
// a pair, and before the receives that the backward waits for.
void Rebuild(const Action& backward, std::vector<Action>& row) {
  size_t at = row.size();
  if (at > 0 && row[at - 1].overlaps_next) --at;
  while (at > 0 && row[at - 1].op == Op::kRecvBackward) --at;
  Action action = backward;
  action.overlaps_next = false;
  action.op = Op::kForward;
  const bool still_there = at > 0 && row[at - 1] == action;
  action.op = Op::kRecompute;
  if (!still_there) row.insert(row.begin() + static_cast<std::ptrdiff_t>(at), action);
}

}  // namespace

Timetable RecomputeAhead(const Timetable& table, const std::vector<bool>& stages) {
  Timetable ahead = table;
  for (size_t rank = 0; rank < table.rows.size(); ++rank) {
    const Recomputed rebuilt = RecomputedIn(table.rows[rank]);
    std::vector<Action>& row = ahead.rows[rank];
    row.clear();
    for (const Action& action : table.rows[rank]) {
      const auto of_model = static_cast<size_t>(table.placement.model_stage(action.stage));
      if (MakesInputGrad(action.op) && (stages.empty() || stages[of_model]) &&
          rebuilt.count({action.stage, action.micro_batch}) == 0) {
        Rebuild(action, row);
      }
      row.push_back(action);
    }
  }
  return ahead;
}

}  // namespace sluice
