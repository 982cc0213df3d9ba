// Branch and bound over the cuts of a graph and the devices of every stage, by what each stage says
// (ReplicaBounds).
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
    : problem_(problem), work_(*problem.work), bounds_(problem) {
  ChooseSets();
}

// All cuts, or where their pairs are too many, those along the order of the file.
void ReplicaSearch::ChooseSets() {
  const auto count = static_cast<double>(work_.sets.size());
  const double looks = static_cast<double>(bounds_.divisors().size()) * problem_.devices / 2;
  all_sets_ = count * count * looks <= kMostPairs;
  if (all_sets_) {
    for (int set = 0; set < work_.sets.size(); ++set) sets_.push_back(set);
    return;
  }
  const std::vector<int> order(work_.sets.NodesBetween(0, work_.whole()));
  sets_ = work_.sets.Along(order);
  std::erase(sets_, -1);  // where not all cuts are listed
}

// Whether there are stages, all with bounds below `seconds`; nullopt where it was stopped. Fills
// labels_.
std::optional<bool> ReplicaSearch::Reach(double seconds) {
  labels_for_ = seconds;
  labels_.assign((problem_.devices + 1) * sets_.size(), {});
  LabelOf(0, 0).sends = 0;
  for (size_t to = 1; to < sets_.size(); ++to) {
    if (limits_.Stopped()) return std::nullopt;
    for (size_t from = 0; from < to; ++from) {
      if (!work_.sets.Inside(sets_[from], sets_[to])) continue;
      for (const int r : bounds_.divisors()) Relabel(from, to, r, seconds);
    }
    limits_.steps += static_cast<int64_t>(to * bounds_.divisors().size());
  }
  return std::isfinite(LabelOf(problem_.devices, sets_.size() - 1).sends);
}

// Goes on by one stage from all numbers of devices.
void ReplicaSearch::Relabel(size_t from, size_t to, int replicas, double seconds) {
  const ReplicaStageBounds bounds = bounds_.BoundsOf(sets_[from], sets_[to], replicas);
  const double most = std::min(
      {seconds - bounds.there, (seconds - bounds.back) / 2, (seconds - bounds.through) / 2});
  if (!(most > 0)) return;
  const bool last = to + 1 == sets_.size();
  const double send = bounds_.SendSeconds(sets_[from]);
  const int first = last ? problem_.devices - replicas : 0;
  const int end = last ? problem_.devices - replicas : problem_.devices - replicas - 1;
  for (int before = std::max(first, 0); before <= end; ++before) {
    const double sends = LabelOf(before, from).sends;
    if (!(sends < most) || !bounds_.CanFit(sets_[from], sets_[to], before, replicas)) continue;
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
    const std::optional<bool> reached = Reach(std::min(within, Target()));
    if (!reached) return;
    if (*reached) {
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
    costs.tail.push_back(bounds_.ReduceSeconds(from, to, stages.replicas[stage]));
    if (stage + 1 < count) costs.send.push_back(bounds_.SendSeconds(to));
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
      fits = fits &&
             bounds_.StageFits(stages.cuts[stage], stages.cuts[stage + 1], dealt.in_flight[stage]);
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
    cuts.emplace_back(
        std::max(bounds_.StageBound(from, set, left), bounds_.StageBound(set, to, right)), set);
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
    return std::binary_search(bounds_.divisors().begin(), bounds_.divisors().end(), r);
  };
  for (size_t stage = 0; stage < now.replicas.size(); ++stage) {
    for (size_t count = 1; count <= 2 && stage + count <= now.replicas.size(); ++count) {
      const int devices = now.replicas[stage] + (count == 2 ? now.replicas[stage + 1] : 0);
      for (const int left : bounds_.divisors()) {
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
                                                          const ReplicaStageBounds& after) {
  std::vector<Choice> choices;
  for (size_t from = 0; from < place; ++from) {
    if (!work_.sets.Inside(sets_[from], sets_[place])) continue;
    const double send = bounds_.SendSeconds(sets_[from]);
    for (const int r : bounds_.divisors()) {
      if (r > devices || (r == devices) != (from == 0)) continue;
      const double sends = LabelOf(devices - r, from).sends;
      ++limits_.steps;
      if (std::isinf(sends) || !bounds_.CanFit(sets_[from], sets_[place], devices - r, r)) continue;
      const ReplicaStageBounds own = bounds_.BoundsOf(sets_[from], sets_[place], r);
      const ReplicaStageBounds all = {
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
void ReplicaSearch::Branch(size_t place, int devices, const ReplicaStageBounds& after) {
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
    after_sends_ = sends_behind + 2 * bounds_.SendSeconds(sets_[place]);
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
  if (bound_ < Target() && Reach(Target())) {
    path_.cuts = {whole};
    Branch(sets_.size() - 1, problem_.devices, {});
  } else if (bound_ < Target()) {  // stopped
    limits_.LeaveOut(bound_);
  }
  const double target = Target();
  // Other cuts have only the work for a bound.
  const bool all_cuts = all_sets_ && work_.sets.all();
  const double proved = all_cuts ? std::max(bound_, std::min(limits_.unsearched, target)) : even;
  answer_.complete = proved >= target;
  const double incumbent = std::min(answer_.step.seconds, limits_.options.cutoff);
  answer_.lower_bound =
      answer_.complete ? incumbent / (1 + limits_.options.gap) : std::min(proved, incumbent);
  answer_.costs = CostsOf(answer_.stages);
  answer_.steps = limits_.steps;
  return std::move(answer_);
}

}  // namespace sluice
