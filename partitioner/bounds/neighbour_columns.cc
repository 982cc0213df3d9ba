#include "partitioner/bounds/neighbour_columns.h"

#include <algorithm>
#include <limits>

namespace sluice {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kMostColumns = 48;         // of a rank, when none beats another
constexpr int64_t kMostSteps = 60'000'000;  // of one sweep
constexpr double kRounding = 1e-9;

// Whether `a` stands for as many layers and as much work as `b`, and never takes longer.
bool Beats(const RankColumn& a, const RankColumn& b) {
  if (a.lengths != b.lengths || a.work < b.work) return false;
  for (size_t chunk = 0; chunk < a.costs.size(); ++chunk) {
    for (double LayerChoice::*seconds :
         {&LayerChoice::forward, &LayerChoice::input_grad, &LayerChoice::weight_grad,
          &LayerChoice::send, &LayerChoice::tail}) {
      if (a.costs[chunk].*seconds > b.costs[chunk].*seconds) return false;
    }
  }
  return true;
}

}  // namespace

struct NeighbourColumns::Layer {
  size_t width = 0;
  std::vector<double> values;
  std::vector<int16_t> from;  // the column of the rank before

  double& value(size_t column, int used) { return values[column * width + used]; }
  int16_t& before(size_t column, int used) { return from[column * width + used]; }
};

NeighbourColumns::NeighbourColumns(const RankColumns& columns, int layers)
    : columns_(columns), layers_(layers) {
  usable_ = columns.usable() && columns.ranks() > 1;
  for (int rank = 0; usable_ && rank < columns.ranks(); ++rank) {
    std::vector<const RankColumn*>& kept = kept_.emplace_back();
    for (const RankColumn& column : columns.columns(rank)) {
      const bool beaten = std::any_of(
          kept.begin(), kept.end(), [&](const RankColumn* other) { return Beats(*other, column); });
      if (beaten) continue;
      std::erase_if(kept, [&](const RankColumn* other) { return Beats(column, *other); });
      kept.push_back(&column);
    }
    usable_ = !kept.empty() && kept.size() <= kMostColumns;
  }
  if (!usable_) return;
  int64_t steps = 0;
  for (int rank = 0; rank + 1 < columns.ranks(); ++rank) {
    pairs_.emplace_back(count(rank) * count(rank + 1), 0.0);
    steps += static_cast<int64_t>(pairs_.back().size()) * layers;
  }
  usable_ = steps <= kMostSteps;
}

void NeighbourColumns::Add(const std::vector<ChainCounts>& chains) {
  for (int rank = 0; rank + 1 < columns_.ranks(); ++rank) {
    const ChainCounts& chain = chains[rank];
    double most_work = 0;
    std::vector<double> here, next;
    for (int at : {rank, rank + 1}) {
      double most = 0;
      for (const RankColumn* column : kept_[at]) {
        (at == rank ? here : next).push_back(columns_.SecondsIn(chain, at, *column));
        most = std::max(most, column->work);
      }
      most_work += most;
    }
    const double elsewhere =
        columns_.LeastBeside(rank, rank + 1, chain, kInfinity, columns_.work() - most_work);
    for (size_t a = 0; a < here.size(); ++a) {
      for (size_t b = 0; b < next.size(); ++b) {
        double& bound = pairs_[rank][a * next.size() + b];
        bound = std::max(bound, (here[a] + next[b] + elsewhere) * (1 - kRounding));
      }
    }
    steps_ += static_cast<int64_t>(here.size() * next.size());
  }
}

// Values of all columns and layers used, rank by rank: `join` of the value so far and a pair's
// bound, the least over the rank before's columns.
template <typename Join>
std::vector<NeighbourColumns::Layer> NeighbourColumns::Sweep(const Join& join) const {
  std::vector<Layer> sweep(columns_.ranks());
  for (int rank = 0; rank < columns_.ranks(); ++rank) {
    Layer& here = sweep[rank];
    here.width = static_cast<size_t>(layers_) + 1;
    here.values.assign(count(rank) * here.width, kInfinity);
    here.from.assign(here.values.size(), -1);
    for (size_t b = 0; b < count(rank); ++b) {
      const int length = kept_[rank][b]->layers;
      if (rank == 0) {
        if (length <= layers_) here.value(b, length) = 0;
        continue;
      }
      Layer& before = sweep[rank - 1];
      for (size_t a = 0; a < count(rank - 1); ++a) {
        const double pair = pairs_[rank - 1][a * count(rank) + b];
        for (int used = 0; used + length <= layers_; ++used) {
          const double value = join(before.value(a, used), pair);
          if (value >= here.value(b, used + length)) continue;
          here.value(b, used + length) = value;
          here.before(b, used + length) = static_cast<int16_t>(a);
        }
        steps_ += layers_;
      }
    }
  }
  return sweep;
}

double NeighbourColumns::LeastSeconds() const {
  std::vector<Layer> sweep = Sweep([](double value, double pair) { return std::max(value, pair); });
  double least = kInfinity;
  for (size_t b = 0; b < kept_.back().size(); ++b) {
    least = std::min(least, sweep.back().value(b, layers_));
  }
  return least;
}

std::optional<StageAssignment> NeighbourColumns::Assignment(double limit) const {
  std::vector<Layer> sweep =
      Sweep([limit](double value, double pair) { return pair > limit ? kInfinity : value + pair; });
  size_t column = 0;
  for (size_t b = 1; b < kept_.back().size(); ++b) {
    if (sweep.back().value(b, layers_) < sweep.back().value(column, layers_)) column = b;
  }
  if (sweep.back().value(column, layers_) == kInfinity) return std::nullopt;
  std::vector<const RankColumn*> taken(columns_.ranks());
  for (int rank = columns_.ranks() - 1, used = layers_; rank >= 0; --rank) {
    taken[rank] = kept_[rank][column];
    const int16_t before = sweep[rank].before(column, used);
    used -= taken[rank]->layers;
    column = static_cast<size_t>(std::max<int16_t>(before, 0));
  }
  return columns_.Assign(taken);
}

}  // namespace sluice
