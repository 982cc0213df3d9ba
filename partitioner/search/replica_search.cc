// Branch and bound over the cuts of a graph and the devices of every stage.
//
// A stage takes f seconds forward and b backward for each micro-batch, what lies before it F and B,
// everything F' and B'. Each of its r devices has c = m / r of the m micro-batches, and the sum of
// its gradients over them takes G. Others wait for the share i of a backward: all of it, or half
// where W is an action of its own. With the messages at the cuts on the way, a step lasts at least
//   F + c (f + b) + G
//     The first micro-batch comes to the stage, a device works on all of its own, and the gradients
//     are summed.
//   F + c (f + i b) + i B
//     The same, but the last gradient goes back through what lies before.
//   F' + i B' + (c - 1) max(f, i b)
//     One micro-batch goes through everything and back. None of the stage's backwards starts before
//     one has been to the end, and none goes on before its forward, so the c - 1 others go through
//     the stage one way besides.
//
//   1. Reach: are there stages whose bounds are all within some number of seconds? A bound grows
//      with the messages before the stage, so of all ways to a cut with the same number of devices
//      only the one with the quickest messages matters: one pass over all pairs of cuts.
//   2. Halving that number of seconds gives a bound for all pipelines, and pipelines to start from.
//   3. Climb makes each of them better: it cuts two neighbours anew and divides their devices
//      otherwise.
//   4. A depth-first search from the end, least bound first, simulates all others that the bounds
//      leave.
#include "partitioner/search/replica_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/status/statusor.h"
#include "partitioner/costs/collectives.h"
#include "schedules/simulate/dealt_times.h"

