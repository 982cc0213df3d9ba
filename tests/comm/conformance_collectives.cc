// What every transport must do with gathers, barriers and sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <thread>
#include <vector>

#include "comm/collectives/collectives.h"
#include "tests/comm/conformance.h"

namespace sluice {
namespace {

TEST_P(Conformance, AnAllGatherMayOvertakeMessagesOfTheProgram) {
  Make(3)->Run([](Communicator& ranks) {
    const int next = (ranks.rank() + 1) % 3;
    const int before = (ranks.rank() + 2) % 3;
    for (int round = 0; round < 50; ++round) {
      // Half of the ranks post before the barrier, the others after it; no rank waits before the
      // barrier.
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

// On the machine's clock, which all ranks share, as threads and as processes.
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
absl::Status SumOnEveryRank(Communicator& ranks, absl::Span<float> array, absl::Duration timeout) {
  const auto count = static_cast<int64_t>(array.size());
  std::vector<int64_t> bounds;
  for (int r = 0; r <= ranks.size(); ++r) bounds.push_back(count * r / ranks.size());
  std::vector<float> work(1000);
  const SlicedSum sum{.data = array.data(),
                      .sum = array.data() + bounds[static_cast<size_t>(ranks.rank())],
                      .bounds = bounds};
  absl::Status status =
      ReduceScatter(ranks, absl::MakeConstSpan(&sum, 1), absl::MakeSpan(work), timeout);
  if (!status.ok()) return status;
  const SlicedBytes whole{
      .data = array.data(), .bounds = bounds, .element_bytes = static_cast<int64_t>(sizeof(float))};
  return AllGatherSlices(ranks, absl::MakeConstSpan(&whole, 1), timeout);
}

// Values whose sum depends on the order in almost every element.
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
        const absl::Status status = SumOnEveryRank(ranks, absl::MakeSpan(mine), absl::Seconds(60));
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_EQ(mine, expected);
      }
    });
  }
}

}  // namespace
}  // namespace sluice
