#include "partitioner/cuts/downsets.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr size_t kBits = 64;
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

bool Has(const uint64_t* members, int node) {
  return (members[node / kBits] >> (node % kBits) & 1) != 0;
}

void Put(uint64_t* members, int node) { members[node / kBits] |= uint64_t{1} << (node % kBits); }

void Take(uint64_t* members, int node) {
  members[node / kBits] &= ~(uint64_t{1} << (node % kBits));
}

bool Within(const uint64_t* part, const uint64_t* members, size_t words) {
  for (size_t word = 0; word < words; ++word) {
    if ((part[word] & ~members[word]) != 0) return false;
  }
  return true;
}

}  // namespace

// Breadth first: all sets of k blocks, then those of k + 1, each made from every set that lacks one
// of its blocks.
class DownsetBuilder {
 public:
  // Nodes that are added together, and the blocks next to them.
  struct Block {
    std::vector<int> nodes;  // sources first
    std::vector<int> sources, users;
  };

  DownsetBuilder(const ProfileGraph& graph, std::vector<Block> blocks)
      : graph_(graph), blocks_(std::move(blocks)) {
    sets_.words_ = (graph.nodes.size() + kBits - 1) / kBits;
    for (const ProfileNode& node : graph.nodes)
      picoseconds_.push_back(std::llround(node.seconds() / Downsets::kPico));
  }

  absl::StatusOr<Downsets> Build(int64_t most) {
    if (!AtMost(most)) {
      return absl::ResourceExhaustedError(absl::StrCat("the graph can be cut in more than ", most,
                                                       " ways; merge nodes that belong together"));
    }
    StartEmpty();
    int level_begin = 0;
    for (size_t level = 0; level < blocks_.size(); ++level) {
      const int level_end = sets_.size();
      GrowLevel(std::exchange(level_begin, level_end), level_end);
    }
    Sort();
    return std::move(sets_);
  }

 private:
  using Key = absl::Span<const uint64_t>;

  // Whether there are no more than `most` sets. They are counted depth first, in a tenth of the time
  // that listing them takes: first those with a block that can come next, then those without it.
  bool AtMost(int64_t most) const {
    std::vector<int> missing(blocks_.size(), 0);  // [block] sources that are not in the set
    for (const Block& block : blocks_) {
      for (const int user : block.users) ++missing[user];
    }
    // Blocks that can come next, as lists that share their ends.
    struct Candidate {
      int block;
      int rest;  // the list after it
    };
    constexpr int kNoMore = -1;
    std::vector<Candidate> candidates;
    int next = kNoMore;
    const auto add = [&](int block) {
      candidates.push_back({block, next});
      next = static_cast<int>(candidates.size()) - 1;
    };
    for (size_t i = 0; i < blocks_.size(); ++i) {
      if (missing[i] == 0) add(static_cast<int>(i));
    }
    struct Added {
      int block;
      int without;        // the candidates of the sets without it
      size_t candidates;  // how many there were before it
    };
    std::vector<Added> way;
    int64_t sets = 1;
    while (sets <= most) {
      if (next == kNoMore) {
        if (way.empty()) return true;
        const Added& last = way.back();
        for (const int user : blocks_[last.block].users) ++missing[user];
        candidates.resize(last.candidates);
        next = last.without;
        way.pop_back();
        continue;
      }
      const auto [block, rest] = candidates[next];
      ++sets;
      way.push_back({block, rest, candidates.size()});
      next = rest;
      for (const int user : blocks_[block].users) {
        if (--missing[user] == 0) add(user);
      }
    }
    return false;
  }

  const uint64_t* Members(int set) const { return &sets_.members_[set * sets_.words_]; }

