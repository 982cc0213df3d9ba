#include "partitioner/cuts/downsets.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr size_t kBits = 64;

bool Has(const uint64_t* members, int node) {
  return (members[node / kBits] >> (node % kBits) & 1) != 0;
}

void Put(uint64_t* members, int node) { members[node / kBits] |= uint64_t{1} << (node % kBits); }

}  // namespace

// Breadth first: all sets of k nodes, then those of k + 1, each made from every set that lacks one
// of its nodes.
class DownsetBuilder {
 public:
  explicit DownsetBuilder(const ProfileGraph& graph) : graph_(graph) {
    sets_.words_ = (graph.nodes.size() + kBits - 1) / kBits;
  }

  absl::StatusOr<Downsets> Build(int64_t most) {
    StartEmpty();
    int level_begin = 0;
    for (size_t level = 0; level < graph_.nodes.size(); ++level) {
      const int level_end = sets_.size();
      const int begin = std::exchange(level_begin, level_end);
      GrowLevel(begin, level_end);
      if (sets_.size() > most) {
        return absl::ResourceExhaustedError(absl::StrCat(
            "the graph can be cut in more than ", most, " ways; merge nodes that belong together"));
      }
    }
    Sort();
    return std::move(sets_);
  }

  Downsets BuildPrefixes() {
    StartEmpty();
    std::vector<uint64_t> members(sets_.words_);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      const int node = static_cast<int>(i);
      Put(members.data(), node);
      AddGrown(node, node, members);
      edges_.emplace_back(node + 1, node);
    }
    Sort();
    return std::move(sets_);
  }

 private:
  using Key = absl::Span<const uint64_t>;

  const uint64_t* Members(int set) const { return &sets_.members_[set * sets_.words_]; }

  void StartEmpty() {
    sets_.members_.assign(sets_.words_, 0);
    AddSums(0, 0, 0, 0);
    ready_.emplace_back();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].sources.empty()) ready_[0].push_back(static_cast<int>(i));
    }
  }

  void AddSums(int64_t picoseconds, double parameters, double activations, double cut) {
    sets_.picoseconds_.push_back(picoseconds);
    sets_.parameter_bytes_.push_back(parameters);
    sets_.activation_bytes_.push_back(activations);
    sets_.cut_bytes_.push_back(cut);
  }

  void GrowLevel(int begin, int end) {
    by_hash_.clear();
    for (int set = begin; set < end; ++set) {
      const std::vector<int> ready = std::move(ready_[set]);
      for (const int node : ready) edges_.emplace_back(With(set, ready, node), set);
    }
  }

  // The number of `set` with `node`, which is one of its `ready` nodes.
  int With(int set, const std::vector<int>& ready, int node) {
    std::vector<uint64_t>& grown = scratch_;
    grown.assign(Members(set), Members(set) + sets_.words_);
    Put(grown.data(), node);
    int& first = by_hash_.try_emplace(absl::Hash<Key>()(Key(grown)), -1).first->second;
    for (int at = first; at >= 0; at = next_same_hash_[at]) {
      if (std::equal(grown.begin(), grown.end(), Members(at))) return at;
    }
    const int added = sets_.size();
    next_same_hash_.resize(static_cast<size_t>(added) + 1, -1);
    next_same_hash_[added] = first;
    first = added;
    sets_.members_.insert(sets_.members_.end(), grown.begin(), grown.end());
    const ProfileNode& work = graph_.nodes[node];
    AddSums(sets_.picoseconds_[set] + std::llround(work.seconds() / Downsets::kPico),
            sets_.parameter_bytes_[set] + work.parameter_bytes,
            sets_.activation_bytes_[set] + work.activation_bytes, CutWith(set, grown.data(), node));
    ready_.push_back(ReadyWith(ready, grown.data(), node));
    return added;
  }

  // `grown` is `set` with `node`.
  void AddGrown(int set, int node, const std::vector<uint64_t>& grown) {
    sets_.members_.insert(sets_.members_.end(), grown.begin(), grown.end());
    const ProfileNode& work = graph_.nodes[node];
    AddSums(sets_.picoseconds_[set] + std::llround(work.seconds() / Downsets::kPico),
            sets_.parameter_bytes_[set] + work.parameter_bytes,
            sets_.activation_bytes_[set] + work.activation_bytes, CutWith(set, grown.data(), node));
  }

  bool AllIn(const uint64_t* members, const std::vector<int>& nodes) const {
    return std::all_of(nodes.begin(), nodes.end(), [&](int node) { return Has(members, node); });
  }

  double CutWith(int set, const uint64_t* grown, int node) const {
    const ProfileNode& added = graph_.nodes[node];
    double cut = sets_.cut_bytes_[set] + (added.users.empty() ? 0 : added.activation_bytes);
    for (const int source : added.sources) {
      const ProfileNode& used = graph_.nodes[source];
      if (AllIn(grown, used.users)) cut -= used.activation_bytes;
    }
    return cut;
  }

  std::vector<int> ReadyWith(const std::vector<int>& ready, const uint64_t* grown, int node) const {
    std::vector<int> now;
    for (const int other : ready) {
      if (other != node) now.push_back(other);
    }
    for (const int user : graph_.nodes[node].users) {
      if (AllIn(grown, graph_.nodes[user].sources)) now.push_back(user);
    }
    return now;
  }

  // Numbers the sets by their seconds. Breadth first, subsets came first, and keep doing so.
  void Sort() {
    std::vector<int> order(sets_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return sets_.picoseconds_[a] < sets_.picoseconds_[b]; });
    std::vector<int> number(order.size());
    for (size_t i = 0; i < order.size(); ++i) number[order[i]] = static_cast<int>(i);
    StoreEdges(number);
    Permute(order, &sets_.picoseconds_);
    Permute(order, &sets_.parameter_bytes_);
    Permute(order, &sets_.activation_bytes_);
    Permute(order, &sets_.cut_bytes_);
    std::vector<uint64_t> members;
    members.reserve(sets_.members_.size());
    for (const int set : order) {
      members.insert(members.end(), Members(set), Members(set) + sets_.words_);
    }
    sets_.members_ = std::move(members);
  }

  template <typename Value>
  static void Permute(const std::vector<int>& order, std::vector<Value>* values) {
    std::vector<Value> sorted;
    sorted.reserve(order.size());
    for (const int from : order) sorted.push_back((*values)[from]);
    *values = std::move(sorted);
  }

  // From (set, smaller set) pairs to ranges a set.
  void StoreEdges(const std::vector<int>& number) {
    std::vector<size_t>& first = sets_.first_smaller_;
    first.assign(number.size() + 1, 0);
    for (const auto& [set, smaller] : edges_) ++first[number[set] + 1];
    std::partial_sum(first.begin(), first.end(), first.begin());
    sets_.smaller_.resize(edges_.size());
    std::vector<size_t> at(first.begin(), first.end() - 1);
    for (const auto& [set, smaller] : edges_) sets_.smaller_[at[number[set]]++] = number[smaller];
  }

  const ProfileGraph& graph_;
  Downsets sets_;
  std::vector<std::vector<int>> ready_;  // [set] nodes that can come next; emptied once used
  std::vector<std::pair<int, int>> edges_;
  absl::flat_hash_map<size_t, int> by_hash_;  // of one level: the newest set with that hash
  std::vector<int> next_same_hash_;           // [set]
  std::vector<uint64_t> scratch_;
};

absl::StatusOr<Downsets> Downsets::Enumerate(const ProfileGraph& graph, int64_t most) {
  return DownsetBuilder(graph).Build(most);
}

Downsets Downsets::Prefixes(const ProfileGraph& graph) {
  return DownsetBuilder(graph).BuildPrefixes();
}

std::vector<int> Downsets::Along(const std::vector<int>& order) const {
  std::vector<int> sets(order.size() + 1, size() - 1);
  for (size_t i = order.size(); i > 0; --i) {
    for (const int smaller : Smaller(sets[i])) {
      if (NodesBetween(smaller, sets[i]).front() == order[i - 1]) sets[i - 1] = smaller;
    }
  }
  return sets;
}

std::vector<int> Downsets::NodesBetween(int part, int set) const {
  std::vector<int> nodes;
  for (size_t node = 0; node < words_ * kBits; ++node) {
    const auto index = static_cast<int>(node);
    if (Has(&members_[set * words_], index) && !Has(&members_[part * words_], index)) {
      nodes.push_back(index);
    }
  }
  return nodes;
}

}  // namespace sluice
