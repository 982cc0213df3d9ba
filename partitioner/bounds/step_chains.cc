#include <algorithm>

#include "partitioner/bounds/chain_counts.h"
#include "partitioner/bounds/step_model.h"
#include "partitioner/bounds/step_slots.h"
#include "partitioner/step_costs.h"

namespace sluice {

// Nodes are numbered so that whatever one waits for comes before it: one pass upwards gives the
// longest chain up to each node, one downwards the longest from each node to the end.
class StepModel::ChainsByRank {
 public:
  ChainsByRank(const StepModel& model, const StepCosts& costs, double slowdown)
      : model_(model),
        costs_(costs),
        slowdown_(slowdown),
        after_(model.nodes_.size()),
        next_(model.nodes_.size(), kNone),
        next_edge_(model.nodes_.size(), kNone),
        row_next_(model.nodes_.size(), kNone),
        place_(model.nodes_.size(), kNone) {
    MeasureAfter();
  }

  ChainCounts Of(int rank) const {
    ChainCounts chain;
    chain.stages.resize(model_.stages_);
    const std::vector<int32_t> row = Row(rank);
    if (row.empty()) return chain;
    // The best place to leave the row when entered at the best place before it.
    double entered = -1, best = -1;
    size_t from = 0, first = 0, last = 0;
    for (size_t i = 0; i < row.size(); ++i) {
      const double arrival = Arrival(row[i], nullptr, nullptr);
      if (arrival > entered) {
        entered = arrival;
        from = i;
      }
      entered += slowdown_ * Seconds(row[i]);
      const double leaving =
          i + 1 == row.size() ? std::max(after_[row[i]], Tail(rank)) : after_[row[i]];
      if (entered + leaving < best) continue;  // of equal ones the last, which may be the end
      best = entered + leaving;
      first = from;
      last = i;
    }
    for (size_t i = first; i <= last; ++i) Count(row[i], &chain);
    CountBefore(row[first], &chain);
    CountAfter(row[last], &chain);
    return chain;
  }

  // The same for two ranks: among their nodes the chain may go to and fro.
  ChainCounts OfPair(int first, int second) {
    ChainCounts chain;
    chain.stages.resize(model_.stages_);
    const std::vector<Via> best = LongestWithin(first, second);
    int32_t last = kNone;
    double longest = -1;
    for (size_t i = 0; i < best.size(); ++i) {
      double leaving = after_[best[i].node];
      for (int rank : {first, second}) {
        if (model_.last_[rank] == best[i].node) leaving = std::max(leaving, Tail(rank));
      }
      if (best[i].seconds + leaving < longest) continue;
      longest = best[i].seconds + leaving;
      last = static_cast<int32_t>(i);
    }
    if (last == kNone) return chain;
    CountAfter(best[last].node, &chain);
    for (int32_t at = last; at != kNone; at = best[at].from) {
      Count(best[at].node, &chain);
      if (best[at].from == kNone) CountBefore(best[at].node, &chain);
      if (best[at].edge != kNone) ++chain.stages[best[at].edge].send;
    }
    return chain;
  }

 private:
  // A node of a pair of ranks, by the longest way to its end.
  struct Via {
    int32_t node = kNone;
    int32_t from = kNone;  // position among the pair's nodes; kNone where the way enters the pair
    int32_t edge = kNone;
    double seconds = 0;
  };

  // The nodes of two ranks, in the order of their numbers.
  std::vector<Via> LongestWithin(int first, int second) {
    const std::vector<int32_t> a = Row(first), b = Row(second);
    std::vector<int32_t> nodes(a.size() + b.size());
    std::merge(a.begin(), a.end(), b.begin(), b.end(), nodes.begin());
    std::vector<Via> best(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      place_[nodes[i]] = static_cast<int32_t>(i);
      best[i] = LongestTo(nodes[i], best);
    }
    for (int32_t node : nodes) place_[node] = kNone;
    return best;
  }
  Via LongestTo(int32_t node, const std::vector<Via>& best) const {
    const Node& here = model_.nodes_[node];
    Via via{node, kNone, kNone, Arrival(node, nullptr, nullptr)};
    const auto offer = [&](int32_t source, int32_t edge) {
      if (source == kNone || place_[source] == kNone) return;
      const double seconds = best[place_[source]].seconds + Latency(edge);
      // Of equally long ways, one within the pair: it says the most of these two.
      if (seconds < via.seconds) return;
      via = {node, place_[source], edge, seconds};
    };
    for (int half = 0; half < 2; ++half) offer(here.data[half], here.edge[half]);
    offer(here.previous, kNone);
    via.seconds += slowdown_ * Seconds(node);
    return via;
  }