  void StartEmpty() {
    sets_.members_.assign(sets_.words_, 0);
    AddSums(0, 0, 0, 0);
    ready_.emplace_back();
    for (size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i].sources.empty()) ready_[0].push_back(static_cast<int>(i));
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
      for (const int block : ready) edges_.emplace_back(With(set, ready, block), set);
    }
  }

  // The number of `set` with `block`, which is one of its `ready` blocks.
  int With(int set, const std::vector<int>& ready, int block) {
    std::vector<uint64_t>& grown = scratch_;
    grown.assign(Members(set), Members(set) + sets_.words_);
    for (const int node : blocks_[block].nodes) Put(grown.data(), node);
    int& first = by_hash_.try_emplace(absl::Hash<Key>()(Key(grown)), -1).first->second;
    for (int at = first; at >= 0; at = next_same_hash_[at]) {
      if (std::equal(grown.begin(), grown.end(), Members(at))) return at;
    }
    const int added = sets_.size();
    next_same_hash_.resize(static_cast<size_t>(added) + 1, -1);
    next_same_hash_[added] = first;
    first = added;
    sets_.members_.insert(sets_.members_.end(), grown.begin(), grown.end());
    AddSumsOf(set, block);
    ready_.push_back(ReadyWith(ready, grown.data(), block));
    return added;
  }

  // Of `set` with the nodes of `block`, one after the other.
  void AddSumsOf(int set, int block) {
    int64_t picoseconds = sets_.picoseconds_[set];
    double parameters = sets_.parameter_bytes_[set], activations = sets_.activation_bytes_[set];
    double cut = sets_.cut_bytes_[set];
    partly_.assign(Members(set), Members(set) + sets_.words_);
    for (const int node : blocks_[block].nodes) {
      const ProfileNode& work = graph_.nodes[node];
      Put(partly_.data(), node);
      picoseconds += picoseconds_[node];
      parameters += work.parameter_bytes;
      activations += work.activation_bytes;
      cut = CutWith(cut, partly_.data(), node);
    }
    AddSums(picoseconds, parameters, activations, cut);
  }

  bool AllIn(const uint64_t* members, const std::vector<int>& nodes) const {
    return std::all_of(nodes.begin(), nodes.end(), [&](int node) { return Has(members, node); });
  }

  // What crosses the cut after `grown` where `cut` crosses it without its `node`.
  double CutWith(double cut, const uint64_t* grown, int node) const {
    const ProfileNode& added = graph_.nodes[node];
    cut += added.users.empty() ? 0 : added.activation_bytes;
    for (const int source : added.sources) {
      const ProfileNode& used = graph_.nodes[source];
      if (AllIn(grown, used.users)) cut -= used.activation_bytes;
    }
    return cut;
  }

  // A block is in a set where its first node is.
  bool HasBlocks(const uint64_t* members, const std::vector<int>& blocks) const {
    return std::all_of(blocks.begin(), blocks.end(),
                       [&](int block) { return Has(members, blocks_[block].nodes.front()); });
  }

  std::vector<int> ReadyWith(const std::vector<int>& ready, const uint64_t* grown,
                             int block) const {
    std::vector<int> now;
    for (const int other : ready) {
      if (other != block) now.push_back(other);
    }
    for (const int user : blocks_[block].users) {
      if (HasBlocks(grown, blocks_[user].sources)) now.push_back(user);
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
  const std::vector<Block> blocks_;
  std::vector<int64_t> picoseconds_;  // [node]
  Downsets sets_;
  std::vector<std::vector<int>> ready_;  // [set] blocks that can come next; emptied once used
  std::vector<std::pair<int, int>> edges_;
  absl::flat_hash_map<size_t, int> by_hash_;  // of one level: the newest set with that hash
  std::vector<int> next_same_hash_;           // [set]
  std::vector<uint64_t> scratch_, partly_;
};

namespace {

using NodeBlock = DownsetBuilder::Block;

std::vector<NodeBlock> SingleNodes(const ProfileGraph& graph) {
  std::vector<NodeBlock> blocks;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    blocks.push_back({{static_cast<int>(i)}, graph.nodes[i].sources, graph.nodes[i].users});
  }
  return blocks;
}

std::vector<NodeBlock> Merged(const ProfileGraph& graph,
                              const std::vector<std::vector<int>>& nodes) {
  std::vector<int> block_of(graph.nodes.size());
  for (size_t block = 0; block < nodes.size(); ++block) {
    for (const int node : nodes[block]) block_of[node] = static_cast<int>(block);
  }
  std::vector<NodeBlock> blocks;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const int number = static_cast<int>(i);
    NodeBlock block{nodes[i], {}, {}};
    for (const int node : nodes[i]) {
      for (const int source : graph.nodes[node].sources) block.sources.push_back(block_of[source]);
    }
    std::erase(block.sources, number);
    std::sort(block.sources.begin(), block.sources.end());
    block.sources.erase(std::unique(block.sources.begin(), block.sources.end()),
                        block.sources.end());
    for (const int source : block.sources) blocks[source].users.push_back(number);
    blocks.push_back(std::move(block));
  }
  return blocks;
}

