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
  const int64_t span = int64_t{ranks} * stride;
  if (span <= cluster.devices_per_node) return cluster.inside;
  // A node holds one rank of each of so many groups, or all the ranks it has of fewer.
  const int groups = std::min(stride, cluster.devices_per_node);
  return SharedCards(cluster, static_cast<double>(cluster.cards_per_node) / groups,
                     cluster.inside.bandwidth);
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

}  // namespace sluice
