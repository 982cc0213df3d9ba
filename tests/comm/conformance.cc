#include "tests/comm/conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "comm/collectives.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

using testing::HasSubstr;

// Machines under load are slow, and sanitizers slower; no test waits so long but where it fails.
Instant Soon() { return Instant::Now() + absl::Seconds(60); }

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
  constexpr int kMessages = Trials(30'000, 3'000);
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
  if (!GetParam().checks_sizes) GTEST_SKIP() << GetParam().name << " does not see both sizes";
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
  int values[5] = {};  // outlives the group, which still waits for messages when the body ends
  Make(2, 4)->Run([&values](Communicator& ranks) {
    if (ranks.rank() != 0) return;
    Ticket ticket = 0;
    for (int i = 0; i < 4; ++i) {
      ASSERT_TRUE(ranks.PostReceive(1, &values[i], sizeof(int), &ticket).ok());
    }
    EXPECT_EQ(ranks.PostReceive(1, &values[4], sizeof(int), &ticket).code(),
              absl::StatusCode::kResourceExhausted);
  });
}

TEST_P(Conformance, AMessageThatDoesNotComeIsADeadline) {
  int value = 0;  // outlives the group
  Make(2)->Run([&value](Communicator& ranks) {
    if (ranks.rank() != 0) return;
    Ticket ticket = 0;
    ASSERT_TRUE(ranks.PostReceive(1, &value, sizeof(value), &ticket).ok());
    const absl::Status late = ranks.WaitReceive(1, ticket, Instant::Now() + absl::Milliseconds(30));
    EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(late.message()), HasSubstr("from rank 1 to rank 0"));
  });
}

