#ifndef SLUICE_PARTITIONER_COSTS_CLUSTER_H_
#define SLUICE_PARTITIONER_COSTS_CLUSTER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "partitioner/costs/device.h"
#include "partitioner/costs/parallel.h"

namespace sluice {

// Devices in nodes: fast links inside, network cards between that the devices of a node share.
struct ClusterSpec {
  std::string name;
  std::string source;               // where the numbers come from
  std::vector<DeviceSpec> devices;  // an entry a kind, in the order in which ranks are given out
  std::vector<int> counts;          // how many of each
  int devices_per_node = 1;
  Link inside;   // what a device gets to the others of its node, in each direction
  Link between;  // one network card of a node, in each direction
  int cards_per_node = 1;

  int device_count() const;
  // Requires 0 <= index < device_count().
  const DeviceSpec& device(int index) const;
};

// `count` devices in one node, on the device's own link. Requires count >= 1.
ClusterSpec UniformCluster(const DeviceSpec& device, int count);

// {"name": "x", "devices": [{"device": "a100" or an object as in ParseDevice, "count": 64}, ...],
//  "devices_per_node": 8,
//  "inside": {"bandwidth": 3e11, "latency": 5e-6},
//  "between": {"bandwidth": 2.5e10, "latency": 1e-5}, "cards_per_node": 4}
// Bandwidths in bytes/s, one direction; "between" is one card. "inside" is the first device's link
// where it is left out; "between" and "cards_per_node" (1) may be left out where there is one node.
// A latency may be left out (0). InvalidArgument names `file` and the field that is missing,
// unknown or out of range.
absl::StatusOr<ClusterSpec> ParseCluster(absl::string_view json, absl::string_view file);
// What ParseCluster reads.
std::string FormatCluster(const ClusterSpec& cluster);

// What one of `ranks` ranks gets in a collective among them, where neighbours are `stride` devices
// apart (tensor parallelism: 1; data parallelism: the tensor degree) and all such groups of a node
// talk at the same time; of the group that gets least, as groups lie side by side from the first
// device on. Where no node cuts one that is `inside`; across nodes a ring uses every card, and
// shares them with the other rings that pass through the node.
Link GroupLink(const ClusterSpec& cluster, int ranks, int stride);

// What one device of pipeline rank `from` gets to its counterpart in pipeline rank `to`, when all
// devices of the rank send at the same time: `inside` where no pair crosses nodes, else at most one
// card, shared by the senders of a node. Devices are ordered as Parallel says; a pipeline rank has
// data * tensor of them. Requires ranks of at least 0. Where ranks hold kinds of devices in another
// order than the cluster has them, `from` and `to` are what GroupsOfRanks says of the ranks.
Link RankLink(const ClusterSpec& cluster, const Parallel& parallel, int from, int to);
// The same from rank `boundary` to the next one.
Link StageLink(const ClusterSpec& cluster, const Parallel& parallel, int boundary);

// [rank] which group of `shared` devices it holds, where it holds those of the kind `kinds[rank]`:
// groups follow one another from the first device on, and of its kind each rank holds the first
// group that no rank before it has. Requires that `shared` divides the number of every kind, and
// that no kind has more ranks than groups.
std::vector<int> GroupsOfRanks(const ClusterSpec& cluster, const std::vector<int>& kinds,
                               int shared);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_COSTS_CLUSTER_H_
