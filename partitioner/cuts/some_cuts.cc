#include "partitioner/cuts/some_cuts.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <queue>
#include <utility>

#include "absl/status/statusor.h"

namespace sluice {
namespace {

using Blocks = std::vector<std::vector<int>>;

// The blocks that are left after so many merges.
class Merging {
 public:
  Merging(const ProfileGraph& graph, const std::vector<std::vector<int>>& stages) {
    for (const std::vector<int>& stage : stages) {
      order_.insert(order_.end(), stage.begin(), stage.end());
      fences_.push_back(order_.size());
    }
    for (const int node : order_) before_.push_back(before_.back() + graph.nodes[node].seconds());
    Merge();
  }

  size_t merges() const { return merged_.size(); }
  const std::vector<int>& order() const { return order_; }

  Blocks After(size_t merges) const {
    std::vector<char> starts(order_.size(), 1);
    for (size_t i = 0; i < merges; ++i) starts[merged_[i]] = 0;
    Blocks blocks;
    for (size_t at = 0; at < order_.size(); ++at) {
      if (starts[at] != 0) blocks.emplace_back();
      blocks.back().push_back(order_[at]);
    }
    return blocks;
  }

 private:
  // Two neighbouring runs that could become one, as they were when this was pushed.
  struct Pair {
    double cost;
    size_t first, middle, end;  // places in the order
    bool operator>(const Pair& other) const {
      return std::pair(cost, middle) > std::pair(other.cost, other.middle);
    }
  };

  // Seconds of the two together, over how far their middle is from the nearest cut.
  double Cost(size_t first, size_t end) const {
    const double seconds = before_[end] - before_[first];
    if (fences_.size() == 1) return seconds;
    const double middle = before_[first] + seconds / 2;
    double distance = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i + 1 < fences_.size(); ++i) {
      distance = std::min(distance, std::abs(middle - before_[fences_[i]]));
    }
    return distance > 0 ? seconds / distance : std::numeric_limits<double>::infinity();
  }

  void Merge() {
    const size_t count = order_.size();
    std::vector<size_t> start(count + 1), end(count + 1);  // of the run that ends, begins there
    for (size_t at = 0; at < count; ++at) {
      start[at + 1] = at;
      end[at] = at + 1;
    }
    std::vector<char> fence(count + 1);
    for (const size_t at : fences_) fence[at] = 1;
    std::priority_queue<Pair, std::vector<Pair>, std::greater<>> pairs;
    const auto offer = [&](size_t middle) {
      if (middle == 0 || middle >= count || fence[middle] != 0) return;
      pairs.push({Cost(start[middle], end[middle]), start[middle], middle, end[middle]});
    };
    for (size_t at = 1; at < count; ++at) offer(at);
    std::vector<char> gone(count + 1);
    while (!pairs.empty()) {
      const Pair pair = pairs.top();
      pairs.pop();
      const bool stale = gone[pair.middle] != 0 || start[pair.middle] != pair.first ||
                         end[pair.middle] != pair.end;
      if (stale) continue;
      gone[pair.middle] = 1;
      merged_.push_back(pair.middle);
      end[pair.first] = pair.end;
      start[pair.end] = pair.first;
      offer(pair.first);
      offer(pair.end);
    }
  }

  std::vector<int> order_;
  std::vector<size_t> fences_;        // where stages end
  std::vector<double> before_ = {0};  // seconds before each place
  std::vector<size_t> merged_;        // places where a block no longer begins, first merge first
};

}  // namespace

Downsets ListSomeCuts(const ProfileGraph& graph, const std::vector<std::vector<int>>& stages,
                      int64_t most) {
  const Merging merging(graph, stages);
  // A merge leaves some of the cuts that there were: the fewest merges are found by halving.
  std::optional<Downsets> found;
  size_t low = 0, high = merging.merges() + 1;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (middle > merging.merges()) break;
    absl::StatusOr<Downsets> sets = Downsets::OfBlocks(graph, merging.After(middle), most);
    if (sets.ok()) {
      found = *std::move(sets);
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  if (found) return *std::move(found);
  // So many stages side by side that not even their own cuts can be listed.
  return Downsets::Prefixes(graph, merging.order());
}

}  // namespace sluice
