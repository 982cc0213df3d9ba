// What every transport must do. A new one is a line at the end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "comm/in_process.h"
#include "tests/comm/tcp_group.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

using testing::HasSubstr;

absl::Time Soon() { return absl::Now() + absl::Seconds(20); }

// A group of ranks under some transport, a thread each.
class Ranks {
 public:
  virtual ~Ranks() = default;
  virtual void Run(const std::function<void(Communicator&)>& body) = 0;
};

class InProcessRanks : public Ranks {
 public:
  InProcessRanks(int ranks, size_t capacity, absl::Duration spin)
      : ranks_(ranks), group_(ranks, capacity, spin) {}
  void Run(const std::function<void(Communicator&)>& body) override {
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks_; ++r) threads.emplace_back([&, r] { body(group_.communicator(r)); });
    for (std::thread& thread : threads) thread.join();
  }

 private:
  int ranks_;
  InProcessGroup group_;
};

class TcpRanks : public Ranks {
 public:
  TcpRanks(int ranks, const TcpOptions& options) : group_(MakeTcpGroup(ranks, options)) {}
  void Run(const std::function<void(Communicator&)>& body) override {
    std::vector<std::thread> threads;
    for (auto& end : group_) {
      if (end != nullptr) threads.emplace_back([&] { body(*end); });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<std::unique_ptr<Communicator>> group_;
};

struct Transport {
  const char* name;
  std::unique_ptr<Ranks> (*make)(int ranks, size_t capacity);
};

void PrintTo(const Transport& transport, std::ostream* out) { *out << transport.name; }

class Conformance : public testing::TestWithParam<Transport> {
 protected:
  std::unique_ptr<Ranks> Make(int ranks, size_t capacity = 64) {
    return GetParam().make(ranks, capacity);
  }
};

std::vector<uint8_t> Pattern(size_t bytes, uint32_t seed) {
  std::vector<uint8_t> data(bytes);
  for (size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<uint8_t>((i * 31 + size_t{seed} * 17) >> 2U);
  return data;
}

TEST_P(Conformance, DeliversEverySize) {
  Make(2)->Run([](Communicator& ranks) {
    for (size_t bytes : {0UL, 1UL, 3UL, 64UL, 4095UL, 65536UL, 1UL << 20U, (64UL << 20U) + 1}) {
      Ticket ticket = 0;
      if (ranks.rank() == 0) {
        const std::vector<uint8_t> data = Pattern(bytes, 5);
        ASSERT_TRUE(ranks.PostSend(1, data.data(), bytes, &ticket).ok());
        ASSERT_TRUE(ranks.WaitSend(1, ticket, Soon()).ok());
      } else {
        std::vector<uint8_t> data(bytes);
        ASSERT_TRUE(ranks.PostReceive(0, data.data(), bytes, &ticket).ok());
        ASSERT_TRUE(ranks.WaitReceive(0, ticket, Soon()).ok());
        ASSERT_EQ(data, Pattern(bytes, 5)) << bytes;
      }
    }
  });
}

TEST_P(Conformance, KeepsTheOrderOfAnEdgeWhoeverIsSlow) {
  constexpr int kMessages = 2000;
  constexpr size_t kWindow = 8;
  for (int slow : {-1, 0, 1}) {
    Make(2, kWindow)->Run([slow](Communicator& ranks) {
      std::mt19937 random(static_cast<uint32_t>(ranks.rank()));
      std::vector<int64_t> slots(kWindow);
      std::vector<Ticket> tickets(kMessages);
      for (int i = 0; i < kMessages + static_cast<int>(kWindow); ++i) {
        if (slow == ranks.rank() && random() % 64 == 0)
          std::this_thread::sleep_for(std::chrono::microseconds(200));
        if (const int done = i - static_cast<int>(kWindow); done >= 0) {
          const Ticket ticket = tickets[static_cast<size_t>(done)];
          if (ranks.rank() == 0) {
            ASSERT_TRUE(ranks.WaitSend(1, ticket, Soon()).ok());
          } else {
            ASSERT_TRUE(ranks.WaitReceive(0, ticket, Soon()).ok());
            ASSERT_EQ(slots[static_cast<size_t>(done) % kWindow], done);
          }
        }
        if (i >= kMessages) continue;
        int64_t& slot = slots[static_cast<size_t>(i) % kWindow];
        Ticket& ticket = tickets[static_cast<size_t>(i)];
        if (ranks.rank() == 0) {
          slot = i;
          ASSERT_TRUE(ranks.PostSend(1, &slot, sizeof(slot), &ticket).ok());
        } else {
          ASSERT_TRUE(ranks.PostReceive(0, &slot, sizeof(slot), &ticket).ok());
        }
        EXPECT_EQ(ticket, static_cast<Ticket>(i));
      }
    });
  }
}

TEST_P(Conformance, BothDirectionsAtOnceDoNotBlockEachOther) {
  Make(2)->Run([](Communicator& ranks) {
    const int peer = 1 - ranks.rank();
    for (int round = 0; round < 500; ++round) {
      const int out = ranks.rank() * 1000 + round;
      int in = -1;
      Ticket sent = 0;
      Ticket received = 0;
      ASSERT_TRUE(ranks.PostSend(peer, &out, sizeof(out), &sent).ok());
      ASSERT_TRUE(ranks.PostReceive(peer, &in, sizeof(in), &received).ok());
      ASSERT_TRUE(ranks.WaitReceive(peer, received, Soon()).ok());
      ASSERT_TRUE(ranks.WaitSend(peer, sent, Soon()).ok());
      ASSERT_EQ(in, peer * 1000 + round);
    }
  });
}

TEST_P(Conformance, ManyMessagesThroughARing) {
  constexpr int kMessages = 100'000;
  Make(3)->Run([](Communicator& ranks) {
    const int next = (ranks.rank() + 1) % ranks.size();
    const int before = (ranks.rank() + ranks.size() - 1) % ranks.size();
    uint64_t value = 0;
    for (int i = 0; i < kMessages / ranks.size(); ++i) {
      uint64_t in = 0;
      Ticket sent = 0;
      Ticket received = 0;
      ASSERT_TRUE(ranks.PostReceive(before, &in, sizeof(in), &received).ok());
      ASSERT_TRUE(ranks.PostSend(next, &value, sizeof(value), &sent).ok());
      ASSERT_TRUE(ranks.WaitReceive(before, received, Soon()).ok());
      ASSERT_TRUE(ranks.WaitSend(next, sent, Soon()).ok());
      ASSERT_EQ(in, value);
      ++value;
    }
  });
}

TEST_P(Conformance, DifferentSizesAreAnErrorOnBothSides) {
  Make(2)->Run([](Communicator& ranks) {
    std::vector<uint8_t> data(100);
    Ticket ticket = 0;
    absl::Status status;
    if (ranks.rank() == 0) {
      status = ranks.PostSend(1, data.data(), 100, &ticket);
      if (status.ok()) status = ranks.WaitSend(1, ticket, Soon());
    } else {
      status = ranks.PostReceive(0, data.data(), 60, &ticket);
      if (status.ok()) status = ranks.WaitReceive(0, ticket, Soon());
      ranks.Abort(status);
    }
    // A sender may have let go of its message before the receiver finds out.
    if (status.ok()) status = ranks.Barrier(Soon());
    EXPECT_THAT(std::string(status.message()), HasSubstr("100 bytes"));
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected 60"));
  });
}

TEST_P(Conformance, MoreThanTheCapacityIsAnErrorNotAHang) {
  Make(2, 4)->Run([](Communicator& ranks) {
    if (ranks.rank() != 0) return;
    const int value = 0;
    Ticket ticket = 0;
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(ranks.PostSend(1, &value, sizeof(value), &ticket).ok());
    EXPECT_EQ(ranks.PostSend(1, &value, sizeof(value), &ticket).code(),
              absl::StatusCode::kResourceExhausted);
  });
}

TEST_P(Conformance, AMessageThatDoesNotComeIsADeadline) {
  Make(2)->Run([](Communicator& ranks) {
    if (ranks.rank() != 0) return;
    int value = 0;
    Ticket ticket = 0;
    ASSERT_TRUE(ranks.PostReceive(1, &value, sizeof(value), &ticket).ok());
    const absl::Status late = ranks.WaitReceive(1, ticket, absl::Now() + absl::Milliseconds(30));
    EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(late.message()), HasSubstr("from rank 1 to rank 0"));
  });
}

TEST_P(Conformance, AbortWakesEveryWaiter) {
  Make(4)->Run([](Communicator& ranks) {
    if (ranks.rank() == 3) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ranks.Abort(absl::UnavailableError("rank 3 has left"));
      ranks.Abort(absl::UnavailableError("too late"));
      return;
    }
    absl::Status status;
    int value = 0;
    Ticket ticket = 0;
    if (ranks.rank() == 2) {
      status = ranks.Barrier(Soon());
    } else {
      ASSERT_TRUE(ranks.PostReceive(3, &value, sizeof(value), &ticket).ok());
      status = ranks.WaitReceive(3, ticket, Soon());
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(status.message(), "rank 3 has left");
    EXPECT_EQ(ranks.Barrier(Soon()).message(), "rank 3 has left");
    EXPECT_EQ(ranks.PostSend(3, &value, sizeof(value), &ticket).message(), "rank 3 has left");
  });
}

TEST_P(Conformance, AllGatherBringsEveryonesValuesInRankOrder) {
  for (int ranks : {1, 2, 5}) {
    Make(ranks)->Run([](Communicator& self) {
      const auto size = static_cast<size_t>(self.size());
      for (int round = 0; round < 200; ++round) {
        const std::vector<double> mine = {static_cast<double>(self.rank()),
                                          static_cast<double>(round)};
        std::vector<double> all(2 * size);
        ASSERT_TRUE(self.AllGather(mine, absl::MakeSpan(all), Soon()).ok());
        for (size_t r = 0; r < size; ++r) {
          ASSERT_EQ(all[2 * r], static_cast<double>(r));
          ASSERT_EQ(all[2 * r + 1], round);
        }
      }
    });
  }
}

TEST_P(Conformance, ABarrierHoldsUntilAllHaveCome) {
  std::atomic<int> arrived{0};
  Make(3)->Run([&arrived](Communicator& ranks) {
    for (int round = 1; round <= 200; ++round) {
      ++arrived;
      ASSERT_TRUE(ranks.Barrier(Soon()).ok());
      ASSERT_GE(arrived.load(), 3 * round);
      ASSERT_TRUE(ranks.Barrier(Soon()).ok());
    }
  });
  Make(2)->Run([](Communicator& ranks) {
    if (ranks.rank() == 1) return;
    EXPECT_EQ(ranks.Barrier(absl::Now() + absl::Milliseconds(30)).code(),
              absl::StatusCode::kDeadlineExceeded);
  });
}

INSTANTIATE_TEST_SUITE_P(
    Transports, Conformance,
    testing::Values(Transport{"in_process_spinning",
                              [](int ranks, size_t capacity) -> std::unique_ptr<Ranks> {
                                return std::make_unique<InProcessRanks>(ranks, capacity,
                                                                        absl::Microseconds(20));
                              }},
                    Transport{"in_process_sleeping",
                              [](int ranks, size_t capacity) -> std::unique_ptr<Ranks> {
                                return std::make_unique<InProcessRanks>(ranks, capacity,
                                                                        absl::ZeroDuration());
                              }},
                    Transport{"tcp",
                              [](int ranks, size_t capacity) -> std::unique_ptr<Ranks> {
                                return std::make_unique<TcpRanks>(
                                    ranks, TcpOptions{.secret = "a secret", .capacity = capacity});
                              }}),
    [](const auto& transport) { return transport.param.name; });

}  // namespace
}  // namespace sluice
