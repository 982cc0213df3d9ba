#include "partitioner/planning/profiling/device_link.h"

#include <algorithm>
#include <array>
#include <memory>

#include "absl/time/time.h"
#include "comm/device_group.h"
#include "comm/local/in_process.h"
#include "models/device/instant.h"

namespace sluice {
namespace {

constexpr int64_t kSmall = 64;
constexpr int64_t kLarge = int64_t{16} << 20;  // as activations of large models are
constexpr int kRounds = 8;                     // queued at once
constexpr int kRepetitions = 3;

Instant Deadline() { return Instant::Now() + absl::Minutes(1); }

// Two ranks, both driven by the calling thread: nothing that they call waits for the device.
class Pair {
 public:
  static absl::StatusOr<std::unique_ptr<Pair>> Create(Device* device) {
    std::unique_ptr<Pair> pair(new Pair(device));
    for (End& end : pair->ends_) {
      absl::StatusOr<Stream> stream = device->NewStream();
      if (!stream.ok()) return stream.status();
      absl::StatusOr<DeviceMemory> memory = device->Allocate(kLarge);
      if (!memory.ok()) return memory.status();
      absl::StatusOr<Event> event = device->NewEvent();
      if (!event.ok()) return event.status();
      end = {.stream = *stream, .memory = *std::move(memory), .event = *event};
    }
    for (size_t rank = 0; rank < 2; ++rank) {
      const int number = static_cast<int>(rank);
      pair->ends_[rank].communicator = pair->group_.Join(number, device, pair->ends_[rank].stream,
                                                         &pair->host_.communicator(number));
    }
    return pair;
  }

  // Seconds of one message of `bytes` there and back, at best.
  absl::StatusOr<double> RoundTrip(size_t bytes) {
    double least = 0;
    for (int i = 0; i < kRepetitions; ++i) {
      device_.Record(ends_[0].event, ends_[0].stream);
      absl::Status status;
      for (int round = 0; round < kRounds; ++round) {
        status.Update(Send(0, bytes));
        status.Update(Send(1, bytes));
      }
      device_.Record(ends_[1].event, ends_[0].stream);
      status.Update(device_.Synchronize(ends_[0].stream, Deadline()));
      if (!status.ok()) return status;
      const double seconds =
          absl::ToDoubleSeconds(device_.Elapsed(ends_[0].event, ends_[1].event)) / kRounds;
      least = i == 0 ? seconds : std::min(least, seconds);
    }
    return least;
  }

 private:
  struct End {
    Stream stream;
    DeviceMemory memory;
    Event event;
    std::unique_ptr<Communicator> communicator = nullptr;
  };

  explicit Pair(Device* device) : device_(*device), host_(2), group_(2) {}

  absl::Status Send(size_t from, size_t bytes) {
    const size_t to = 1 - from;
    Ticket sent = 0, received = 0;
    Communicator& sender = *ends_[from].communicator;
    Communicator& receiver = *ends_[to].communicator;
    absl::Status status =
        receiver.PostReceive(sender.rank(), ends_[to].memory.data(), bytes, &received);
    status.Update(sender.PostSend(receiver.rank(), ends_[from].memory.data(), bytes, &sent));
    if (!status.ok()) return status;
    status = receiver.WaitReceive(sender.rank(), received, Deadline());
    status.Update(sender.WaitSend(receiver.rank(), sent, Deadline()));
    return status;
  }

  Device& device_;
  InProcessGroup host_;
  DeviceGroup group_;
  std::array<End, 2> ends_;
};

}  // namespace

absl::StatusOr<Link> MeasureDeviceLink(Device* device) {
  absl::StatusOr<std::unique_ptr<Pair>> pair = Pair::Create(device);
  if (!pair.ok()) return pair.status();
  const absl::StatusOr<double> small = (*pair)->RoundTrip(kSmall);
  if (!small.ok()) return small.status();
  const absl::StatusOr<double> large = (*pair)->RoundTrip(kLarge);
  if (!large.ok()) return large.status();
  Link link;
  link.latency = *small / 2;
  const double seconds = *large / 2 - link.latency;
  if (seconds > 0) link.bandwidth = static_cast<double>(kLarge) / seconds;
  return link;
}

}  // namespace sluice
