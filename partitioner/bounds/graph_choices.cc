#include "partitioner/bounds/graph_choices.h"

#include <algorithm>

#include "partitioner/bounds/stage_bound.h"

namespace sluice {
namespace {

// StageBound of every choice.
class ChoiceBounds {
 public:
  explicit ChoiceBounds(const GraphStepProblem& problem)
      : work_(*problem.work),
        micro_batches_(problem.timetable->micro_batches),
        splits_(problem.timetable->splits_backward()) {}

  double Seconds(int from, const GraphChoice& choice) const {
    const double input_grad = splits_ ? 0.5 : 1;  // the share of the backward that others wait for
    return StageBound({.in = work_.forward[from],
                       .chained = micro_batches_ * (choice.forward + input_grad * choice.backward),
                       .weights = micro_batches_ * (1 - input_grad) * choice.backward,
                       .out = input_grad * work_.backward[from]},
                      splits_);
  }

 private:
  const GraphWork& work_;
  int micro_batches_;
  bool splits_;
};

}  // namespace

ListedChoices GraphChoices::Build(const GraphStepProblem& problem, const GraphLengths& lengths,
                                  const ChainMean& chain, double cutoff, int64_t most) {
  const int stages = problem.stages();
  sets_.clear();
  std::vector<int> cuts;
  for (int boundary = 0; boundary <= stages; ++boundary) {
    sets_.push_back(lengths.AliveAt(boundary));
    cuts.push_back(static_cast<int>(sets_.back().size()));
    if (cuts.back() == 0) return ListedChoices::kNone;
  }
  Reset(cuts);
  int64_t pairs = 0;
  for (int stage = 0; stage < stages; ++stage) pairs += int64_t{cuts[stage]} * cuts[stage + 1];
  constexpr int64_t kLooks = 20;  // quicker than keeping one
  if (pairs > kLooks * most) return ListedChoices::kTooMany;
  for (int stage = 0; stage < stages; ++stage) {
    if (!AddStage(problem, lengths, chain, stage, cutoff, most)) return ListedChoices::kTooMany;
  }
  Index();
  return DropDeadEnds() ? ListedChoices::kAll : ListedChoices::kNone;
}

bool GraphChoices::AddStage(const GraphStepProblem& problem, const GraphLengths& lengths,
                            const ChainMean& chain, int stage, double cutoff, int64_t most) {
  const GraphWork& work = *problem.work;
  const ChoiceBounds bounds(problem);
  const Link link = problem.LinkAfter(stage);
  const std::vector<int>& ends = sets_[stage + 1];
  for (size_t i = 0; i < sets_[stage].size(); ++i) {
    const int from = sets_[stage][i];
    const auto first = std::upper_bound(ends.begin(), ends.end(), from);
    for (auto end = first; end != ends.end(); ++end) {
      const int to = *end;
      GraphChoice choice;
      choice.from = static_cast<int32_t>(i);
      choice.to = static_cast<int32_t>(end - ends.begin());
      choice.forward = work.forward[to] - work.forward[from];
      choice.backward = work.backward[to] - work.backward[from];
      choice.send = link.Seconds(work.sets.cut_bytes(to));
      choice.bound = std::max(bounds.Seconds(from, choice),
                              lengths.from(stage, from) + choice.Seconds(chain.stages[stage]) +
                                  lengths.to(stage + 1, to));
      if (!(choice.bound < cutoff) || !work.sets.Inside(from, to)) continue;
      if (!problem.StageFits(stage, from, to)) continue;
      Add(stage, choice);
    }
    if (count() > most) return false;
  }
  return true;
}

GraphCuts GraphChoices::CutsOf(const std::vector<GraphChoice>& path) const {
  GraphCuts cuts = {sets_[0][0]};
  for (size_t stage = 0; stage < path.size(); ++stage) {
    cuts.push_back(sets_[stage + 1][path[stage].to]);
  }
  return cuts;
}

double GraphChoices::Shortest(const ChainMean& chain, GraphCuts* cuts) {
  const std::vector<double> to_end = Measure(chain);
  if (to_end.front() == kInfinity) return kInfinity;
  cuts->assign(1, sets_[0][0]);
  for (int stage = 0, cut = 0; stage < stages(); ++stage) {
    const absl::Span<const GraphChoice> choices = From(stage, cut);
    const auto length = [&](const GraphChoice& choice) {
      return choice.Seconds(chain.stages[stage]) + to_end[Cell(stage + 1, choice.to)];
    };
    const auto* best = std::min_element(
        choices.begin(), choices.end(),
        [&](const GraphChoice& a, const GraphChoice& b) { return length(a) < length(b); });
    cut = best->to;
    cuts->push_back(sets_[stage + 1][cut]);
  }
  return to_end.front();
}

}  // namespace sluice
