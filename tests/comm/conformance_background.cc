// What every transport that has a background must do with it.
#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "tests/comm/conformance.h"

namespace sluice {
namespace {

// Messages of random sizes around a ring, and all-gathers between them.
void Exchange(Communicator& ranks, unsigned seed, int rounds) {
  std::mt19937 random(seed);  // the same on every rank
  const int next = (ranks.rank() + 1) % ranks.size();
  const int before = (ranks.rank() + ranks.size() - 1) % ranks.size();
  for (int round = 0; round < rounds; ++round) {
    std::vector<unsigned> out(random() % 20'000);
    std::vector<unsigned> in(out.size());
    std::vector<unsigned> expected(out.size());
    std::iota(out.begin(), out.end(), seed + static_cast<unsigned>(ranks.rank()));
    std::iota(expected.begin(), expected.end(), seed + static_cast<unsigned>(before));
    Ticket sent = 0;
    Ticket received = 0;
    ASSERT_TRUE(ranks.PostReceive(before, in.data(), in.size() * sizeof(int), &received).ok());
    ASSERT_TRUE(ranks.PostSend(next, out.data(), out.size() * sizeof(int), &sent).ok());
    if (random() % 2 == 0) {
      const double mine = seed + 100.0 * ranks.rank();
      std::vector<double> all(static_cast<size_t>(ranks.size()));
      const Instant deadline = Instant::Now() + absl::Seconds(60);
      ASSERT_TRUE(ranks.AllGather({&mine, 1}, absl::MakeSpan(all), deadline).ok());
      for (int rank = 0; rank < ranks.size(); ++rank)
        ASSERT_EQ(all[static_cast<size_t>(rank)], seed + 100.0 * rank);
    }
    const Instant deadline = Instant::Now() + absl::Seconds(60);
    ASSERT_TRUE(ranks.WaitReceive(before, received, deadline).ok());
    ASSERT_TRUE(ranks.WaitSend(next, sent, deadline).ok());
    ASSERT_EQ(in, expected) << "round " << round;
  }
}

TEST_P(Conformance, TheBackgroundDoesNotMixWithTheForeground) {
  Make(3)->Run([](Communicator& ranks) {
    Communicator* const background = ranks.background();
    if (background == nullptr) return;
    EXPECT_EQ(background->rank(), ranks.rank());
    EXPECT_EQ(background->size(), ranks.size());
    EXPECT_EQ(ranks.background(), background);
    // Each rank's threads are at different places of their programs.
    std::thread other([background] { Exchange(*background, /*seed=*/1, /*rounds=*/60); });
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * ranks.rank()));
    Exchange(ranks, /*seed=*/1000, /*rounds=*/40);
    other.join();
    ASSERT_TRUE(ranks.Barrier(Soon()).ok());
  });
}

// Whoever aborts, in the foreground or in the background: all end.
TEST_P(Conformance, AnAbortEndsBoth) {
  for (const bool abort_background : {false, true}) {
    Make(3)->Run([&](Communicator& ranks) {
      Communicator* const background = ranks.background();
      if (background == nullptr) return;
      ASSERT_TRUE(ranks.Barrier(Soon()).ok());
      if (ranks.rank() == 2) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        (abort_background ? *background : ranks).Abort(absl::UnavailableError("rank 2 has left"));
      }
      std::thread other([&] {
        std::vector<char> bytes(3 << 20);
        Ticket ticket = 0;
        absl::Status status =
            background->PostReceive((ranks.rank() + 1) % 3, bytes.data(), bytes.size(), &ticket);
        if (status.ok()) status = background->WaitReceive((ranks.rank() + 1) % 3, ticket, Soon());
        EXPECT_EQ(status.message(), "rank 2 has left");
        EXPECT_EQ(background->failure().message(), "rank 2 has left");
      });
      EXPECT_EQ(ranks.Barrier(Soon()).message(), "rank 2 has left");
      EXPECT_EQ(ranks.failure().message(), "rank 2 has left");
      other.join();
    });
  }
}

}  // namespace
}  // namespace sluice
