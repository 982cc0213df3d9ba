#include "partitioner/costs/cluster.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace sluice {
namespace {

Link SharedCards(const ClusterSpec& cluster, double cards, double most) {
  Link link = cluster.between;
  link.bandwidth = std::min(most, link.bandwidth * cards);
  return link;
}

// Of the `stride` rings of a block of `span` devices, those that have a device among `inside`
// neighbours of the block and another one elsewhere.
int64_t RingsThatLeave(int64_t inside, int64_t span, int64_t stride) {
  return std::min(inside, stride) + std::min(span - inside, stride) - stride;
}

}  // namespace

int ClusterSpec::device_count() const { return std::accumulate(counts.begin(), counts.end(), 0); }

const DeviceSpec& ClusterSpec::device(int index) const {
  size_t kind = 0;
  while (kind + 1 < counts.size() && index >= counts[kind]) index -= counts[kind++];
  return devices[kind];
}

ClusterSpec UniformCluster(const DeviceSpec& device, int count) {
  ClusterSpec cluster;
  cluster.name = device.name;
  cluster.source = device.source;
  cluster.devices = {device};
  cluster.counts = {count};
  cluster.devices_per_node = count;
  cluster.inside = cluster.between = device.link;
  return cluster;
}

Link GroupLink(const ClusterSpec& cluster, int ranks, int stride) {
  // `stride` groups share each of the blocks of `span` devices that follow one another. Nodes cut
  // the blocks in the same way again after span / gcd(span, per_node) of them.
  const int64_t span = int64_t{ranks} * stride, per_node = cluster.devices_per_node;
  const int64_t end = std::max<int64_t>(cluster.device_count() / span, 1) * span;
  const int64_t nodes = std::min((end - 1) / per_node + 1, span / std::gcd(span, per_node));
  int64_t rings = 0;  // that leave the node that most of them leave
  for (int64_t node = 0; node < nodes; ++node) {
    const int64_t low = node * per_node, high = std::min(low + per_node, end);
    const int64_t first = low / span, last = (high - 1) / span;
    const int64_t in_first = std::min(high, (first + 1) * span) - low;
    int64_t leave = RingsThatLeave(in_first, span, stride);
    if (last > first) leave += RingsThatLeave(high - last * span, span, stride);
    rings = std::max(rings, leave);
  }
  if (rings == 0) return cluster.inside;
  const double cards = static_cast<double>(cluster.cards_per_node) / static_cast<double>(rings);
  return SharedCards(cluster, cards, cluster.inside.bandwidth);
}

Link RankLink(const ClusterSpec& cluster, const Parallel& parallel, int from, int to) {
  const int64_t peers = parallel.ranks(), per_node = cluster.devices_per_node;
  const int64_t first = from * peers, end = first + peers, away = (to - from) * peers;
  int64_t senders = 0;  // in the node that has most of them
  for (int64_t node = first / per_node; node * per_node < end; ++node) {
    const int64_t low = std::max(first, node * per_node);
    const int64_t high = std::min(end, (node + 1) * per_node);
    // Device d sends to d + away: it stays in the node where that lies in the node, too.
    const int64_t stay_low = std::clamp(node * per_node - away, low, high);
    const int64_t stay_high = std::clamp((node + 1) * per_node - away, low, high);
    senders = std::max(senders, high - low - (stay_high - stay_low));
  }
  if (senders == 0) return cluster.inside;
  const double cards = static_cast<double>(cluster.cards_per_node) / static_cast<double>(senders);
  return SharedCards(cluster, std::min(1.0, cards), cluster.inside.bandwidth);
}

Link StageLink(const ClusterSpec& cluster, const Parallel& parallel, int boundary) {
  return RankLink(cluster, parallel, boundary, boundary + 1);
}

std::vector<int> GroupsOfRanks(const ClusterSpec& cluster, const std::vector<int>& kinds,
                               int shared) {
  std::vector<int> next;  // [kind] the first group that nobody has yet
  int first = 0;
  for (const int count : cluster.counts) {
    next.push_back(first);
    first += count / shared;
  }
  std::vector<int> groups;
  groups.reserve(kinds.size());
  for (const int kind : kinds) groups.push_back(next[kind]++);
  return groups;
}

}  // namespace sluice
