#ifndef SLUICE_COMM_DEVICE_GROUP_H_
#define SLUICE_COMM_DEVICE_GROUP_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "comm/communicator.h"
#include "comm/device_edge.h"
#include "models/device/device.h"

namespace sluice {

// The ranks of one process whose tensors lie on devices: threads that queue their work on streams.
// A message is ordered among the work of both ranks: it is sent after all that the sender had
// queued when it posted, and is there for all that the receiver queues once its wait has returned.
// No thread waits for a device.
class DeviceGroup {
 public:
  explicit DeviceGroup(int ranks, size_t capacity = 1024);
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  // The end of `rank`, whose work is queued on `stream` of `device`. `host` joins the same ranks
  // for all-gathers and barriers, which are of ordinary memory; an Abort stops both. All three, and
  // the group, must outlive it.
  std::unique_ptr<Communicator> Join(int rank, Device* device, Stream stream, Communicator* host);

 private:
  class Member;
  DeviceEdge& edge(int from, int to) {
    return *edges_[static_cast<size_t>(from) * static_cast<size_t>(ranks_) +
                   static_cast<size_t>(to)];
  }

  // The first one wins, on every edge.
  void Abort(const absl::Status& status);

  const int ranks_;
  std::mutex aborting_;
  std::vector<std::unique_ptr<DeviceEdge>> edges_;
};

}  // namespace sluice

#endif  // SLUICE_COMM_DEVICE_GROUP_H_
