#include "comm/device_group.h"

namespace sluice {

class DeviceGroup::Member : public Communicator {
 public:
  Member(DeviceGroup* group, int rank, DeviceEdge::Queue queue, Communicator* host)
      : group_(*group), rank_(rank), queue_(queue), host_(*host) {}
  int rank() const override { return rank_; }
  int size() const override { return group_.ranks_; }

  absl::Status PostSend(int to, const void* data, size_t bytes, Ticket* ticket) override {
    // An edge never writes what its sender posts.
    return group_.edge(rank_, to).Post(DeviceEdge::kSender, queue_, const_cast<void*>(data), bytes,
                                       ticket);
  }
  absl::Status PostReceive(int from, void* data, size_t bytes, Ticket* ticket) override {
    return group_.edge(from, rank_).Post(DeviceEdge::kReceiver, queue_, data, bytes, ticket);
  }
  absl::Status WaitSend(int to, Ticket ticket, Instant deadline) override {
    return group_.edge(rank_, to).Wait(DeviceEdge::kSender, queue_, ticket, deadline);
  }
  absl::Status WaitReceive(int from, Ticket ticket, Instant deadline) override {
    return group_.edge(from, rank_).Wait(DeviceEdge::kReceiver, queue_, ticket, deadline);
  }
  absl::Status AllGather(absl::Span<const double> mine, absl::Span<double> all,
                         Instant deadline) override {
    return host_.AllGather(mine, all, deadline);
  }
  absl::Status Barrier(Instant deadline) override { return host_.Barrier(deadline); }

  void Abort(const absl::Status& status) override {
    // Whoever learns of it from the host finds every edge closed.
    group_.Abort(status);
    host_.Abort(status);
  }
  absl::Status failure() const override { return host_.failure(); }

 private:
  DeviceGroup& group_;
  const int rank_;
  const DeviceEdge::Queue queue_;
  Communicator& host_;
};

DeviceGroup::DeviceGroup(int ranks, size_t capacity) : ranks_(ranks) {
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to)
      edges_.push_back(std::make_unique<DeviceEdge>(from, to, capacity));
  }
}

void DeviceGroup::Abort(const absl::Status& status) {
  const std::lock_guard lock(aborting_);
  for (auto& edge : edges_) edge->Abort(status);
}

std::unique_ptr<Communicator> DeviceGroup::Join(int rank, Device* device, Stream stream,
                                                Communicator* host) {
  return std::make_unique<Member>(this, rank, DeviceEdge::Queue{.device = device, .stream = stream},
                                  host);
}

}  // namespace sluice