// Each after the one before it, whatever their nodes use.
std::vector<NodeBlock> InOneOrder(const std::vector<int>& order) {
  std::vector<NodeBlock> blocks;
  for (size_t i = 0; i < order.size(); ++i) {
    const int number = static_cast<int>(i);
    blocks.push_back({{order[i]}, {}, {}});
    if (i > 0) blocks[i].sources = {number - 1};
    if (i + 1 < order.size()) blocks[i].users = {number + 1};
  }
  return blocks;
}

}  // namespace

absl::StatusOr<Downsets> Downsets::Enumerate(const ProfileGraph& graph, int64_t most) {
  return DownsetBuilder(graph, SingleNodes(graph)).Build(most);
}

absl::StatusOr<Downsets> Downsets::OfBlocks(const ProfileGraph& graph,
                                            const std::vector<std::vector<int>>& blocks,
                                            int64_t most) {
  absl::StatusOr<Downsets> sets = DownsetBuilder(graph, Merged(graph, blocks)).Build(most);
  if (sets.ok()) sets->all_ = blocks.size() == graph.nodes.size();
  return sets;
}

Downsets Downsets::Prefixes(const ProfileGraph& graph, const std::vector<int>& order) {
  // No more than the nodes and the empty one.
  Downsets sets = *DownsetBuilder(graph, InOneOrder(order)).Build(kNoLimit);
  sets.all_ = false;
  return sets;
}

Downsets Downsets::Prefixes(const ProfileGraph& graph) {
  std::vector<int> order(graph.nodes.size());
  std::iota(order.begin(), order.end(), 0);
  return Prefixes(graph, order);
}

std::vector<int> Downsets::Along(const std::vector<int>& order) const {
  std::vector<int> sets(order.size() + 1, -1);
  std::vector<uint64_t> prefix(members_.end() - static_cast<ptrdiff_t>(words_), members_.end());
  int at = size() - 1;
  sets.back() = at;
  for (size_t i = order.size(); i > 0; --i) {
    Take(prefix.data(), order[i - 1]);
    // Down to the smallest set around the prefix.
    for (bool smaller = true; smaller;) {
      smaller = false;
      for (const int next : Smaller(at)) {
        if (!Within(prefix.data(), &members_[next * words_], words_)) continue;
        at = next;
        smaller = true;
        break;
      }
    }
    if (std::equal(prefix.begin(), prefix.end(), &members_[at * words_])) sets[i - 1] = at;
  }
  return sets;
}

std::vector<int> Downsets::NodesBetween(int part, int set) const {
  std::vector<int> nodes;
  for (size_t word = 0; word < words_; ++word) {
    uint64_t left = members_[set * words_ + word] & ~members_[part * words_ + word];
    for (; left != 0; left &= left - 1)
      nodes.push_back(static_cast<int>(word * kBits) + std::countr_zero(left));
  }
  return nodes;
}

}  // namespace sluice
