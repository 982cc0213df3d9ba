#ifndef SLUICE_PARTITIONER_CUTS_DOWNSETS_H_
#define SLUICE_PARTITIONER_CUTS_DOWNSETS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "models/spec/profile_graph.h"

namespace sluice {

// Every set of a graph's nodes that holds the sources of all its nodes: what can lie before a cut.
// A pipeline is a growing chain of them. Numbered by their seconds, and by their size where these
// are equal: a set comes after all its subsets, 0 is empty, size() - 1 is the whole graph.
// Of graphs that have too many, only some: all those made of whole blocks of nodes.
class Downsets {
 public:
  // ResourceExhausted when there are more than `most`.
  static absl::StatusOr<Downsets> Enumerate(const ProfileGraph& graph, int64_t most);
  // Those in which each of `blocks` is whole or not at all. The blocks share out the nodes; those
  // of one block, and the blocks, stand in an order with sources first. ResourceExhausted as above.
  static absl::StatusOr<Downsets> OfBlocks(const ProfileGraph& graph,
                                           const std::vector<std::vector<int>>& blocks,
                                           int64_t most);
  // Only the first k nodes of `order`, which has all of them with sources first, for each k: few,
  // and good cuts are often among them. The second: in the order of the graph.
  static Downsets Prefixes(const ProfileGraph& graph, const std::vector<int>& order);
  static Downsets Prefixes(const ProfileGraph& graph);

  // Whether these are all sets of the graph, so that what holds over them holds over every cut.
  bool all() const { return all_; }
  int size() const { return static_cast<int>(picoseconds_.size()); }
  // Sums over the nodes of the set. Time is counted in whole picoseconds, so that sums do not
  // depend on their order.
  double seconds(int set) const { return static_cast<double>(picoseconds_[set]) * kPico; }
  double parameter_bytes(int set) const { return parameter_bytes_[set]; }
  double activation_bytes(int set) const { return activation_bytes_[set]; }
  // Outputs of nodes inside that a node outside uses, each once.
  double cut_bytes(int set) const { return cut_bytes_[set]; }
  // The largest sets that lie inside: with one node less, or with one block less.
  absl::Span<const int> Smaller(int set) const {
    return absl::MakeConstSpan(smaller_).subspan(first_smaller_[set],
                                                 first_smaller_[set + 1] - first_smaller_[set]);
  }
  // Whether all of `part` is in `set`.
  bool Inside(int part, int set) const {
    for (size_t word = 0; word < words_; ++word) {
      if ((members_[part * words_ + word] & ~members_[set * words_ + word]) != 0) return false;
    }
    return true;
  }
  // The sets of the first 0, 1, 2, ... nodes of `order`, which has all of them, sources first; -1
  // for one that is not among these.
  std::vector<int> Along(const std::vector<int>& order) const;
  // Nodes of `set` that are not in `part`, ascending.
  std::vector<int> NodesBetween(int part, int set) const;

 private:
  static constexpr double kPico = 1e-12;
  friend class DownsetBuilder;
  bool all_ = true;
  size_t words_ = 0;
  std::vector<uint64_t> members_;  // [set][word]
  std::vector<int64_t> picoseconds_;
  std::vector<double> parameter_bytes_, activation_bytes_, cut_bytes_;
  std::vector<int> smaller_;
  std::vector<size_t> first_smaller_;  // [set]; one more at the end
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_CUTS_DOWNSETS_H_
