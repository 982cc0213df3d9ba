#include "schedules/optimise/exact/layered_search.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "schedules/optimise/exact/prefix.h"
#include "schedules/optimise/exact/prefix_layer.h"

namespace sluice::optimise {
namespace {

// A layer keeps at least so many prefixes, and at most so many: they take memory.
constexpr int64_t kLeastWidth = 16;
constexpr int64_t kMostWidth = 50'000;
// Prefixes that one prefix grows to, about.
constexpr int64_t kGrowth = 3;
// A layer may use this many times its share of what is left to look at: most layers need less.
constexpr int64_t kShare = 4;
constexpr size_t kLookAtClock = 256;

class LayeredSearch {
 public:
  LayeredSearch(const Problem& problem, const Relaxation& relaxation, double limit,
                int64_t most_prefixes, const Deadline& deadline)
      : problem_(problem),
        prefix_(problem, relaxation, limit),
        most_prefixes_(most_prefixes),
        deadline_(deadline) {}

  LayeredResult Run();

 private:
  // Grows all prefixes of `layer_` by one action. Returns false at the deadline.
  bool GrowLayer();
  void GrowPrefix(uint32_t index);
  size_t Width(int layers_left) const;
  void FindBest();
  Order OrderTo(size_t index) const;

  const Problem& problem_;
  Prefix prefix_;
  const int64_t most_prefixes_;
  const Deadline& deadline_;
  PrefixLayer layer_;  // then the one with one F, I or W more, and with two more: B is I and W
  PrefixLayer next_, after_next_;
  std::vector<std::vector<Link>> links_;  // [layer][prefix]
  // Kept from one prefix to the next, for their memory.
  PrefixState grown_;
  std::vector<Option> branches_;
  LayeredResult result_;
};

LayeredResult LayeredSearch::Run() {
  PrefixState empty = prefix_.Empty();
  if (!prefix_.Load(empty)) return std::move(result_);
  layer_.Add(empty, {});
  const int actions = 3 * problem_.stages * problem_.micro_batches;
  for (int done = 1; done <= actions; ++done) {
    if (!GrowLayer()) {
      result_.exhausted = false;
      return std::move(result_);
    }
    layer_ = std::exchange(next_, std::exchange(after_next_, {}));
    if (layer_.size() == 0 && next_.size() == 0) return std::move(result_);
    if (layer_.Keep(Width(actions - done))) result_.exhausted = false;
    links_.push_back(layer_.links());
  }
  FindBest();
  return std::move(result_);
}

size_t LayeredSearch::Width(int layers_left) const {
  const int64_t left = std::max(int64_t{0}, most_prefixes_ - result_.prefixes);
  const int64_t width = kShare * left / (kGrowth * std::max(1, layers_left));
  return static_cast<size_t>(std::clamp(width, kLeastWidth, kMostWidth));
}

bool LayeredSearch::GrowLayer() {
  for (size_t i = 0; i < layer_.size(); ++i) {
    if (i % kLookAtClock == 0 && deadline_.passed()) return false;
    GrowPrefix(static_cast<uint32_t>(i));
  }
  return true;
}

void LayeredSearch::GrowPrefix(uint32_t index) {
  if (!prefix_.Load(layer_.state(index))) return;
  for (int put_off = 0; put_off >= 0;) {
    prefix_.FindBranches(&branches_, &put_off);
    for (const Option& option : branches_) {
      ++result_.prefixes;
      PrefixLayer& next = option.step.op == Op::kBackward ? after_next_ : next_;
      prefix_.Grow(option);
      const bool kept =
          prefix_.FindState(&grown_) && !next.Covers(grown_) && prefix_.FindBound(&grown_);
      if (kept) next.Add(grown_, {index, option.step});
      prefix_.Shrink();
    }
    if (put_off >= 0 && !prefix_.PutOff(put_off)) return;
  }
}

void LayeredSearch::FindBest() {
  size_t best = 0;
  for (size_t i = 0; i < layer_.size(); ++i) {
    prefix_.Load(layer_.state(i));
    if (prefix_.value() >= result_.best.value) continue;
    result_.best.value = prefix_.value();
    best = i;
  }
  if (layer_.size() > 0) result_.best.order = OrderTo(best);
}

Order LayeredSearch::OrderTo(size_t index) const {
  Order order(problem_.ranks);
  for (size_t layer = links_.size(); layer > 0;) {
    const Link& link = links_[layer - 1][index];
    order[problem_.placement.rank(link.step.stage)].push_back(link.step);
    index = link.parent;
    layer -= link.step.op == Op::kBackward ? 2 : 1;
  }
  for (std::vector<Step>& row : order) std::reverse(row.begin(), row.end());
  return order;
}

}  // namespace

LayeredResult SearchLayers(const Problem& problem, const Relaxation& relaxation, double limit,
                           int64_t most_prefixes, const Deadline& deadline) {
  return LayeredSearch(problem, relaxation, limit, most_prefixes, deadline).Run();
}

}  // namespace sluice::optimise
