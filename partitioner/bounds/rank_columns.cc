#include "partitioner/bounds/rank_columns.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kMostColumns = 1000;  // of a rank
constexpr double kNextLimit = 1.003;
constexpr double kAlike = 1.002;
// Sums of seconds in different orders differ by less, relatively.
constexpr double kRounding = 1e-9;

double WorkOf(const LayerCost& layer) {
  return layer.forward_seconds + layer.input_grad_seconds + layer.weight_grad_seconds;
}

// [layer] the least that any device takes for the layers before it.
std::vector<double> WorkBefore(const PartitionProblem& problem) {
  const std::vector<const CostTable*> tables = problem.machines.tables();
  std::vector<double> before = {0};
  for (int i = 0; i < problem.layer_count(); ++i) {
    double least = kInfinity;
    for (const CostTable* table : tables) least = std::min(least, WorkOf(table->layers()[i]));
    before.push_back(before.back() + least);
  }
  return before;
}

}  // namespace

// All choices of a stage with so many layers under one policy, or any.
struct RankColumns::ColumnClass {
  int16_t length = 0;
  Recompute policy = Recompute::kNone;
  LayerChoice least;  // of each kind of seconds
  RangeCost bytes;    // the least of each kind
  double work = 0;    // the most
};

RankColumns::RankColumns(const PartitionProblem& problem, const Feasible& feasible,
                         const LayerChoices& choices, std::vector<std::vector<ChainCounts>> chains)
    : problem_(problem),
      feasible_(feasible),
      chains_(std::move(chains)),
      work_before_(WorkBefore(problem)) {
  const int ranks = problem.timetable->placement.ranks();
  columns_.resize(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    if (ListColumns(choices, rank)) continue;
    columns_.clear();
    return;
  }
}

std::vector<RankColumns::ColumnClass> RankColumns::ClassesOf(const LayerChoices& choices,
                                                             int stage) const {
  std::vector<ColumnClass> classes;
  for (const LayerChoice& choice : choices.Of(stage)) {
    const auto length = static_cast<int16_t>(choice.to - choice.from);
    const RangeCost cost = problem_.Price(stage, choice.from, choice.to, choice.policy);
    const double work = work_before_[choice.to] - work_before_[choice.from];
    const auto found = std::find_if(classes.begin(), classes.end(), [&](const ColumnClass& known) {
      return known.length == length && known.policy == choice.policy;
    });
    if (found == classes.end()) {
      classes.push_back({length, choice.policy, choice, cost, work});
      continue;
    }
    for (double LayerChoice::*seconds :
         {&LayerChoice::forward, &LayerChoice::input_grad, &LayerChoice::weight_grad,
          &LayerChoice::send, &LayerChoice::tail}) {
      found->least.*seconds = std::min(found->least.*seconds, choice.*seconds);
    }
    for (int64_t RangeCost::*bytes :
         {&RangeCost::parameter_bytes, &RangeCost::activation_bytes, &RangeCost::weight_grad_bytes,
          &RangeCost::workspace_bytes, &RangeCost::forward_workspace_bytes}) {
      found->bytes.*bytes = std::min(found->bytes.*bytes, cost.*bytes);
    }
    found->bytes.tied_bytes = std::max(found->bytes.tied_bytes, cost.tied_bytes);
    found->work = std::max(found->work, work);
  }
  return classes;
}

// False where there are too many. A rank without any column is one where nothing fits.
bool RankColumns::ListColumns(const LayerChoices& choices, int rank) {
  const std::vector<int>& stages = feasible_.in_flight().stages(rank);
  std::vector<std::vector<ColumnClass>> classes;
  size_t product = 1;
  for (int stage : stages) {
    classes.push_back(ClassesOf(choices, stage));
    steps_ += static_cast<int64_t>(choices.Of(stage).size());
    product *= classes.back().size();
    if (product > kMostColumns) return false;
  }
  std::vector<RangeCost> bytes(stages.size());
  for (size_t number = 0; number < product; ++number) {
    RankColumn column;
    size_t rest = number;
    for (size_t chunk = 0; chunk < stages.size(); ++chunk) {
      const ColumnClass& chosen = classes[chunk][rest % classes[chunk].size()];
      rest /= classes[chunk].size();
      column.lengths.push_back(chosen.length);
      column.policies.push_back(chosen.policy);
      column.costs.push_back(chosen.least);
      column.layers += chosen.length;
      column.work += chosen.work;
      bytes[chunk] = chosen.bytes;
    }
    steps_ += feasible_.check_steps() / problem_.timetable->placement.ranks();
    if (problem_.machines.limits_memory() &&
        feasible_.in_flight().PeakBytes(rank, bytes) > problem_.machines.MemoryOf(rank)) {
      continue;
    }
    column.own = SecondsIn(chains_[0][rank], rank, column);
    columns_[rank].push_back(std::move(column));
  }
  std::stable_sort(columns_[rank].begin(), columns_[rank].end(),
                   [](const RankColumn& a, const RankColumn& b) { return a.own < b.own; });
  return true;
}

