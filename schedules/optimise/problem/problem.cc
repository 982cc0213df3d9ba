#include "schedules/optimise/problem/problem.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "schedules/counted.h"

namespace sluice::optimise {
namespace {

absl::Status CheckLimitCount(const char* what, size_t given, int ranks) {
  if (given == 0 || given == static_cast<size_t>(ranks)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the limit of ", what, " has ", Counted(given, "value"),
                   ", expected one for each of ", Counted(ranks, "rank")));
}

absl::Status AddActivationRule(const OptimiseRequest& request, Problem* problem) {
  const std::vector<int>& limit = request.limits.activations;
  if (absl::Status ok = CheckLimitCount("activations", limit.size(), problem->ranks); !ok.ok()) {
    return ok;
  }
  if (limit.empty()) return absl::OkStatus();
  const std::vector<double> ones(problem->stages, 1), none(problem->ranks, 0);
  problem->memory.push_back({ones, ones, {limit.begin(), limit.end()}, none});
  return absl::OkStatus();
}

absl::Status AddByteRule(const OptimiseRequest& request, Problem* problem) {
  const std::vector<double>& limit = request.limits.bytes;
  if (absl::Status ok = CheckLimitCount("bytes", limit.size(), problem->ranks); !ok.ok()) return ok;
  if (limit.empty() || request.costs.activation_bytes.empty()) return absl::OkStatus();
  MemoryRule rule{request.costs.activation_bytes, request.costs.weight_grad_bytes, limit, {}};
  rule.kept.resize(problem->stages, 0);
  for (int rank = 0; rank < problem->ranks; ++rank) {
    double added = 0, room = limit[rank];
    for (int s : problem->stages_of[rank]) {
      added = std::max(added, rule.kept[s] - rule.held[s]);
      room -= rule.held[s];
    }
    rule.reserve.push_back(std::max(0.0, std::min(added, room)));
  }
  problem->memory.push_back(std::move(rule));
  return absl::OkStatus();
}

// Before the I of a micro-batch on the last stage, its F must have run on every stage: at that
// moment each rank holds that micro-batch once for each of its stages. A rank that has memory for
// that lets one micro-batch after another through, since B needs no more.
absl::Status CheckPossible(const Problem& problem) {
  for (const MemoryRule& rule : problem.memory) {
    const bool counted = rule.held == std::vector<double>(problem.stages, 1);
    const char* unit = counted ? " activations" : " bytes of activations";
    double enough = 0;
    int short_rank = -1;
    for (int rank = 0; rank < problem.ranks; ++rank) {
      if (std::isnan(rule.limit[rank])) {
        return absl::InvalidArgumentError(
            absl::StrCat("the memory limit of rank ", rank, " is not a number"));
      }
      double least = 0;
      for (int s : problem.stages_of[rank]) least += rule.held[s];
      if (least <= rule.limit[rank] || least <= enough) continue;
      enough = least;
      short_rank = rank;
    }
    if (short_rank < 0) continue;
    const size_t stages = problem.stages_of[short_rank].size();
    return absl::ResourceExhaustedError(
        absl::StrCat("no timetable fits: rank ", short_rank, " may hold ", rule.limit[short_rank],
                     unit, ", but one micro-batch needs ", enough, " to get through its ",
                     Counted(stages, "stage"), "; the least limit that would do is ", enough));
  }
  return absl::OkStatus();
}

// Whether the rank of the stage has room for what an I keeps for its W.
bool MaySplit(const Problem& problem, int stage) {
  const int rank = problem.placement.rank(stage);
  return std::all_of(problem.memory.begin(), problem.memory.end(), [&](const MemoryRule& rule) {
    return rule.kept[stage] <= rule.limit[rank] * (1 + kSlack);
  });
}

}  // namespace

