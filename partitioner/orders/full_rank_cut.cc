#include "partitioner/orders/full_rank_cut.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "partitioner/bounds/least_layer.h"

namespace sluice {
namespace {

constexpr int kChunks = 2;
// How much longer than its least the work of the fullest rank may be, and in which steps it is
// tried.
constexpr double kMostOverLeast = 1.1;
constexpr double kNextMost = 1.005;
constexpr double kRounding = 1e-9;

// Seconds of `count` of the layers [first, end): `front` of them at the start, the others at the
// end. `before` holds prefix sums of the layers' seconds.
double WorkOf(const std::vector<double>& before, int first, int end, int front, int count) {
  return before[first + front] - before[first] + before[end] - before[end - (count - front)];
}

// How many of these `count` layers to take at the start, so that about `share` of the work is
// there. Of two equally good numbers the smaller one, since the start holds more micro-batches.
int FrontOf(const std::vector<double>& before, int first, int end, int count, double share) {
  int best = 1;
  double least = 0;
  for (int front = 1; front < count; ++front) {
    const double here = before[first + front] - before[first];
    const double apart = std::abs(share * WorkOf(before, first, end, front, count) - here);
    if (front > 1 && apart >= least * (1 - kRounding)) continue;
    best = front;
    least = apart;
  }
  return best;
}

// How many layers a rank takes at either end of those that are left.
struct Ends {
  int front = 0, back = 0;
};

// `count` of the layers [first, end), or fewer, so that they take at most `most` seconds; none
// where too few for two stages would be left.
Ends TakeEnds(const std::vector<double>& before, int first, int end, int count, double most,
              double front_share) {
  for (; count >= kChunks; --count) {
    const int front = FrontOf(before, first, end, count, front_share);
    if (WorkOf(before, first, end, front, count) <= most) return {front, count - front};
  }
  return {};
}

std::vector<double> SumsBefore(const std::vector<double>& work) {
  std::vector<double> before = {0};  // [layer] seconds of the layers before it
  for (double seconds : work) before.push_back(before.back() + seconds);
  return before;
}

// One cut with the full ranks last, in the making.
class LastCut {
 public:
  LastCut(const std::vector<double>& work, int ranks, double most, double front_share)
      : before_(SumsBefore(work)),
        ranks_(ranks),
        most_(most),
        front_share_(front_share),
        end_(static_cast<int>(work.size())) {}

  PlacedCut Make() {
    if (ranks_ < 3 || !TakeOuter()) return {};
    const int share = (end_ - first_) / (ranks_ - 1);
    const int full = (end_ - first_) % (ranks_ - 1);
    if (share < kChunks || full == 0 || !TakeFull(full, share + 1) || !TakeV(share)) {
      return {};
    }
    return Joined();
  }

 private:
  // Rank 0 is no fuller than the others need be.
  bool TakeOuter() {
    const Ends ends =
        TakeEnds(before_, first_, end_, (end_ - first_ + ranks_ - 1) / ranks_, most_, front_share_);
    if (ends.front == 0) return false;
    Take(0, ends.front, &down_);
    end_ -= ends.back;
    last_ = {end_, end_ + ends.back - 1};
    return true;
  }

  // The full ranks from the end on.
  bool TakeFull(int full, int count) {
    for (int rank = ranks_ - 1; rank >= ranks_ - full; --rank) {
      if (before_[end_] - before_[end_ - count] > most_) return false;
      end_ -= count;
      full_.push_back({rank, {end_, end_ + count - 1}});
    }
    return true;
  }

  bool TakeV(int share) {
    for (int rank = 1; first_ < end_; ++rank) {
      const int front = FrontOf(before_, first_, end_, share, front_share_);
      if (WorkOf(before_, first_, end_, front, share) > most_) return false;
      Take(rank, front, &down_);
      end_ -= share - front;
      up_.push_back({rank, {end_, end_ + share - front - 1}});
    }
    return true;
  }

  struct Stage {
    int rank;
    LayerRange layers;
  };

  void Take(int rank, int count, std::vector<Stage>* stages) {
    stages->push_back({rank, {first_, first_ + count - 1}});
    first_ += count;
  }

  PlacedCut Joined() const {
    std::vector<Stage> stages = down_;
    stages.insert(stages.end(), up_.rbegin(), up_.rend());
    stages.insert(stages.end(), full_.rbegin(), full_.rend());
    stages.push_back({0, last_});
    std::vector<int> rank_of_stage;
    Partition partition;
    for (const Stage& stage : stages) {
      rank_of_stage.push_back(stage.rank);
      partition.push_back(stage.layers);
    }
    absl::StatusOr<Placement> placement = Placement::FromRanks(std::move(rank_of_stage));
    if (!placement.ok()) return {};
    return {*std::move(placement), std::move(partition)};
  }

  const std::vector<double> before_;
  const int ranks_;
  const double most_, front_share_;
  int first_ = 0, end_;                  // of the layers that are left
  std::vector<Stage> down_, up_, full_;  // the latter two from the end on
  LayerRange last_;                      // of rank 0
};

}  // namespace

Partition FullRanksFirst(const std::vector<double>& work, int ranks, double most,
                         double front_share) {
  const std::vector<double> before = SumsBefore(work);
  Partition down, up;
  int first = 0, end = static_cast<int>(work.size());  // of the layers that are left
  for (int left = ranks; left > 0; --left) {
    const Ends ends =
        TakeEnds(before, first, end, (end - first + left - 1) / left, most, front_share);
    if (ends.front == 0) return {};
    down.push_back({first, first + ends.front - 1});
    up.push_back({end - ends.back, end - 1});
    first += ends.front;
    end -= ends.back;
  }
  if (first != end) return {};
  std::move(up.rbegin(), up.rend(), std::back_inserter(down));
  return down;
}

PlacedCut FullRanksLast(const std::vector<double>& work, int ranks, double most,
                        double front_share) {
  return LastCut(work, ranks, most, front_share).Make();
}

PlacedCut LeastCut(const Workload& workload, FullRanks full, double front_share) {
  std::vector<double> work;
  double all = 0;
  for (const LayerCost& layer : workload.machines.costs->layers()) {
    work.push_back(layer.forward_seconds + layer.input_grad_seconds + layer.weight_grad_seconds);
    all += work.back();
  }
  const double least = std::max(all / workload.devices, FullestRank(work, workload.devices).sum);
  PlacedCut cut{Placement::V(workload.devices, kChunks), {}};
  for (double most = least; most < least * kMostOverLeast && cut.partition.empty();
       most *= kNextMost) {
    const double room = most * (1 + kRounding);
    if (full == FullRanks::kFirst) {
      cut.partition = FullRanksFirst(work, workload.devices, room, front_share);
    } else {
      cut = FullRanksLast(work, workload.devices, room, front_share);
    }
  }
  return cut;
}

}  // namespace sluice
