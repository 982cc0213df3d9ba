// Which actions may come next, and what they change.
#include <algorithm>
#include <utility>

#include "schedules/optimise/exact/prefix.h"

namespace sluice::optimise {

// Whether there is room for the next F of `stage`, now and for what has to get through after it.
bool Prefix::Allowed(int stage) const {
  const int rank = rank_of_[stage];
  const int f = forwards_[stage];
  for (const Relaxation::Room& room : relaxation_.rooms()[stage]) {
    if (gradients_[room.of] <= f - room.to_gradient) return false;
    if (weights_[room.of] <= f - room.to_weight) return false;
  }
  for (const MemoryRule& rule : problem_.memory) {
    double held = rule.held[stage];
    for (int s : problem_.stages_of[rank]) {
      held += rule.held[s] * (forwards_[s] - gradients_[s]);
      held += rule.kept[s] * (gradients_[s] - weights_[s]);
    }
    if (held > rule.limit[rank] * (1 + kSlack)) return false;
  }
  return true;
}

void Prefix::FindOptions() {
  const Problem& p = problem_;
  options_.clear();
  for (int s = 0; s < p.stages; ++s) {
    const auto add = [&](Op op, double start) {
      const Step step{op, static_cast<uint16_t>(s)};
      options_.push_back({step, rank_of_[s], start, start + p.duration(step)});
    };
    const int f = forwards_[s];
    const int i = gradients_[s];
    const int w = weights_[s];
    const bool has_input = s == 0 || forwards_[s - 1] > f;
    if (f < p.micro_batches && has_input && !put_off_[s] && Allowed(s)) {
      add(Op::kForward, heads_.forward[p.cell(s, f)]);
    }
    if (i < f && (s + 1 == p.stages || gradients_[s + 1] > i)) {
      add(Op::kInputGrad, heads_.gradient[p.cell(s, i)]);
      if (p.fuses(s) && (w == i || p.sums_in_any_order))
        add(Op::kBackward, heads_.gradient[p.cell(s, i)]);
    }
    // Of equal W, it does not matter which comes first.
    const int same = same_weights_[s];
    const bool other_first = same >= 0 && weights_[same] < gradients_[same];
    if (w < i && !other_first) add(Op::kWeightGrad, heads_.weight[p.cell(s, w)]);
  }
}

void Prefix::FindBranches(std::vector<Option>* branches, int* put_off) {
  FindOptions();
  branches->clear();
  *put_off = -1;
  const auto first =
      std::min_element(options_.begin(), options_.end(), [](const Option& a, const Option& b) {
        return a.end < b.end || (a.end == b.end && a.start < b.start);
      });
  if (first == options_.end()) return;
  for (const Option& option : options_) {
    const bool competes = option.rank == first->rank && option.start < first->end;
    if (competes || &option == &*first) branches->push_back(option);
  }
  if (!may_put_off_ || first->step.op != Op::kForward) return;
  const int stage = first->step.stage;
  for (int s : problem_.stages_of[first->rank]) {
    // A later stage must be behind to have anything to run before this F.
    const int most = s < stage ? problem_.micro_batches : forwards_[stage];
    if (s != stage && forwards_[s] < most) *put_off = stage;
  }
}

bool Prefix::PutOff(int stage) {
  const size_t cell = problem_.cell(stage, forwards_[stage]);
  const int rank = rank_of_[stage];
  free_[rank] = heads_.forward[cell] + problem_.forward[stage];
  put_off_[stage] = 1;
  if (!FindHeads()) return false;
  std::swap(heads_, grown_);
  bounds_[rank] = RankBound(rank, heads_);
  return bounds_[rank] < limit_;
}

void Prefix::Grow(const Option& option) {
  option_ = option;
  free_before_ = free_[option.rank];
  put_off_before_ = put_off_;
  const int s = option.step.stage;
  free_[option.rank] = option.end;
  if (option.step.op == Op::kForward) {
    for (int other : problem_.stages_of[option.rank]) put_off_[other] = 0;
    const int k = forwards_[s]++;
    if (s + 1 < problem_.stages) {
      forward_input_[problem_.cell(s + 1, k)] = option.end + problem_.hop[s];
    } else {
      gradient_input_[problem_.cell(s, k)] = option.end + problem_.turn;
    }
    return;
  }
  if (RunsInputGrad(option.step.op)) {
    const int k = gradients_[s]++;
    if (s > 0) gradient_input_[problem_.cell(s - 1, k)] = option.end + problem_.way_back[s - 1];
  }
  if (RunsWeightGrad(option.step.op)) ++weights_[s];
}

void Prefix::Shrink() {
  free_[option_.rank] = free_before_;
  std::swap(put_off_, put_off_before_);
  const auto [op, stage] = option_.step;
  if (op == Op::kForward) --forwards_[stage];
  if (RunsInputGrad(op)) --gradients_[stage];
  if (RunsWeightGrad(op)) --weights_[stage];
}

}  // namespace sluice::optimise
