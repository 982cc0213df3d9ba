#include "schedules/simulate/reference_run.h"

#include <algorithm>

namespace sluice {
namespace {

constexpr int32_t kNotYet = -1;

int32_t DurationOf(Op op) {
  if (op == Op::kBackward) return 2;
  return TakesTime(op) ? 1 : 0;
}

}  // namespace

ReferenceRun::ReferenceRun(const Timetable& timetable, const std::vector<StageLinks>& links)
    : table_(timetable),
      links_(links),
      cell_(timetable),
      activation_at_(cell_.size(), kNotYet),
      gradient_at_(cell_.size(), kNotYet),
      ranks_(timetable.rows.size()),
      starts_(timetable.rows.size()) {
  for (int rank = static_cast<int>(ranks_.size()) - 1; rank >= 0; --rank) {
    starts_[rank].reserve(timetable.rows[rank].size());
    queue_.push_back(rank);
  }
  while (!queue_.empty()) {
    const int rank = queue_.back();
    queue_.pop_back();
    Advance(rank);
  }
}

bool ReferenceRun::finished() const {
  for (size_t rank = 0; rank < starts_.size(); ++rank) {
    if (starts_[rank].size() < table_.rows[rank].size()) return false;
  }
  return true;
}

void ReferenceRun::Advance(int number) {
  const auto& row = table_.rows[number];
  auto& starts = starts_[number];
  Rank& rank = ranks_[number];
  while (starts.size() < row.size()) {
    const Action& action = row[starts.size()];
    const int32_t inputs = InputsAt(action, rank);
    if (inputs == kNotYet) return;
    int32_t start = std::max(rank.clock, inputs);
    if (!action.overlaps_next) {
      rank.clock = start + DurationOf(action.op);
      starts.push_back(start);
      Finish(action, rank.clock);
      continue;
    }
    const Action& partner = row[starts.size() + 1];
    const int32_t partner_inputs = InputsAt(partner, rank);
    if (partner_inputs == kNotYet) return;
    start = std::max(start, partner_inputs);
    rank.clock = start + DurationOf(action.op) + DurationOf(partner.op);
    starts.insert(starts.end(), 2, start);
    Finish(action, rank.clock);
    Finish(partner, rank.clock);
  }
}

int32_t ReferenceRun::InputsAt(const Action& action, Rank& rank) const {
  const bool forward = action.op == Op::kForward;
  if (!forward && !MakesInputGrad(action.op)) return 0;
  const StageLink& from = forward ? links_[action.stage].previous : links_[action.stage].next;
  if (from.stage == kNoStage) return 0;
  const size_t producer = cell_(from.stage, action.micro_batch);
  const int32_t made = (forward ? activation_at_ : gradient_at_)[producer];
  if (made == kNotYet) rank.waits_for = 2 * producer + (forward ? 0 : 1);
  return made;
}

void ReferenceRun::Finish(const Action& action, int32_t end) {
  const bool forward = action.op == Op::kForward;
  if (!forward && !MakesInputGrad(action.op)) return;
  const size_t cell = cell_(action);
  (forward ? activation_at_ : gradient_at_)[cell] = end;
  const StageLink& to = forward ? links_[action.stage].next : links_[action.stage].previous;
  if (to.stage == kNoStage) return;
  Rank& waiting = ranks_[to.rank];
  if (waiting.waits_for != 2 * cell + (forward ? 0 : 1)) return;
  waiting.waits_for = SIZE_MAX;
  queue_.push_back(to.rank);
}

}  // namespace sluice
