#include "partitioner/bounds/step_model.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "partitioner/bounds/step_slots.h"

namespace sluice {
namespace {

int SlotOf(const Action& action) {
  const int first = 1 + action.stage * kSlotKinds;
  switch (action.op) {
    case Op::kForward:
      return first + kSlotForward;
    case Op::kBackward:
      return first + kSlotBackward;
    case Op::kInputGrad:
      return first + kSlotInputGrad;
    case Op::kWeightGrad:
      return first + kSlotWeightGrad;
    default:
      return 0;
  }
}

}  // namespace

// Numbers the actions in an order in which every input is made before it is used, by running the
// ranks' rows as far as they go, round after round.
class StepModel::Compiler {
 public:
  explicit Compiler(const Timetable& timetable)
      : timetable_(timetable),
        next_(timetable.rows.size()),
        last_(timetable.rows.size(), kNone),
        forward_(Pairs(), kNone),
        gradient_(Pairs(), kNone) {}

  absl::StatusOr<std::vector<Node>> Run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < next_.size(); ++rank) {
        while (Place(rank)) moved = true;
      }
    }
    for (size_t rank = 0; rank < next_.size(); ++rank) {
      if (next_[rank] < timetable_.rows[rank].size()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "timetable '", timetable_.name, "': rank ", rank, " waits for ever at position ",
            next_[rank], ", ", ToString(timetable_.rows[rank][next_[rank]])));
      }
    }
    return std::move(nodes_);
  }
  const std::vector<int32_t>& last() const { return last_; }

 private:
  size_t Pairs() const {
    return static_cast<size_t>(timetable_.placement.stages()) *
           static_cast<size_t>(timetable_.micro_batches);
  }
  size_t Pair(int stage, int micro_batch) const {
    return static_cast<size_t>(stage) * static_cast<size_t>(timetable_.micro_batches) +
           static_cast<size_t>(micro_batch);
  }

  // Adds what `action` waits for to `node`. False when that has no number yet.
  bool AddInput(const Action& action, int half, Node* node) const {
    int from = kNone, edge = kNone;
    if (action.op == Op::kForward && action.stage > 0) {
      from = action.stage - 1;
      edge = from;
    } else if ((action.op == Op::kBackward || action.op == Op::kInputGrad) &&
               action.stage + 1 < timetable_.placement.stages()) {
      from = action.stage + 1;
      edge = action.stage;
    }
    if (from == kNone) return true;
    const std::vector<int32_t>& made = action.op == Op::kForward ? forward_ : gradient_;
    node->data[half] = made[Pair(from, action.micro_batch)];
    const bool crosses = timetable_.placement.rank(from) != timetable_.placement.rank(action.stage);
    node->edge[half] = crosses ? edge : kNone;
    return node->data[half] != kNone;
  }

  void Finish(const Action& action, int32_t node) {
    if (action.op == Op::kForward) forward_[Pair(action.stage, action.micro_batch)] = node;
    if (action.op == Op::kBackward || action.op == Op::kInputGrad) {
      gradient_[Pair(action.stage, action.micro_batch)] = node;
    }
  }

  // Numbers the next action (or pair) of `rank`. False when it has to wait, or there is none.
  bool Place(size_t rank) {
    const std::vector<Action>& row = timetable_.rows[rank];
    if (next_[rank] >= row.size()) return false;
    const size_t first = next_[rank];
    const size_t count = row[first].overlaps_next && first + 1 < row.size() ? 2 : 1;
    Node node;
    node.previous = last_[rank];
    for (size_t half = 0; half < count; ++half) {
      if (!AddInput(row[first + half], static_cast<int>(half), &node)) return false;
      node.duration[half] = SlotOf(row[first + half]);
    }
    const int32_t number = static_cast<int32_t>(nodes_.size());
    nodes_.push_back(node);
    last_[rank] = number;
    for (size_t half = 0; half < count; ++half) Finish(row[first + half], number);
    next_[rank] += count;
    return true;
  }

  const Timetable& timetable_;
  std::vector<size_t> next_;                 // [rank] position of the first action without a number
  std::vector<int32_t> last_;                // [rank] node before it
  std::vector<int32_t> forward_, gradient_;  // [stage, micro-batch] node that makes it
  std::vector<Node> nodes_;
};

