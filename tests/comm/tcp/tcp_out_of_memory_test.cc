// A rank of the TCP transport that has no memory left for saying why it fails. operator new is
// replaced for the whole binary.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/tcp/rendezvous/rendezvous.h"
#include "comm/tcp/tcp.h"
#include "comm/tcp/tcp_frame.h"

namespace {

// Only the words of a long error take so much at once, while a rank fails.
constexpr size_t kLarge = 2048;
constexpr int kNever = std::numeric_limits<int>::max();

std::atomic<int> until_failure{kNever};  // large allocations that still succeed
std::atomic<int> failures{0};            // that follow

bool Fails(size_t bytes) {
  if (bytes < kLarge || until_failure.load() == kNever || until_failure.fetch_sub(1) > 0)
    return false;
  if (failures.fetch_sub(1) > 0) return true;
  until_failure.store(kNever);
  return false;
}

}  // namespace

void* operator new(size_t bytes) {
  void* const memory = Fails(bytes) ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*bytes*/) noexcept { std::free(memory); }

namespace sluice {
namespace {

const absl::Status kFailure = absl::NotFoundError(std::string(2 * kLarge - 100, 'x'));

// Rank 0 of two, whose peer is two sockets of the test.
class TcpWithoutMemory : public testing::Test {
 protected:
  void Meet() {
    absl::StatusOr<Descriptor> listener = ListenOn(Endpoint::Loopback(0));
    Launch launch{.size = 2, .address = "127.0.0.1", .port = LocalEndpoint(*listener)->port};
    std::thread real([&, launch] {
      rank_ =
          *OpenTcp(launch, {.heartbeat = absl::Hours(1), .shutdown_timeout = absl::Milliseconds(9)},
                   *std::move(listener));
    });
    launch.rank = 1;
    peer_ = std::move((*MeetRanks(launch, "", absl::Seconds(60), {}))[0]);
    real.join();
  }

  // Lets rank 0 fail, and `count` large allocations after the first `before`. Returns once it
  // touches no memory of its messages any more. Whether so many were wanted.
  bool FailWithout(int before, int count) {
    failures.store(count);
    until_failure.store(before);
    rank_->Abort(kFailure);
    until_failure.store(kNever);
    return failures.load() < count;
  }

  // All that the peer hears, up to that many bytes.
  std::string Heard(size_t bytes) const {
    std::string heard;
    while (heard.size() < bytes && ReceiveSome(peer_.control.socket(), bytes - heard.size(), &heard,
                                               Instant::Now() + absl::Seconds(60))
                                       .ok()) {
    }
    return heard;
  }

  TcpLink peer_;
  std::unique_ptr<Communicator> rank_;
};

TEST_F(TcpWithoutMemory, TheFailureIsToldWithWhatMemoryIsLeft) {
  const std::string body = absl::StrCat("\n", kFailure.message());
  const Frame frame{.kind = FrameKind::kAbort,
                    .ticket = static_cast<uint64_t>(kFailure.code()),
                    .bytes = body.size()};
  const std::string abort(reinterpret_cast<const char*>(&frame), sizeof(frame));
  int before = 0;
  do {
    Meet();
    const bool failed = FailWithout(before, 1);
    EXPECT_EQ(Heard(abort.size() + body.size()), abort + body) << before;
    if (!failed) break;
  } while (++before < 100);
  EXPECT_GE(before, 2);  // the text is made, and put behind what the peer is still to hear
}

TEST_F(TcpWithoutMemory, WhereNothingCanBeToldThePeerSeesTheEnd) {
  Meet();
  EXPECT_TRUE(FailWithout(0, 1000));
  rank_.reset();
  EXPECT_EQ(Heard(1), "");
}

}  // namespace
}  // namespace sluice
