#include "comm/link_probe.h"

#include <algorithm>
#include <cstddef>

#include "models/device/instant.h"

namespace sluice {
namespace {

constexpr size_t kSmallBytes = 8;

// One rank's part in measuring the way to another.
class Prober {
 public:
  Prober(Communicator& world, absl::Duration timeout)
      : world_(world), timeout_(timeout), buffer_(size_t{kProbeBytes}) {}

  // Both ranks of a pair call it. The lower one learns what it takes.
  absl::StatusOr<MeasuredLink> Measure(int peer) {
    // The first message waits until both are there; it is not counted.
    absl::StatusOr<double> small = ThereAndBack(peer, kSmallBytes);
    if (small.ok()) small = ThereAndBack(peer, kSmallBytes);
    if (!small.ok()) return small.status();
    const absl::StatusOr<double> large = ThereAndBack(peer, size_t{kProbeBytes});
    if (!large.ok()) return large.status();
    return MeasuredLink{*small / 2, std::max(*large - *small, 0.0) / 2 / kProbeBytes};
  }

 private:
  // Seconds of a message to `peer` and one back, as the lower rank sees them.
  absl::StatusOr<double> ThereAndBack(int peer, size_t bytes) {
    const Instant start = Instant::Now();
    const bool begins = world_.rank() < peer;
    absl::Status status = begins ? Send(peer, bytes) : Receive(peer, bytes);
    if (status.ok()) status = begins ? Receive(peer, bytes) : Send(peer, bytes);
    if (!status.ok()) return status;
    return absl::ToDoubleSeconds(Instant::Now() - start);
  }
  absl::Status Send(int peer, size_t bytes) {
    Ticket ticket = 0;
    absl::Status status = world_.PostSend(peer, buffer_.data(), bytes, &ticket);
    return status.ok() ? world_.WaitSend(peer, ticket, Instant::Now() + timeout_) : status;
  }
  absl::Status Receive(int peer, size_t bytes) {
    Ticket ticket = 0;
    absl::Status status = world_.PostReceive(peer, buffer_.data(), bytes, &ticket);
    return status.ok() ? world_.WaitReceive(peer, ticket, Instant::Now() + timeout_) : status;
  }

  Communicator& world_;
  const absl::Duration timeout_;
  std::vector<char> buffer_;
};

// Whom `rank` of `size` meets in round `round`, by the circle method: in size - 1 rounds (size of an odd
// number) everybody meets everybody once. -1: nobody.
int PartnerOf(int rank, int round, int size) {
  const int seats = size + size % 2;
  const int turning = seats - 1;
  int partner = 0;
  if (rank == turning) {
    // r = round - r (mod turning): half of the round, or of the round and a whole turn.
    partner = (round % 2 == 0 ? round : round + turning) / 2;
  } else {
    partner = (round - rank + turning) % turning;
    if (partner == rank) partner = turning;
  }
  return partner < size ? partner : -1;
}

}  // namespace

absl::StatusOr<std::vector<MeasuredLink>> ProbeLinks(Communicator& world, absl::Duration timeout) {
  const int size = world.size();
  const int rounds = size < 2 ? 0 : size + size % 2 - 1;
  const auto ranks = static_cast<size_t>(size);
  std::vector<double> mine(2 * ranks);
  Prober prober(world, timeout);
  for (int round = 0; round < rounds; ++round) {
    const int peer = PartnerOf(world.rank(), round, size);
    if (peer < 0) continue;
    const absl::StatusOr<MeasuredLink> link = prober.Measure(peer);
    if (!link.ok()) {
      world.Abort(link.status());  // a message uses the prober's memory until then
      return link.status();
    }
    if (world.rank() > peer) continue;
    mine[2 * static_cast<size_t>(peer)] = link->latency;
    mine[2 * static_cast<size_t>(peer) + 1] = link->seconds_per_byte;
  }
  std::vector<double> all(mine.size() * ranks);
  absl::Status status = world.AllGather(mine, absl::MakeSpan(all), Instant::Now() + timeout);
  if (!status.ok()) return status;
  std::vector<MeasuredLink> links(ranks * ranks);
  for (size_t a = 0; a < ranks; ++a) {
    for (size_t b = a + 1; b < ranks; ++b) {
      const double* const found = &all[a * mine.size() + 2 * b];
      links[a * ranks + b] = links[b * ranks + a] = {found[0], found[1]};
    }
  }
  return links;
}

}  // namespace sluice