  std::vector<int32_t> Row(int rank) const {
    std::vector<int32_t> row;
    for (int32_t at = model_.last_[rank]; at != kNone; at = model_.nodes_[at].previous) {
      row.push_back(at);
    }
    std::reverse(row.begin(), row.end());
    return row;
  }
  double Seconds(int32_t node) const {
    const Node& here = model_.nodes_[node];
    return model_.slots_[here.duration[0]] + model_.slots_[here.duration[1]];
  }
  double Latency(int32_t edge) const { return edge == kNone ? 0 : costs_.send[edge]; }
  double Tail(int rank) const {
    double tail = 0;
    for (int stage : model_.stages_of_[rank]) tail += costs_.tail[stage];
    return tail;
  }
  // When the latest input of `node` arrives, by the run that filled ends_; 0 where it has none.
  double Arrival(int32_t node, int32_t* from, int32_t* edge) const {
    const Node& here = model_.nodes_[node];
    double latest = 0;
    for (int half = 0; half < 2; ++half) {
      if (here.data[half] == kNone) continue;
      const double arrival = model_.ends_[here.data[half]] + Latency(here.edge[half]);
      if (arrival < latest) continue;
      latest = arrival;
      if (from != nullptr) *from = here.data[half];
      if (edge != nullptr) *edge = here.edge[half];
    }
    return latest;
  }

  // Seconds from the end of each node to the end of the step along its longest way that does not go
  // on along its row at once.
  void MeasureAfter() {
    // Along the row, or what the rank does last.
    std::vector<double> along(model_.nodes_.size());
    for (size_t rank = 0; rank < model_.last_.size(); ++rank) {
      if (model_.last_[rank] != kNone) along[model_.last_[rank]] = Tail(static_cast<int>(rank));
    }
    for (size_t i = model_.nodes_.size(); i-- > 0;) {
      const Node& here = model_.nodes_[i];
      // Only where the row is the longer way does row_next_ stay.
      if (after_[i] > along[i]) row_next_[i] = kNone;
      const bool ends_here = after_[i] <= along[i] && row_next_[i] == kNone;
      if (ends_here) next_[i] = kNone;
      const double from_start = Seconds(static_cast<int32_t>(i)) + std::max(along[i], after_[i]);
      if (here.previous != kNone) {
        along[here.previous] = from_start;
        row_next_[here.previous] = static_cast<int32_t>(i);
      }
      for (int half = 0; half < 2; ++half) {
        const int32_t source = here.data[half];
        if (source == kNone || from_start + Latency(here.edge[half]) <= after_[source]) continue;
        after_[source] = from_start + Latency(here.edge[half]);
        next_[source] = static_cast<int32_t>(i);
        next_edge_[source] = here.edge[half];
      }
    }
  }

  void Count(int32_t node, ChainCounts* chain) const {
    for (int slot : model_.nodes_[node].duration) CountSlot(slot, chain);
  }
  void CountBefore(int32_t node, ChainCounts* chain) const {
    int32_t from = kNone, edge = kNone;
    Arrival(node, &from, &edge);
    while (from != kNone) {
      if (edge != kNone) ++chain->stages[edge].send;
      Count(from, chain);
      const Node& here = model_.nodes_[from];
      int32_t input = kNone, over = kNone;
      const double arrival = Arrival(from, &input, &over);
      const bool by_row =
          here.previous != kNone && (input == kNone || model_.ends_[here.previous] >= arrival);
      edge = by_row ? kNone : over;
      from = by_row ? here.previous : input;
    }
  }
  // The way that after_ measures, up to what the last rank on it does last.
  void CountAfter(int32_t node, ChainCounts* chain) const {
    int32_t at = next_[node], edge = next_edge_[node];
    int32_t end = node;
    while (at != kNone) {
      if (edge != kNone) ++chain->stages[edge].send;
      Count(at, chain);
      end = at;
      const bool by_row = row_next_[at] != kNone;
      edge = by_row ? kNone : next_edge_[at];
      at = by_row ? row_next_[at] : next_[at];
    }
    const auto rank = std::find(model_.last_.begin(), model_.last_.end(), end);
    for (int stage : model_.stages_of_[rank - model_.last_.begin()]) chain->stages[stage].tail = 1;
  }

  const StepModel& model_;
  const StepCosts& costs_;
  double slowdown_;
  std::vector<double> after_;
  std::vector<int32_t> next_, next_edge_;  // over data
  std::vector<int32_t> row_next_;          // kNone where data are the longer way
  std::vector<int32_t> place_;             // among the nodes of the pair looked at; else kNone
};

std::vector<ChainCounts> StepModel::PairChains(const StepCosts& costs, double slowdown) {
  Makespan(costs);
  ChainsByRank chains(*this, costs, slowdown);
  std::vector<ChainCounts> found;
  for (int rank = 0; rank + 1 < static_cast<int>(last_.size()); ++rank) {
    found.push_back(chains.OfPair(rank, rank + 1));
  }
  return found;
}

std::vector<ChainCounts> StepModel::RankChains(const StepCosts& costs, double slowdown) {
  Makespan(costs);
  const ChainsByRank chains(*this, costs, slowdown);
  std::vector<ChainCounts> found;
  found.reserve(last_.size());
  for (size_t rank = 0; rank < last_.size(); ++rank) {
    found.push_back(chains.Of(static_cast<int>(rank)));
  }
  return found;
}

}  // namespace sluice