double RankColumns::SecondsIn(const ChainCounts& chain, int rank, const RankColumn& column) const {
  const std::vector<int>& stages = feasible_.in_flight().stages(rank);
  double seconds = 0;
  for (size_t chunk = 0; chunk < stages.size(); ++chunk) {
    seconds += column.costs[chunk].Seconds(chain.stages[stages[chunk]]);
  }
  return seconds;
}

// Of the columns of `rank` that spend at most `most_own`, the lower convex hull of work against the
// seconds that they spend in `chain`; work that is not needed costs nothing.
std::vector<RankColumns::Point> RankColumns::Hull(int rank, const ChainCounts& chain,
                                                  double most_own) const {
  std::vector<Point> points;
  for (const RankColumn& column : columns_[rank]) {
    if (column.own > most_own) break;
    points.push_back({column.work, SecondsIn(chain, rank, column)});
  }
  steps_ += static_cast<int64_t>(points.size());
  std::sort(points.begin(), points.end(), [](const Point& a, const Point& b) {
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.work > b.work;
  });
  std::vector<Point> hull;
  for (const Point& point : points) {
    if (!hull.empty() && point.work <= hull.back().work) continue;
    while (hull.size() >= 2) {
      const Point &a = hull[hull.size() - 2], &b = hull.back();
      // b lies on or above the line from a to the new point.
      if ((b.seconds - a.seconds) * (point.work - a.work) <
          (point.seconds - a.seconds) * (b.work - a.work)) {
        break;
      }
      hull.pop_back();
    }
    hull.push_back(point);
  }
  return hull;
}

double RankColumns::LeastBeside(int first, int last, const ChainCounts& chain, double most_own,
                                double work) const {
  double seconds = 0;
  std::vector<Point> pieces;
  for (int other = 0; other < static_cast<int>(columns_.size()); ++other) {
    if (other >= first && other <= last) continue;
    const std::vector<Point> hull = Hull(other, chain, most_own);
    if (hull.empty()) return kInfinity;
    seconds += hull.front().seconds;
    work -= hull.front().work;
    for (size_t i = 1; i < hull.size(); ++i) {
      pieces.push_back({hull[i].work - hull[i - 1].work, hull[i].seconds - hull[i - 1].seconds});
    }
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Point& a, const Point& b) { return a.seconds * b.work < b.seconds * a.work; });
  work -= kRounding * work_before_.back();
  for (const Point& piece : pieces) {
    if (work <= 0) break;
    seconds += piece.seconds * std::min(1.0, work / piece.work);
    work -= piece.work;
  }
  return work > 0 ? kInfinity : seconds;
}

// The least limit on what a rank spends in its own chain under which all work can be taken over.
double RankColumns::LeastLimit() const {
  std::vector<std::pair<double, double>> gains;  // own seconds, more work than any column below
  for (const std::vector<RankColumn>& columns : columns_) {
    double most = 0;
    for (const RankColumn& column : columns) {
      if (column.work <= most) continue;
      gains.emplace_back(column.own, column.work - most);
      most = column.work;
    }
  }
  std::sort(gains.begin(), gains.end());
  double work = work_before_.back() * (1 - kRounding);
  if (work <= 0) return 0;
  for (const auto& [own, more] : gains) {
    work -= more;
    if (work <= 0) return own;
  }
  return kInfinity;
}

double RankColumns::LeastSeconds(int64_t budget) const {
  double least = kInfinity;
  const double limit = LeastLimit();
  for (int rank = 0; rank < static_cast<int>(columns_.size()); ++rank) {
    // Columns that spend nearly the same are taken together: the least that one spends, the most
    // work that one takes over, and the others within the most that one spends.
    const std::vector<RankColumn>& columns = columns_[rank];
    for (size_t first = 0, end = 0; first < columns.size(); first = end) {
      if (columns[first].own >= least) break;
      double most_work = 0;
      for (; end < columns.size() && columns[end].own <= columns[first].own * kAlike; ++end) {
        most_work = std::max(most_work, columns[end].work);
      }
      if (columns[end - 1].own < limit) continue;
      if (steps_ >= budget) return 0;
      double longest = 0;
      for (const std::vector<ChainCounts>& set : chains_) {
        double here = kInfinity;
        for (size_t i = first; i < end; ++i) {
          here = std::min(here, SecondsIn(set[rank], rank, columns[i]));
        }
        longest = std::max(longest, here + LeastBeside(rank, rank, set[rank], columns[end - 1].own,
                                                       work_before_.back() - most_work));
        if (longest >= least) break;
      }
      least = std::min(least, longest);
    }
  }
  return least * (1 - kRounding);
}