absl::StatusOr<StepModel> StepModel::Compile(const Timetable& timetable) {
  if (timetable.lowered()) {
    return absl::InvalidArgumentError("a step model is compiled from a timetable without sends");
  }
  Compiler compiler(timetable);
  absl::StatusOr<std::vector<Node>> nodes = compiler.Run();
  if (!nodes.ok()) return nodes.status();
  StepModel model;
  model.stages_ = timetable.placement.stages();
  model.nodes_ = *std::move(nodes);
  model.last_ = compiler.last();
  for (int rank = 0; rank < timetable.placement.ranks(); ++rank) {
    model.stages_of_.push_back(timetable.placement.StagesOf(rank));
  }
  model.slots_.resize(1 + static_cast<size_t>(model.stages_) * kSlotKinds);
  model.ends_.resize(model.nodes_.size());
  return model;
}

void StepModel::FillSlots(const StepCosts& costs) {
  for (int stage = 0; stage < stages_; ++stage) {
    double* slots = slots_.data() + 1 + static_cast<ptrdiff_t>(stage) * kSlotKinds;
    slots[kSlotForward] = costs.forward[stage];
    slots[kSlotBackward] = costs.input_grad[stage] + costs.weight_grad[stage];
    slots[kSlotInputGrad] = costs.input_grad[stage];
    slots[kSlotWeightGrad] = costs.weight_grad[stage];
  }
}

int StepModel::LastRank(const StepCosts& costs, double* seconds) const {
  int last = 0;
  *seconds = -1;
  for (size_t rank = 0; rank < last_.size(); ++rank) {
    double end = last_[rank] == kNone ? 0 : ends_[last_[rank]];
    for (int stage : stages_of_[rank]) end += costs.tail[stage];
    if (end <= *seconds) continue;
    *seconds = end;
    last = static_cast<int>(rank);
  }
  return last;
}

double StepModel::Makespan(const StepCosts& costs) {
  FillSlots(costs);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    double start = node.previous == kNone ? 0 : ends_[node.previous];
    for (int half = 0; half < 2; ++half) {
      if (node.data[half] == kNone) continue;
      const double latency = node.edge[half] == kNone ? 0 : costs.send[node.edge[half]];
      start = std::max(start, ends_[node.data[half]] + latency);
    }
    ends_[i] = start + (slots_[node.duration[0]] + slots_[node.duration[1]]);
  }
  double seconds = 0;
  LastRank(costs, &seconds);
  return seconds;
}

ChainCounts StepModel::CriticalChain(const StepCosts& costs) {
  ChainCounts chain;
  chain.stages.resize(stages_);
  if (nodes_.empty()) return chain;
  double seconds = Makespan(costs);
  const int rank = LastRank(costs, &seconds);
  for (int stage : stages_of_[rank]) chain.stages[stage].tail = 1;
  int32_t at = last_[rank];
  while (at != kNone) {
    const Node& node = nodes_[at];
    for (int slot : node.duration) CountSlot(slot, &chain);
    int32_t decided = node.previous;
    double latest = decided == kNone ? 0 : ends_[decided];
    int32_t edge = kNone;
    for (int half = 0; half < 2; ++half) {
      if (node.data[half] == kNone) continue;
      const double latency = node.edge[half] == kNone ? 0 : costs.send[node.edge[half]];
      const double arrival = ends_[node.data[half]] + latency;
      if (arrival < latest || (arrival == latest && decided != kNone)) continue;
      latest = arrival;
      decided = node.data[half];
      edge = node.edge[half];
    }
    if (edge != kNone) ++chain.stages[edge].send;
    at = decided;
  }
  return chain;
}

}  // namespace sluice