namespace sluice {
namespace {

int Sum(const std::vector<int>& counts) { return std::accumulate(counts.begin(), counts.end(), 0); }

// `stages` with others, of these replicas and with these cuts between them, in place of `count`
// from `first` on.
ReplicatedStages Replaced(ReplicatedStages stages, size_t first, size_t count,
                          const std::vector<int>& replicas, const std::vector<int>& cuts) {
  const auto at = static_cast<ptrdiff_t>(first), many = static_cast<ptrdiff_t>(count);
  const auto of_stages =
      stages.replicas.erase(stages.replicas.begin() + at, stages.replicas.begin() + at + many);
  stages.replicas.insert(of_stages, replicas.begin(), replicas.end());
  const auto between =
      stages.cuts.erase(stages.cuts.begin() + at + 1, stages.cuts.begin() + at + many);
  stages.cuts.insert(between, cuts.begin(), cuts.end());
  return stages;
}

// Of pairs of cuts, times the replicas and devices that they are looked at with.
constexpr double kMostPairs = 4e8;
// Ways to cut two neighbours anew that are simulated, for each way to share out their devices.
constexpr size_t kMostRecuts = 3;
// How near the bound for all pipelines is brought, relatively.
constexpr double kNarrow = 1e-3;
// Upwards until there are stages, and how far where memory may be why there are none.
constexpr double kStride = 1.1, kLongest = 1e3;
// Simulated sequences of replicas whose timetables are kept.
constexpr size_t kMostDealt = 4096;

}  // namespace

ReplicaSearch::ReplicaSearch(const ReplicaProblem& problem)
    : problem_(problem), work_(*problem.work) {
  for (const Timetable& table : problem_.wide) fused_ = fused_ && !table.splits_backward();
  for (int r = 1; r <= std::min(problem_.devices, problem_.micro_batches); ++r) {
    if (problem_.micro_batches % r == 0) divisors_.push_back(r);
  }
  ChooseSets();
  if (std::isfinite(problem_.memory)) CountInFlight();
}

// What a replica keeps follows from the row of the stage's first device and the replicas alone.
void ReplicaSearch::CountInFlight() {
  const auto none = static_cast<size_t>(problem_.devices) + 1;
  least_in_flight_.assign(none, std::vector<int>(none, problem_.micro_batches));
  std::vector<int> held;
  for (const Timetable& table : problem_.wide) {
    for (int rank = 0; rank < problem_.devices; ++rank) {
      for (const int r : divisors_) {
        held.assign(static_cast<size_t>(r), 0);
        int most = 0;
        for (const Action& action : table.rows[rank]) {
          if (!IsCompute(action.op)) continue;
          int& of_replica = held[static_cast<size_t>(action.micro_batch % r)];
          if (action.op == Op::kForward) most = std::max(most, ++of_replica);
          if (action.op == Op::kBackward || action.op == Op::kWeightGrad) --of_replica;
        }
        int& least = least_in_flight_[rank][r];
        least = std::min(least, most);
      }
    }
  }
}

// All cuts, or where their pairs are too many, those along the order of the file.
void ReplicaSearch::ChooseSets() {
  const auto count = static_cast<double>(work_.sets.size());
  const double looks = static_cast<double>(divisors_.size()) * problem_.devices / 2;
  all_sets_ = count * count * looks <= kMostPairs;
  if (all_sets_) {
    for (int set = 0; set < work_.sets.size(); ++set) sets_.push_back(set);
    return;
  }
  std::vector<int> order(work_.sets.NodesBetween(0, work_.whole()));
  sets_ = work_.sets.Along(order);
}

double ReplicaSearch::SendSeconds(int set) const {
  if (set == 0 || set == work_.whole()) return 0;
  return problem_.link.latency + work_.sets.cut_bytes(set) / problem_.link.bandwidth;
}

double ReplicaSearch::ReduceSeconds(int from, int to, int replicas) const {
  const double bytes = work_.sets.parameter_bytes(to) - work_.sets.parameter_bytes(from);
  return CollectiveSeconds(Collective::kAllReduce, bytes, replicas, problem_.link);
}

ReplicaSearch::Bounds ReplicaSearch::BoundsOf(int from, int to, int replicas) const {
  const int each = problem_.micro_batches / replicas;
  const int whole = work_.whole();
  const double f = work_.forward[to] - work_.forward[from];
  const double b = work_.backward[to] - work_.backward[from];
  const double share = fused_ ? 1 : 0.5;  // of a backward, what others wait for
  const double there = work_.forward[from] + SendSeconds(from);
  const double back = share * work_.backward[from] + SendSeconds(from);
  return {.there = there + each * (f + b) + ReduceSeconds(from, to, replicas),
          .back = there + each * (f + share * b) + back,
          .through = work_.forward[whole] + share * work_.backward[whole] +
                     2 * (SendSeconds(from) + SendSeconds(to)) +
                     (each - 1) * std::max(f, share * b)};
}

double ReplicaSearch::StageBound(int from, int to, int replicas) const {
  const Bounds bounds = BoundsOf(from, to, replicas);
  return std::max({bounds.there, bounds.back, bounds.through});
}

bool ReplicaSearch::StageFits(int from, int to, int in_flight) const {
  const Downsets& sets = work_.sets;
  const double parameters = sets.parameter_bytes(to) - sets.parameter_bytes(from);
  const double activations = sets.activation_bytes(to) - sets.activation_bytes(from);
  return 4 * parameters + in_flight * activations <= problem_.memory;
}

bool ReplicaSearch::CanFit(int from, int to, int before, int replicas) const {
  return least_in_flight_.empty() || StageFits(from, to, least_in_flight_[before][replicas]);
}

// Whether there are stages, all with bounds below `seconds`. Fills labels_.
bool ReplicaSearch::Reach(double seconds) {
  labels_for_ = seconds;
  labels_.assign((problem_.devices + 1) * sets_.size(), {});
  LabelOf(0, 0).sends = 0;
  for (size_t to = 1; to < sets_.size(); ++to) {
    for (size_t from = 0; from < to; ++from) {
      if (!work_.sets.Inside(sets_[from], sets_[to])) continue;
      for (const int r : divisors_) Relabel(from, to, r, seconds);
    }
    limits_.steps += static_cast<int64_t>(to * divisors_.size());
  }
  return std::isfinite(LabelOf(problem_.devices, sets_.size() - 1).sends);
}

// Goes on by one stage from all numbers of devices.
void ReplicaSearch::Relabel(size_t from, size_t to, int replicas, double seconds) {
  const Bounds bounds = BoundsOf(sets_[from], sets_[to], replicas);
  const double most = std::min(
      {seconds - bounds.there, (seconds - bounds.back) / 2, (seconds - bounds.through) / 2});
  if (!(most > 0)) return;
  const bool last = to + 1 == sets_.size();
  const double send = SendSeconds(sets_[from]);
  const int first = last ? problem_.devices - replicas : 0;
  const int end = last ? problem_.devices - replicas : problem_.devices - replicas - 1;
  for (int before = std::max(first, 0); before <= end; ++before) {
    const double sends = LabelOf(before, from).sends;
    if (!(sends < most) || !CanFit(sets_[from], sets_[to], before, replicas)) continue;
    Label& label = LabelOf(before + replicas, to);
    if (sends + send < label.sends) label = {sends + send, static_cast<int>(from), replicas};
  }
}

ReplicatedStages ReplicaSearch::Reached() {
  ReplicatedStages stages;
  stages.cuts.clear();
  int devices = problem_.devices;
  for (size_t place = sets_.size() - 1; place > 0;) {
    const Label& label = LabelOf(devices, place);
    stages.cuts.insert(stages.cuts.begin(), sets_[place]);
    stages.replicas.insert(stages.replicas.begin(), label.replicas);
    devices -= label.replicas;
    place = static_cast<size_t>(label.from);
  }
  stages.cuts.insert(stages.cuts.begin(), 0);
  return stages;
}

// Raises bound_, which no step is below, as far as the bounds allow.
void ReplicaSearch::NarrowDown() {
  if (!(bound_ > 0)) return;  // a graph of no work
  double within = bound_ * (1 + kProofTolerance);
  const double longest = kLongest * bound_;
  double most = kInfinity;  // within which there are stages
  while (!limits_.OutOfBudget() && bound_ < Target() && most > bound_ * (1 + kNarrow)) {
    if (Reach(std::min(within, Target()))) {
      most = within;
      for (bool better = Consider(Reached()); better;) better = Climb();
    } else {
      bound_ = std::min(within, Target());
    }
    within = std::isfinite(most) ? bound_ + (most - bound_) / 2 : within * kStride;
    if (std::isinf(most) && within > longest) break;
  }
}

const std::vector<ReplicaSearch::Dealt>& ReplicaSearch::DealtBy(const std::vector<int>& replicas) {
  if (dealt_.size() > kMostDealt) dealt_.clear();
  const auto [place, added] = dealt_.try_emplace(replicas);
  if (!added) return place->second;
  for (size_t wide = 0; wide < problem_.wide.size(); ++wide) {
    absl::StatusOr<Timetable> narrow = NarrowTimetable(problem_.wide[wide], replicas);
    if (!narrow.ok()) continue;  // not one of those that `wide` is said to hold
    DealtTimetable table(*std::move(narrow), StageDeal(replicas, 1));
    std::vector<int> in_flight = DealtInFlight(table);
    limits_.steps += 4 * table.table.action_count();
    place->second.push_back({static_cast<int>(wide), std::move(table), std::move(in_flight)});
  }
  return place->second;
}

StepCosts ReplicaSearch::CostsOf(const ReplicatedStages& stages) const {
  StepCosts costs;
  const size_t count = stages.replicas.size();
  for (size_t stage = 0; stage < count; ++stage) {
    const int from = stages.cuts[stage], to = stages.cuts[stage + 1];
    work_.AddStage(from, to, &costs);
    costs.tail.push_back(ReduceSeconds(from, to, stages.replicas[stage]));
    if (stage + 1 < count) costs.send.push_back(SendSeconds(to));
  }
  return costs;
}

ReplicatedStep ReplicaSearch::Price(const ReplicatedStages& stages) {
  const StepCosts costs = CostsOf(stages);
  ReplicatedStep best;
  for (const Dealt& dealt : DealtBy(stages.replicas)) {
    limits_.steps += static_cast<int64_t>(stages.replicas.size());
    bool fits = true;
    for (size_t stage = 0; stage < stages.replicas.size(); ++stage) {
      fits = fits && StageFits(stages.cuts[stage], stages.cuts[stage + 1], dealt.in_flight[stage]);
    }
    if (!fits) continue;
    const Simulation times = SimulateDealt(dealt.table, costs, costs.tail);
    limits_.steps += 4 * dealt.table.table.action_count();
    const bool faster = times.makespan < best.seconds * (1 - kProofTolerance);
    const bool leaner = times.makespan <= best.seconds * (1 + kProofTolerance) &&
                        Sum(dealt.in_flight) < Sum(best.in_flight);
    if (faster || leaner) {
      best = {dealt.wide, times.makespan, times.bubble, dealt.in_flight};
    }
  }
  return best;
}

bool ReplicaSearch::Consider(const ReplicatedStages& stages) {
  ReplicatedStep step = Price(stages);
  if (step.seconds >= answer_.step.seconds * (1 - kProofTolerance)) return false;
  answer_.step = std::move(step);
  answer_.stages = stages;
  return true;
}

// The `count` stages from `first` on become two, `left` devices for the first of them.
void ReplicaSearch::AddRecuts(size_t first, size_t count, int left, int right,
                              std::vector<ReplicatedStages>* found) const {
  const ReplicatedStages& now = answer_.stages;
  const int from = now.cuts[first], to = now.cuts[first + count];
  std::vector<std::pair<double, int>> cuts;
  for (const int set : sets_) {
    if (set == from || set == to) continue;
    if (!work_.sets.Inside(from, set) || !work_.sets.Inside(set, to)) continue;
    cuts.emplace_back(std::max(StageBound(from, set, left), StageBound(set, to, right)), set);
  }
  const size_t kept = std::min(kMostRecuts, cuts.size());
  std::partial_sort(cuts.begin(), cuts.begin() + static_cast<ptrdiff_t>(kept), cuts.end());
  for (size_t i = 0; i < kept; ++i) {
    found->push_back(Replaced(now, first, count, {left, right}, {cuts[i].second}));
  }
}

// Two neighbours cut anew, and their devices shared out otherwise or given to one stage; or one
// stage cut in two.
std::vector<ReplicatedStages> ReplicaSearch::Neighbours() const {
  std::vector<ReplicatedStages> found;
  const ReplicatedStages& now = answer_.stages;
  const auto is_divisor = [&](int r) {
    return std::binary_search(divisors_.begin(), divisors_.end(), r);
  };
  for (size_t stage = 0; stage < now.replicas.size(); ++stage) {
    for (size_t count = 1; count <= 2 && stage + count <= now.replicas.size(); ++count) {
      const int devices = now.replicas[stage] + (count == 2 ? now.replicas[stage + 1] : 0);
      for (const int left : divisors_) {
        if (is_divisor(devices - left)) AddRecuts(stage, count, left, devices - left, &found);
      }
      if (count == 2 && is_divisor(devices))
        found.push_back(Replaced(now, stage, count, {devices}, {}));
    }
  }
  return found;
}

// To the best neighbour; false where none is better.
bool ReplicaSearch::Climb() {
  bool better = false;
  for (const ReplicatedStages& stages : Neighbours()) {
    if (limits_.OutOfBudget() || bound_ >= Target()) return false;
    better = Consider(stages) || better;
  }
  return better;
}

// What could come before `place`, on `devices` devices in all, where `after` bounds the stages from
// there on but for the messages before it.
std::vector<ReplicaSearch::Choice> ReplicaSearch::Choices(size_t place, int devices,
                                                          const Bounds& after) {
  std::vector<Choice> choices;
  for (size_t from = 0; from < place; ++from) {
    if (!work_.sets.Inside(sets_[from], sets_[place])) continue;
    const double send = SendSeconds(sets_[from]);
    for (const int r : divisors_) {
      if (r > devices || (r == devices) != (from == 0)) continue;
      const double sends = LabelOf(devices - r, from).sends;
      ++limits_.steps;
      if (std::isinf(sends) || !CanFit(sets_[from], sets_[place], devices - r, r)) continue;
      const Bounds own = BoundsOf(sets_[from], sets_[place], r);
      const Bounds all = {
          .there = std::max(own.there, after.there + send),
          .back = std::max(own.back, after.back + 2 * send),
          .through = std::max(own.through + after_sends_, after.through + 2 * send)};
      const double bound =
          std::max({all.there + sends, all.back + 2 * sends, all.through + 2 * sends});
      if (bound < Target()) choices.push_back({bound, static_cast<int>(from), r, all});
    }
  }
  std::stable_sort(choices.begin(), choices.end(),
                   [](const Choice& a, const Choice& b) { return a.bound < b.bound; });
  return choices;
}

// `path_` holds the stages from `place` to the end, last first.
void ReplicaSearch::Branch(size_t place, int devices, const Bounds& after) {
  if (place == 0) {
    ReplicatedStages stages = path_;
    std::reverse(stages.cuts.begin(), stages.cuts.end());
    std::reverse(stages.replicas.begin(), stages.replicas.end());
    for (bool better = Consider(stages); better;) better = Climb();
    return;
  }
  // Of the cuts behind `place`, whose messages one micro-batch waits for as well.
  const double sends_behind = after_sends_;
  for (const Choice& choice : Choices(place, devices, after)) {
    if (choice.bound >= Target()) break;
    if (limits_.OutOfBudget()) {
      limits_.LeaveOut(choice.bound);
      break;
    }
    path_.cuts.push_back(sets_[choice.from]);
    path_.replicas.push_back(choice.replicas);
    after_sends_ = sends_behind + 2 * SendSeconds(sets_[place]);
    Branch(static_cast<size_t>(choice.from), devices - choice.replicas, choice.bounds);
    path_.cuts.pop_back();
    path_.replicas.pop_back();
  }
  after_sends_ = sends_behind;
}

ReplicaAnswer ReplicaSearch::Run(const SearchOptions& options) {
  limits_.options = options;
  const int whole = work_.whole();
  // All the work shared evenly.
  const double even =
      problem_.micro_batches * (work_.forward[whole] + work_.backward[whole]) / problem_.devices;
  bound_ = even;
  NarrowDown();
  if (bound_ < Target()) {
    Reach(Target());
    path_.cuts = {whole};
    Branch(sets_.size() - 1, problem_.devices, {});
  }
  const double target = Target();
  // Other cuts have only the work for a bound.
  const double proved = all_sets_ ? std::max(bound_, std::min(limits_.unsearched, target)) : even;
  answer_.complete = proved >= target;
  const double incumbent = std::min(answer_.step.seconds, limits_.options.cutoff);
  answer_.lower_bound =
      answer_.complete ? incumbent / (1 + limits_.options.gap) : std::min(proved, incumbent);
  answer_.costs = CostsOf(answer_.stages);
  answer_.steps = limits_.steps;
  return std::move(answer_);
}

}  // namespace sluice