std::vector<StageAssignment> RankColumns::Suggest(int count) const {
  // Limits worth trying: what the columns spend, from the least at which they take over all layers.
  std::vector<double> limits;
  for (const std::vector<RankColumn>& columns : columns_) {
    for (const RankColumn& column : columns) limits.push_back(column.own);
  }
  std::sort(limits.begin(), limits.end());
  limits.erase(std::unique(limits.begin(), limits.end()), limits.end());
  const auto takes_all = [&](double limit) {
    int layers = 0;
    for (const std::vector<RankColumn>& columns : columns_) {
      int most = 0;
      for (const RankColumn& column : columns) {
        if (column.own > limit) break;
        most = std::max(most, column.layers);
      }
      if (most == 0) return false;
      layers += most;
    }
    return layers >= problem_.layer_count();
  };
  auto limit = std::partition_point(limits.begin(), limits.end(),
                                    [&](double value) { return !takes_all(value); });
  std::vector<StageAssignment> suggestions;
  // Neighbouring limits mean nearly the same columns: take steps of a few thousandths.
  for (; limit != limits.end() && static_cast<int>(suggestions.size()) < count;) {
    if (std::optional<StageAssignment> filled = Fill(*limit)) {
      suggestions.push_back(*std::move(filled));
    }
    limit = std::upper_bound(limit, limits.end(), *limit * kNextLimit);
  }
  return suggestions;
}

// Of the columns that spend at most `most_own`, those that take over exactly all layers and spend
// least in the ranks' chains altogether.
std::optional<StageAssignment> RankColumns::Fill(double most_own) const {
  const int ranks = static_cast<int>(columns_.size()), layers = problem_.layer_count();
  // [stage] how often the chains meet it, all together.
  ChainCounts together;
  together.stages.resize(problem_.stages());
  for (const ChainCounts& chain : chains_[0]) {
    for (int stage = 0; stage < problem_.stages(); ++stage) {
      for (int ChainCounts::Stage::*count :
           {&ChainCounts::Stage::forward, &ChainCounts::Stage::input_grad,
            &ChainCounts::Stage::weight_grad, &ChainCounts::Stage::send,
            &ChainCounts::Stage::tail}) {
        together.stages[stage].*count += chain.stages[stage].*count;
      }
    }
  }
  std::vector<std::vector<double>> best(ranks + 1, std::vector<double>(layers + 1, kInfinity));
  std::vector<std::vector<const RankColumn*>> taken(
      ranks + 1, std::vector<const RankColumn*>(layers + 1, nullptr));
  best[0][0] = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    // The cheapest column of each number of layers.
    std::vector<std::pair<double, const RankColumn*>> cheapest(layers + 1, {kInfinity, nullptr});
    for (const RankColumn& column : columns_[rank]) {
      if (column.own > most_own) break;
      if (column.layers > layers) continue;
      const double seconds = SecondsIn(together, rank, column);
      if (seconds < cheapest[column.layers].first) cheapest[column.layers] = {seconds, &column};
    }
    for (int length = 1; length <= layers; ++length) {
      if (cheapest[length].second == nullptr) continue;
      for (int before = 0; before + length <= layers; ++before) {
        const double value = best[rank][before] + cheapest[length].first;
        if (value >= best[rank + 1][before + length]) continue;
        best[rank + 1][before + length] = value;
        taken[rank + 1][before + length] = cheapest[length].second;
      }
    }
  }
  if (best[ranks][layers] == kInfinity) return std::nullopt;
  std::vector<const RankColumn*> columns(ranks);
  for (int rank = ranks, left = layers; rank > 0; --rank) {
    columns[rank - 1] = taken[rank][left];
    left -= columns[rank - 1]->layers;
  }
  return Assign(columns);
}

StageAssignment RankColumns::Assign(const std::vector<const RankColumn*>& taken) const {
  std::vector<int> lengths(problem_.stages());
  StageAssignment assignment;
  assignment.recompute.resize(problem_.stages());
  for (int rank = 0; rank < ranks(); ++rank) {
    const std::vector<int>& stages = feasible_.in_flight().stages(rank);
    for (size_t chunk = 0; chunk < stages.size(); ++chunk) {
      lengths[stages[chunk]] = taken[rank]->lengths[chunk];
      assignment.recompute[stages[chunk]] = taken[rank]->policies[chunk];
    }
  }
  int first = 0;
  for (int length : lengths) {
    assignment.partition.push_back({first, first + length - 1});
    first += length;
  }
  return assignment;
}

}  // namespace sluice