TEST_P(Conformance, ALongMessageThatNobodyTakesIsADeadline) {
  std::vector<char> data(8 << 20);
  Make(2)->Run([&data](Communicator& ranks) {
    if (ranks.rank() == 0) {
      Ticket ticket = 0;
      ASSERT_TRUE(ranks.PostSend(1, data.data(), data.size(), &ticket).ok());
      const absl::Status late = ranks.WaitSend(1, ticket, Instant::Now() + absl::Milliseconds(30));
      EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
      EXPECT_THAT(std::string(late.message()), HasSubstr("from rank 0 to rank 1"));
      ranks.Abort(late);
    }
    EXPECT_EQ(ranks.Barrier(Soon()).code(), absl::StatusCode::kDeadlineExceeded);
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

TEST_P(Conformance, AnAllGatherMayOvertakeMessagesOfTheProgram) {
  Make(3)->Run([](Communicator& ranks) {
    const int next = (ranks.rank() + 1) % 3;
    const int before = (ranks.rank() + 2) % 3;
    for (int round = 0; round < 50; ++round) {
      // Half of the ranks post before the barrier, the others after it; nobody waits until then.
      std::vector<int> out(1 << (round % 15), round);
      std::vector<int> in(out.size());
      Ticket sent = 0;
      Ticket received = 0;
      const auto post = [&] {
        ASSERT_TRUE(ranks.PostReceive(before, in.data(), in.size() * sizeof(int), &received).ok());
        ASSERT_TRUE(ranks.PostSend(next, out.data(), out.size() * sizeof(int), &sent).ok());
      };
      const bool early = (ranks.rank() + round) % 2 == 0;
      if (early) post();
      ASSERT_TRUE(ranks.Barrier(Soon()).ok());
      if (!early) post();
      ASSERT_TRUE(ranks.WaitReceive(before, received, Soon()).ok());
      ASSERT_TRUE(ranks.WaitSend(next, sent, Soon()).ok());
      ASSERT_EQ(in, out);
    }
  });
}

// What a sender and a receiver that know only a seed agree on.
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

TEST_P(Conformance, AMillionMessagesInAStream) {
  const int messages = GetParam().quick ? Trials(1'000'000, 20'000) : 10'000;
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

// By the clock of the machine, which all ranks share whether they are threads or processes.
double Clock() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

TEST_P(Conformance, ABarrierHoldsUntilAllHaveCome) {
  Make(3)->Run([](Communicator& ranks) {
    std::mt19937 random(static_cast<uint32_t>(ranks.rank()));
    for (int round = 0; round < 100; ++round) {
      if (random() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(500));
      const double came = Clock();
      ASSERT_TRUE(ranks.Barrier(Soon()).ok());
      const double left = Clock();
      std::vector<double> all_came(3);
      ASSERT_TRUE(ranks.AllGather({&came, 1}, absl::MakeSpan(all_came), Soon()).ok());
      ASSERT_GE(left, *std::max_element(all_came.begin(), all_came.end()));
    }
  });
  Make(2)->Run([](Communicator& ranks) {
    if (ranks.rank() == 1) return;
    EXPECT_EQ(ranks.Barrier(Instant::Now() + absl::Milliseconds(30)).code(),
              absl::StatusCode::kDeadlineExceeded);
  });
}

// Replaces the array on every rank by the sum over all ranks, as a training step sums gradients.
absl::Status SumOnEveryRank(Communicator& ranks, absl::Span<float> array) {
  const auto count = static_cast<int64_t>(array.size());
  std::vector<int64_t> bounds;
  for (int r = 0; r <= ranks.size(); ++r) bounds.push_back(count * r / ranks.size());
  std::vector<float> work(1000);
  const SlicedSum sum{.data = array.data(),
                      .sum = array.data() + bounds[static_cast<size_t>(ranks.rank())],
                      .bounds = bounds};
  absl::Status status =
      ReduceScatter(ranks, absl::MakeConstSpan(&sum, 1), absl::MakeSpan(work), Soon());
  if (!status.ok()) return status;
  const SlicedBytes whole{
      .data = array.data(), .bounds = bounds, .element_bytes = static_cast<int64_t>(sizeof(float))};
  return AllGatherSlices(ranks, absl::MakeConstSpan(&whole, 1), Soon());
}

// A sum that depends on its order in almost every element.
TEST_P(Conformance, SumsHaveTheSameBitsOnEveryWire) {
  for (const int size : {2, 3, 5}) {
    Make(size)->Run([size](Communicator& ranks) {
      for (const size_t elements : {size_t{1}, size_t{7}, size_t{10'000}}) {
        std::vector<float> expected(elements);
        std::vector<float> mine;
        for (int rank = 0; rank < size; ++rank) {
          std::mt19937 random(static_cast<uint32_t>(rank) + 1);
          std::normal_distribution<float> normal(0, 1);
          std::vector<float> summand(elements);
          for (float& value : summand) value = std::exp(4 * normal(random)) * normal(random);
          for (size_t i = 0; i < elements; ++i) {
            expected[i] = rank == 0 ? summand[i] : expected[i] + summand[i];
          }
          if (rank == ranks.rank()) mine = summand;
        }
        const absl::Status status = SumOnEveryRank(ranks, absl::MakeSpan(mine));
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_EQ(mine, expected);
      }
    });
  }
}

TEST_P(Conformance, AbortInTheMiddleOfLongMessages) {
  for (int trial = 0; trial < 5; ++trial) {
    std::vector<char> out(4 << 20);
    std::vector<char> in(4 << 20);
    Make(3)->Run([&, trial](Communicator& ranks) {
      const int next = (ranks.rank() + 1) % 3;
      const int before = (ranks.rank() + 2) % 3;
      // Each rank's own buffers, also where ranks are threads; freed as soon as Abort has returned.
      std::vector<char> mine = out;
      std::vector<char> theirs = in;
      // All are there before one aborts: a rank that is late would find no group to join.
      absl::Status status = ranks.Barrier(Soon());
      while (status.ok()) {
        Ticket sent = 0;
        Ticket received = 0;
        status = ranks.PostReceive(before, theirs.data(), theirs.size(), &received);
        if (status.ok()) status = ranks.PostSend(next, mine.data(), mine.size(), &sent);
        if (ranks.rank() == trial % 3) {
          std::this_thread::sleep_for(std::chrono::milliseconds(trial));
          ranks.Abort(absl::CancelledError("enough"));
        }
        if (status.ok()) status = ranks.WaitReceive(before, received, Soon());
        if (status.ok()) status = ranks.WaitSend(next, sent, Soon());
      }
      EXPECT_EQ(status.message(), "enough");
      ranks.Abort(status);
    });
  }
}

}  // namespace
}  // namespace sluice
