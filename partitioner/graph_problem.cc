#include "partitioner/graph_problem.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace sluice {

Link GraphStepProblem::LinkAfter(int stage) const {
  const Placement& placement = timetable->placement;
  if (stage + 1 >= stages()) return {};
  const int from = placement.rank(stage), to = placement.rank(stage + 1);
  return from == to ? Link{} : machines.LinkBetween(from, to);
}

StepCosts GraphStepProblem::Costs(const GraphCuts& cuts) const {
  StepCosts costs;
  for (int stage = 0; stage < stages(); ++stage) {
    work->AddStage(cuts[stage], cuts[stage + 1], &costs);
    costs.tail.push_back(0);
    if (stage + 1 < stages())
      costs.send.push_back(LinkAfter(stage).Seconds(work->sets.cut_bytes(cuts[stage + 1])));
  }
  return costs;
}

double GraphStepProblem::RankBytes(int rank, const GraphCuts& cuts) const {
  const std::vector<int>& held = in_flight->stages(rank);
  const Downsets& sets = work->sets;
  double state = 0, most = 0;
  std::vector<double> activations;
  for (const int stage : held) {
    if (stage + 1 >= static_cast<int>(cuts.size())) break;
    const int from = cuts[stage], to = cuts[stage + 1];
    state += 4 * (sets.parameter_bytes(to) - sets.parameter_bytes(from));
    activations.push_back(sets.activation_bytes(to) - sets.activation_bytes(from));
  }
  for (const InFlight::Moment& moment : in_flight->moments(rank)) {
    double bytes = 0;
    for (size_t chunk = 0; chunk < activations.size(); ++chunk) {
      bytes += (moment.activations[chunk] + moment.weight_grads[chunk]) * activations[chunk];
    }
    most = std::max(most, bytes);
  }
  return state + most;
}

double GraphStepProblem::StageBytes(int stage, int from, int to) const {
  const int rank = timetable->placement.rank(stage);
  const std::vector<int>& held = in_flight->stages(rank);
  const auto chunk = static_cast<size_t>(std::find(held.begin(), held.end(), stage) - held.begin());
  int most = 0;
  for (const InFlight::Moment& moment : in_flight->moments(rank)) {
    most = std::max(most, moment.activations[chunk] + moment.weight_grads[chunk]);
  }
  const Downsets& sets = work->sets;
  return 4 * (sets.parameter_bytes(to) - sets.parameter_bytes(from)) +
         most * (sets.activation_bytes(to) - sets.activation_bytes(from));
}

bool GraphStepProblem::Fits(const GraphCuts& cuts) const {
  for (int rank = 0; rank < in_flight->ranks(); ++rank) {
    if (!RankFits(rank, cuts)) return false;
  }
  return true;
}

}  // namespace sluice
