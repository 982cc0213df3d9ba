// What every transport must do with messages: each arrives, whole and in order, whoever is slow.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "tests/comm/conformance.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

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
  // Each waits for the one before it, so a ring takes longer than a stream.
  constexpr int kPart = 30;
  const int messages = std::min(GetParam().stream_messages, Trials(1'000'000, 100'000)) / kPart;
  Make(3)->Run([messages](Communicator& ranks) {
    const int next = (ranks.rank() + 1) % ranks.size();
    const int before = (ranks.rank() + ranks.size() - 1) % ranks.size();
    uint64_t value = 0;
    for (int i = 0; i < messages / ranks.size(); ++i) {
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

TEST_P(Conformance, MessagesToOneselfAreMessages) {
  Make(2)->Run([](Communicator& ranks) {
    const int self = ranks.rank();
    for (int round = 0; round < 100; ++round) {
      const int out[2] = {round, -round};
      int in[2] = {};
      Ticket sent[2] = {};
      Ticket received[2] = {};
      ASSERT_TRUE(ranks.PostSend(self, &out[0], sizeof(int), &sent[0]).ok());
      ASSERT_TRUE(ranks.PostReceive(self, &in[0], sizeof(int), &received[0]).ok());
      ASSERT_TRUE(ranks.PostReceive(self, &in[1], sizeof(int), &received[1]).ok());
      ASSERT_TRUE(ranks.PostSend(self, &out[1], sizeof(int), &sent[1]).ok());
      for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(ranks.WaitSend(self, sent[i], Soon()).ok());
        ASSERT_TRUE(ranks.WaitReceive(self, received[i], Soon()).ok());
        ASSERT_EQ(in[i], out[i]);
      }
    }
  });
}

// The sizes and delays that a sender and a receiver both compute from a seed.
struct Plan {
  explicit Plan(uint32_t seed) : random(seed) {}
  size_t NextBytes() {
    const auto magnitude = static_cast<uint32_t>(random() % 18);
    return random() % (size_t{1} << magnitude);
  }
  std::mt19937 random;
};

TEST_P(Conformance, RandomSizesAndDelaysBetweenAllPairs) {
  constexpr int kRanks = 4;
  constexpr int kWindow = 6;
  constexpr int kRounds = Trials(150, 30);
  Make(kRanks)->Run([](Communicator& ranks) {
    struct Edge {
      Plan plan;
      std::vector<std::vector<uint8_t>> data = {};
      std::vector<Ticket> tickets = {};
    };
    std::vector<Edge> out;
    std::vector<Edge> in;
    for (uint32_t peer = 0; peer < kRanks; ++peer) {
      const auto self = static_cast<uint32_t>(ranks.rank());
      out.push_back({Plan(self * 10 + peer)});
      in.push_back({Plan(peer * 10 + self)});
    }
    std::mt19937 random(static_cast<uint32_t>(ranks.rank()) + 99);
    for (int round = 0; round < kRounds + kWindow; ++round) {
      for (int peer = 0; peer < kRanks; ++peer) {
        if (random() % 32 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
        Edge& to = out[static_cast<size_t>(peer)];
        Edge& from = in[static_cast<size_t>(peer)];
        if (round >= kWindow) {
          const auto old = static_cast<size_t>(round - kWindow);
          ASSERT_TRUE(ranks.WaitSend(peer, to.tickets[old], Soon()).ok());
          ASSERT_TRUE(ranks.WaitReceive(peer, from.tickets[old], Soon()).ok());
          ASSERT_EQ(from.data[old],
                    Pattern(from.data[old].size(),
                            static_cast<uint32_t>(peer + 7 * ranks.rank() + round - kWindow)));
          std::vector<uint8_t>().swap(to.data[old]);
        }
        if (round >= kRounds) continue;
        to.data.push_back(
            Pattern(to.plan.NextBytes(), static_cast<uint32_t>(ranks.rank() + 7 * peer + round)));
        from.data.emplace_back(from.plan.NextBytes());
        to.tickets.emplace_back();
        from.tickets.emplace_back();
        ASSERT_TRUE(
            ranks.PostSend(peer, to.data.back().data(), to.data.back().size(), &to.tickets.back())
                .ok());
        ASSERT_TRUE(ranks
                        .PostReceive(peer, from.data.back().data(), from.data.back().size(),
                                     &from.tickets.back())
                        .ok());
      }
    }
  });
}

TEST_P(Conformance, AStreamOfManyMessages) {
  const int messages = std::min(GetParam().stream_messages, Trials(1'000'000, 20'000));
  constexpr int kWindow = 64;
  Make(2, size_t{2} * kWindow)->Run([messages](Communicator& ranks) {
    std::vector<int> slots(kWindow);
    std::vector<Ticket> tickets(kWindow);
    for (int i = 0; i < messages + kWindow; ++i) {
      const auto slot = static_cast<size_t>(i % kWindow);
      if (i >= kWindow) {
        const absl::Status done = ranks.rank() == 0 ? ranks.WaitSend(1, tickets[slot], Soon())
                                                    : ranks.WaitReceive(0, tickets[slot], Soon());
        ASSERT_TRUE(done.ok()) << done;
        if (ranks.rank() == 1) {
          ASSERT_EQ(slots[slot], i - kWindow);
        }
      }
      if (i >= messages) continue;
      slots[slot] = i;
      const absl::Status posted =
          ranks.rank() == 0 ? ranks.PostSend(1, &slots[slot], sizeof(int), &tickets[slot])
                            : ranks.PostReceive(0, &slots[slot], sizeof(int), &tickets[slot]);
      ASSERT_TRUE(posted.ok()) << posted;
    }
  });
}

}  // namespace
}  // namespace sluice
