#ifndef SLUICE_PARTITIONER_SEARCH_GRAPH_SEARCH_H_
#define SLUICE_PARTITIONER_SEARCH_GRAPH_SEARCH_H_

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "partitioner/cuts/downsets.h"
#include "partitioner/cuts/graph_stage.h"
#include "partitioner/graph_plan.h"

namespace sluice {

// The all-reduce of a stage's replicas, in seconds per parameter byte (FindGraphPartition's term).
inline double AllReduceSeconds(int replicas, double bandwidth) {
  return 4.0 * (replicas - 1) / (replicas * bandwidth);
}

// Is there a partition within some bottleneck and some memory? FindGraphPartition asks it again and
// again for tighter ones. Both arguments must outlive it; the memory of `request` is not looked at.
class GraphSearch {
 public:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // Seconds as near as this, relatively, are equal.
  static constexpr double kNear = 1e-12;

  GraphSearch(const GraphRequest& request, const Downsets& sets);

  // The stages of a partition whose bottleneck is at most `seconds` and whose stages need at most
  // `bytes` a device; nullopt when there is none.
  std::optional<std::vector<GraphStage>> Within(double seconds, double bytes = kInfinity);

  // After Within() found nothing: nor is there anything with fewer seconds than these and the same
  // bytes; or, after Within(kInfinity, bytes), with fewer bytes than these. Not where it was stopped.
  double next_seconds() const { return std::max(next_seconds_, seconds_); }
  double next_bytes() const { return std::max(next_bytes_, bytes_); }
  // Whether GraphRequest::stop has said so: Within() finds nothing any more, which proves nothing.
  bool stopped() const { return stopped_; }

 private:
  // The sets that m devices may hold: [begin, end) in order of seconds.
  struct Layer {
    int begin = 0, end = 0;
    bool any = false;  // is one of them reached?
    std::vector<char> reached;
    std::vector<int> from;  // the set before the last stage
    std::vector<int> replicas;

    bool Holds(int set) const { return set >= begin && set < end; }
  };
  // A stage on r devices, the last of the m of which it is one.
  struct Step {
    int m = 0, r = 0;
    int in_flight = 0;
  };
  // Starts inside a set that may still matter to it and all larger ones: a range of pool_.
  struct Front {
    size_t begin = 0, end = 0;
  };

  void OrderByWeight();
  void SetWindow(int m);
  int FirstAtLeast(double seconds) const;
  int InFlight(int m, int r) const;
  // Something did not fit that takes this, which is more than the limit.
  void RefuseSeconds(double seconds) { next_seconds_ = std::min(next_seconds_, seconds); }
  bool FitsBytes(double bytes);
  // Asks now and then, as a pass goes over the sets.
  bool Stops(int set) {
    constexpr int kBetween = 4096;
    if (set % kBetween == 0 && !stopped_ && request_.stop) stopped_ = request_.stop();
    return stopped_;
  }
  double CutSeconds(int set, int r) const;
  // What a device holds with the nodes of `set` as its stage.
  double Bytes(const Step& step, int set) const {
    return 4 * sets_.parameter_bytes(set) + step.in_flight * sets_.activation_bytes(set);
  }

  // Marks the sets that step.m devices reach with a last stage of step.r.
  void Extend(const Step& step);
  void AddFirstStages(const Step& step);
  void AddLastStage(const Step& step);
  void AddStages(const Step& step);
  void AddStagesWithinBytes(const Step& step);
  bool IsStart(const Layer& before, int set, int r);
  void TryStage(Layer* layer, int from, int set, int r, double seconds);
  int HeaviestInside(int set) const;
  void CollectInside(int set, int begin);
  void DropTooFar(const Step& step, int set);
  void KeepHeaviest(const Step& step);
  std::vector<GraphStage> Stages() const;

  const GraphRequest& request_;
  const Downsets& sets_;
  double seconds_ = 0, bytes_ = kInfinity;            // the limits
  double next_seconds_ = 0, next_bytes_ = kInfinity;  // the least of what was refused
  bool stopped_ = false;
  std::vector<Layer> layers_;
  std::vector<std::vector<double>> weights_;  // [replicas][set]
  // By weight: [replicas][set] the place of a set, [replicas][place] the set there.
  std::vector<std::vector<int>> places_, by_place_;
  // Of the pass that runs. Without a limit of bytes the place of the heaviest start inside or equal
  // to a set, or -1; with one, all starts that no other is heavier than in both seconds and bytes.
  std::vector<int> best_;      // [set]
  std::vector<Front> fronts_;  // [set]
  std::vector<int> pool_;
  std::vector<int> inside_;  // the front that is being made
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_SEARCH_GRAPH_SEARCH_H_
