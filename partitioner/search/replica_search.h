#ifndef SLUICE_PARTITIONER_SEARCH_REPLICA_SEARCH_H_
#define SLUICE_PARTITIONER_SEARCH_REPLICA_SEARCH_H_

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "partitioner/bounds/replica_bounds.h"
#include "partitioner/cuts/graph_work.h"
#include "partitioner/replica_problem.h"
#include "partitioner/search/partition_answer.h"
#include "partitioner/search/search_limits.h"
#include "partitioner/search/search_options.h"
#include "schedules/simulate/dealt_times.h"
#include "schedules/timetable.h"

namespace sluice {

// Stages, first to last, and the number of devices of each.
struct ReplicatedStages {
  GraphCuts cuts = {0};
  std::vector<int> replicas;
};

// What a step of some stages takes, by the timetable that is best for them: of equally fast ones
// that with the fewest micro-batches in flight.
struct ReplicatedStep {
  int wide = -1;  // which timetable; -1: they fit in memory with none
  double seconds = std::numeric_limits<double>::infinity();
  double bubble = 0;
  std::vector<int> in_flight;  // [stage] most micro-batches that a replica holds
};

struct ReplicaAnswer {
  ReplicatedStages stages;  // of no replicas where nothing was found
  ReplicatedStep step;
  StepCosts costs;  // of these stages
  // No stages that fit take less, whatever their cuts, listed or not; at most the cutoff.
  double lower_bound = 0;
  bool complete = false;  // nothing that fits takes less than what was found and the cutoff
  int64_t steps = 0;
};

// The stages with the shortest step: all devices used, every stage's replicas a divisor of the
// micro-batches, as a run needs them. A step is what SimulateDealt says, with the sum of a stage's
// gradients over its replicas (CollectiveSeconds) after the last of them. See the .cc for how.
class ReplicaSearch {
 public:
  explicit ReplicaSearch(const ReplicaProblem& problem);

  ReplicaAnswer Run(const SearchOptions& options);

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // The fastest way found by Reach to a cut with some number of devices before it.
  struct Label {
    double sends = std::numeric_limits<double>::infinity();  // of one message at each cut before it
    int from = 0, replicas = 0;                              // the last stage: place in sets_
  };
  // One way to go on, towards the start.
  struct Choice {
    double bound = 0;
    int from = 0;  // place in sets_
    int replicas = 1;
    ReplicaStageBounds bounds;  // of all stages from there to the end
  };
  // What `wide` becomes for one sequence of replicas.
  struct Dealt {
    int wide = 0;
    DealtTimetable table;
    std::vector<int> in_flight;
  };

  double Target() const { return limits_.Target(answer_.step.seconds); }
  Label& LabelOf(int devices, size_t place) { return labels_[devices * sets_.size() + place]; }

  const std::vector<Dealt>& DealtBy(const std::vector<int>& replicas);
  StepCosts CostsOf(const ReplicatedStages& stages) const;
  void ChooseSets();
  std::optional<bool> Reach(double seconds);
  void Relabel(size_t from, size_t to, int replicas, double seconds);
  ReplicatedStages Reached();
  void NarrowDown();
  ReplicatedStep Price(const ReplicatedStages& stages);
  bool Consider(const ReplicatedStages& stages);  // whether they are the best so far
  bool Climb();
  std::vector<ReplicatedStages> Neighbours() const;
  void AddRecuts(size_t first, size_t count, int left, int right,
                 std::vector<ReplicatedStages>* found) const;
  void Branch(size_t place, int devices, const ReplicaStageBounds& after);
  std::vector<Choice> Choices(size_t place, int devices, const ReplicaStageBounds& after);

  const ReplicaProblem& problem_;
  const GraphWork& work_;
  const ReplicaBounds bounds_;
  std::vector<int> sets_;  // those looked at, ascending
  bool all_sets_ = true;
  std::vector<Label> labels_;                             // [devices][place]
  double labels_for_ = kInfinity;                         // the seconds within which they are
  std::map<std::vector<int>, std::vector<Dealt>> dealt_;  // by replicas
  SearchLimits limits_;
  ReplicaAnswer answer_;
  double bound_ = 0;  // of all stages made of sets_
  ReplicatedStages path_;
  double after_sends_ = 0;  // of the cuts behind where the search is, there and back
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_SEARCH_REPLICA_SEARCH_H_
