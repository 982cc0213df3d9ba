#include "schedules/optimise/exact.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "schedules/optimise/partial.h"

namespace sluice::optimise {
namespace {

// Improvements by a smaller share than this are rounding.
constexpr double kRounding = 1e-10;
// Prefixes remembered per key.
constexpr size_t kMostRemembered = 32;
constexpr int64_t kLookAtClock = 256;

class ExactSearch {
 public:
  ExactSearch(const Problem& problem, double lower, double upper, int64_t most_nodes,
              const Deadline& deadline)
      : problem_(problem),
        relaxation_(problem),
        prefix_(problem, relaxation_),
        lower_(lower),
        upper_(upper),
        most_nodes_(most_nodes),
        deadline_(deadline),
        may_put_off_(problem.stages > problem.ranks && !problem.memory.empty()),
        put_off_(problem.stages, false) {}

  ExactResult Run() {
    Visit();
    result_.exhausted = !stopped_;
    return std::move(result_);
  }

 private:
  bool Hopeless(double bound) const { return bound >= upper_ * (1 - kRounding); }
  void Visit();
  void Complete();
  bool Dominated();
  // The options, of one rank, that the search branches over.
  std::vector<Option> Branches(bool* put_off);
  void Take(const Option& option);

  const Problem& problem_;
  const Relaxation relaxation_;
  PartialOrder prefix_;
  const double lower_;
  double upper_;
  const int64_t most_nodes_;
  const Deadline& deadline_;
  const bool may_put_off_;
  std::vector<bool> put_off_;  // [stage] its F waits for another action of its rank
  bool stopped_ = false;
  std::vector<uint8_t> key_;
  std::vector<double> times_;
  absl::flat_hash_map<std::string, std::vector<std::vector<double>>> seen_;
  ExactResult result_;
};

void ExactSearch::Visit() {
  if (stopped_ || upper_ <= lower_ * (1 + kRounding)) return;
  if (prefix_.complete()) return Complete();
  ++result_.nodes;
  if (result_.nodes >= most_nodes_ || (result_.nodes % kLookAtClock == 0 && deadline_.passed())) {
    stopped_ = true;
    return;
  }
  if (Hopeless(prefix_.Bound()) || Dominated()) return;
  bool put_off = false;
  const std::vector<Option> branches = Branches(&put_off);
  for (const Option& option : branches) Take(option);
  if (!put_off) return;
  const int stage = branches.front().step.stage;
  put_off_[stage] = true;
  Visit();
  put_off_[stage] = false;
}

void ExactSearch::Complete() {
  const double value = prefix_.value();
  if (Hopeless(value)) return;
  upper_ = value;
  result_.better = {prefix_.order(), value};
}

void ExactSearch::Take(const Option& option) {
  std::vector<bool> put_off = put_off_;
  for (int s : problem_.stages_of[option.rank]) put_off_[s] = false;
  prefix_.Push(option);
  Visit();
  prefix_.Pop();
  put_off_ = std::move(put_off);
}

std::vector<Option> ExactSearch::Branches(bool* put_off) {
  const std::vector<Option>& options = prefix_.FindOptions();
  const auto waits = [&](const Option& option) {
    return option.step.op == Op::kForward && put_off_[option.step.stage];
  };
  const Option* first = nullptr;
  for (const Option& option : options) {
    if (waits(option)) continue;
    if (first == nullptr || option.end < first->end ||
        (option.end == first->end && option.start < first->start)) {
      first = &option;
    }
  }
  if (first == nullptr) return {};
  std::vector<Option> branches{*first};
  for (const Option& option : options) {
    if (&option == first || waits(option) || option.rank != first->rank) continue;
    if (option.start < first->end) branches.push_back(option);
  }
  *put_off = may_put_off_ && first->step.op == Op::kForward;
  // What frees others first: I, then F, then W; the one to put off stays in front.
  const auto urgency = [](const Option& option) {
    return option.step.op == Op::kInputGrad ? 0 : option.step.op == Op::kForward ? 1 : 2;
  };
  std::stable_sort(branches.begin() + (*put_off ? 1 : 0), branches.end(),
                   [&](const Option& a, const Option& b) { return urgency(a) < urgency(b); });
  return branches;
}

// Whether an earlier prefix with the same actions left nothing to gain from this one; remembers
// this one otherwise.
bool ExactSearch::Dominated() {
  prefix_.Describe(&key_, &times_);
  for (int s = 0; may_put_off_ && s < problem_.stages; ++s) key_.push_back(put_off_[s] ? 1 : 0);
  auto& known = seen_[std::string(key_.begin(), key_.end())];
  const auto covers = [](const std::vector<double>& a, const std::vector<double>& b) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] > b[i]) return false;
    }
    return true;
  };
  for (const auto& other : known) {
    if (covers(other, times_)) return true;
  }
  known.erase(std::remove_if(known.begin(), known.end(),
                             [&](const auto& other) { return covers(times_, other); }),
              known.end());
  if (known.size() < kMostRemembered) known.push_back(times_);
  return false;
}

}  // namespace

ExactResult SearchExactly(const Problem& problem, double lower, double upper, int64_t most_nodes,
                          const Deadline& deadline) {
  return ExactSearch(problem, lower, upper, most_nodes, deadline).Run();
}

}  // namespace sluice::optimise