absl::StatusOr<Problem> MakeProblem(const OptimiseRequest& request) {
  const int stages = request.placement.stages();
  if (absl::Status ok = CheckCosts(request.costs, stages); !ok.ok()) return ok;
  if (request.micro_batches < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("micro-batches must be at least 1, not ", request.micro_batches));
  }
  if (request.placement.copies() != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the search places one copy of the model, not ", request.placement.copies()));
  }
  Problem problem;
  problem.placement = request.placement;
  problem.ranks = request.placement.ranks();
  problem.stages = stages;
  problem.micro_batches = request.micro_batches;
  problem.forward = request.costs.forward;
  problem.input_grad = request.costs.input_grad;
  problem.weight_grad = request.costs.weight_grad;
  for (int s = 0; s < stages; ++s) {
    const double split = problem.input_grad[s] + problem.weight_grad[s];
    const double whole = request.costs.backward[s];
    problem.fused.push_back(whole < split * (1 - kRounding) ? 1 : 0);
    problem.backward.push_back(problem.fuses(s) ? whole : split);
  }
  std::vector<double> start(stages, 0);
  for (int s = 0; s + 1 < stages; ++s) {
    const bool together = problem.placement.rank(s) == problem.placement.rank(s + 1);
    problem.hop.push_back(together ? 0 : request.costs.send[s]);
    start[s + 1] = start[s] + problem.forward[s] + problem.hop[s];
  }
  problem.way_back = problem.hop;
  for (int rank = 0; rank < problem.ranks; ++rank) {
    problem.stages_of.push_back(problem.placement.StagesOf(rank));
    problem.head.push_back(start[problem.stages_of[rank].front()]);
    problem.grace.push_back(request.objective == Objective::kSpan ? problem.head[rank] : 0);
  }
  if (absl::Status ok = AddActivationRule(request, &problem); !ok.ok()) return ok;
  if (absl::Status ok = AddByteRule(request, &problem); !ok.ok()) return ok;
  if (absl::Status ok = CheckPossible(problem); !ok.ok()) return ok;
  for (int s = 0; s < stages; ++s) {
    for (const MemoryRule& rule : problem.memory) {
      if (rule.kept[s] <= rule.held[s]) continue;
      problem.fused[s] = 1;
      problem.backward[s] = request.costs.backward[s];
    }
  }
  return problem;
}

Problem CheapestOf(Problem problem) {
  for (int s = 0; s < problem.stages; ++s) {
    if (!problem.fuses(s)) continue;
    const double whole = problem.backward[s],
                 split = problem.input_grad[s] + problem.weight_grad[s];
    const bool splits = MaySplit(problem, s);
    problem.backward[s] = splits ? std::min(whole, split) : whole;
    problem.input_grad[s] = splits ? std::min(problem.input_grad[s], problem.backward[s]) : whole;
    problem.weight_grad[s] = problem.backward[s] - problem.input_grad[s];
    problem.fused[s] = 0;
  }
  return problem;
}

double BusiestWork(const Problem& problem) {
  double most = 0;
  for (const std::vector<int>& stages : problem.stages_of) {
    double work = 0;
    for (int s : stages) {
      const double split = problem.forward[s] + problem.input_grad[s] + problem.weight_grad[s];
      work += problem.fuses(s) ? problem.forward[s] + problem.backward[s] : split;
    }
    most = std::max(most, work);
  }
  return most;
}

bool RankMemory::Fits(const Step& step) const {
  for (size_t i = 0; i < held_.size(); ++i) {
    const MemoryRule& rule = problem_.memory[i];
    const double change = rule.change(step);
    if (change > 0 && held_[i] + change > rule.limit[rank_] * (1 + kSlack)) return false;
  }
  return true;
}

bool RankMemory::Admits(int stage) const {
  for (size_t i = 0; i < held_.size(); ++i) {
    const MemoryRule& rule = problem_.memory[i];
    const double most = rule.limit[rank_] * (1 + kSlack) - rule.reserve[rank_];
    if (held_[i] + rule.held[stage] > most) return false;
  }
  return true;
}

void RankMemory::Apply(const Step& step) {
  for (size_t i = 0; i < held_.size(); ++i) held_[i] += problem_.memory[i].change(step);
}

Timetable TimetableOf(const Problem& problem, const Order& order) {
  Timetable table;
  table.name = "auto";
  table.placement = problem.placement;
  table.micro_batches = problem.micro_batches;
  table.rows.resize(order.size());
  std::vector<int> forwards(problem.stages), gradients(problem.stages), weights(problem.stages);
  for (size_t rank = 0; rank < order.size(); ++rank) {
    table.rows[rank].reserve(order[rank].size());
    for (const Step& step : order[rank]) {
      int micro_batch = 0;
      if (step.op == Op::kForward) micro_batch = forwards[step.stage]++;
      if (RunsInputGrad(step.op)) micro_batch = gradients[step.stage]++;
      if (RunsWeightGrad(step.op)) micro_batch = weights[step.stage]++;
      table.rows[rank].push_back({.op = step.op, .stage = step.stage, .micro_batch = micro_batch});
    }
  }
  return table;
}

Order OrderOf(const Problem& problem, const Timetable& table) {
  Order order(table.rows.size());
  std::vector<int> waiting(problem.stages, 0);  // gradients without their W
  for (size_t rank = 0; rank < table.rows.size(); ++rank) {
    for (const Action& action : table.rows[rank]) {
      if (!IsCompute(action.op)) continue;
      int& waits = waiting[action.stage];
      if (action.op == Op::kBackward && (waits > 0 || !problem.fuses(action.stage))) {
        order[rank].push_back({Op::kInputGrad, action.stage});
        order[rank].push_back({Op::kWeightGrad, action.stage});
      } else {
        if (action.op == Op::kInputGrad) ++waits;
        if (action.op == Op::kWeightGrad) --waits;
        order[rank].push_back({action.op, action.stage});
      }
    }
  }
  return order;
}

}  // namespace sluice::optimise
