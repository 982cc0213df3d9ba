// Collectives against naive twins: over whole groups and sub-groups, with random sizes, work memory
// and delays.
#include "comm/collectives/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "comm/collectives/machine_sum.h"
#include "comm/collectives/reduce_scatter_work.h"
#include "comm/collectives/sub_group.h"
#include "comm/link_probe.h"
#include "comm/local/in_process.h"
#include "tests/comm/forwarding_communicator.h"

namespace sluice {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);
Instant Soon() { return Instant::Now() + kPatience; }

void RunGroup(int ranks, const std::function<void(Communicator&)>& body) {
  InProcessGroup group(ranks, /*capacity=*/8, absl::ZeroDuration());
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) threads.emplace_back([&, r] { body(group.communicator(r)); });
  for (std::thread& thread : threads) thread.join();
}

// Sometimes a rank is late.
void MayBeLate(std::mt19937& random) {
  if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
}

// Values of many magnitudes, so that another order of summation gives other bits.
std::vector<float> Values(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    const auto digits = static_cast<float>(static_cast<int>(random() % 20001) - 10000);
    value = std::ldexp(digits, static_cast<int>(random() % 20) - 10);
  }
  return values;
}

std::vector<int64_t> RandomBounds(int ranks, size_t count, std::mt19937_64& random) {
  std::vector<int64_t> bounds = {0};
  for (int r = 1; r < ranks; ++r) bounds.push_back(static_cast<int64_t>(random() % (count + 1)));
  bounds.push_back(static_cast<int64_t>(count));
  std::sort(bounds.begin(), bounds.end());
  return bounds;
}

// The arguments of one sum, the same on every rank.
struct Case {
  std::vector<std::vector<int64_t>> bounds;  // [array]
  std::vector<bool> add;                     // [array]
  size_t work = 0;                           // elements
  uint64_t seed = 0;

  std::vector<float> Summand(int rank, size_t array) const {
    return Values(static_cast<size_t>(bounds[array].back()),
                  seed + array * 100 + static_cast<uint64_t>(rank));
  }
  // The contents of `sum` before the call.
  std::vector<float> Start(size_t array) const {
    return Values(static_cast<size_t>(bounds[array].back()), seed + array * 100 + 99);
  }
};

// The naive twin: all elements, rank by rank.
std::vector<float> NaiveSum(const Case& of, int ranks, size_t array) {
  std::vector<float> sum = of.add[array] ? of.Start(array) : of.Summand(0, array);
  for (int rank = of.add[array] ? 0 : 1; rank < ranks; ++rank) {
    const std::vector<float> summand = of.Summand(rank, array);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += summand[i];
  }
  return sum;
}

Case RandomCase(int ranks, uint64_t seed) {
  std::mt19937_64 random(seed);
  Case made;
  made.seed = seed * 1'000'000;
  const size_t arrays = random() % 5;
  for (size_t a = 0; a < arrays; ++a) {
    const size_t sizes[] = {0, 1, random() % 10, random() % 3000};
    made.bounds.push_back(RandomBounds(ranks, sizes[random() % 4], random));
    made.add.push_back(random() % 2 == 0);
  }
  const auto others = static_cast<size_t>(ranks - 1);
  made.work = others * (1 + random() % 40) + random() % 3;
  return made;
}

class NotesDeadlines : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  absl::Status WaitReceive(int from, Ticket ticket, Instant deadline) override {
    deadlines.push_back(deadline);
    return inner().WaitReceive(from, ticket, deadline);
  }
  std::vector<Instant> deadlines;
};

void CheckReduceScatter(Communicator& group, const Case& of) {
  const auto self = static_cast<size_t>(group.rank());
  std::vector<std::vector<float>> data;
  std::vector<std::vector<float>> sums;
  std::vector<SlicedSum> arrays;
  for (size_t a = 0; a < of.bounds.size(); ++a) {
    const std::vector<float> start = of.Start(a);
    data.push_back(of.Summand(group.rank(), a));
    sums.emplace_back(start.begin() + of.bounds[a][self], start.begin() + of.bounds[a][self + 1]);
  }
  for (size_t a = 0; a < of.bounds.size(); ++a) {
    // In place where `sum` is empty.
    float* sum = of.add[a] ? sums[a].data() : data[a].data() + of.bounds[a][self];
    arrays.push_back(
        {.data = data[a].data(), .sum = sum, .add = of.add[a], .bounds = of.bounds[a]});
  }
  std::vector<float> work(of.work);
  ASSERT_EQ(ReduceScatter(group, arrays, absl::MakeSpan(work), kPatience), absl::OkStatus());
  for (size_t a = 0; a < of.bounds.size(); ++a) {
    const std::vector<float> wanted = NaiveSum(of, group.size(), a);
    const std::vector<float> summand = of.Summand(group.rank(), a);
    const auto first = static_cast<size_t>(of.bounds[a][self]);
    const auto last = static_cast<size_t>(of.bounds[a][self + 1]);
    for (size_t i = 0; i < wanted.size(); ++i) {
      const bool own = first <= i && i < last;
      if (own) {
        ASSERT_EQ(arrays[a].sum[i - first], wanted[i]) << "array " << a << " at " << i;
      }
      if (!own || of.add[a]) {
        ASSERT_EQ(data[a][i], summand[i]) << "array " << a << " at " << i;
      }
    }
  }
}

TEST(ReduceScatter, AddsInTheOrderOfRanks) {
  for (int ranks = 1; ranks <= 6; ++ranks) {
    RunGroup(ranks, [ranks](Communicator& group) {
      std::mt19937 delays(static_cast<uint32_t>(group.rank()));
      for (uint64_t seed = 1; seed <= 40; ++seed) {
        MayBeLate(delays);
        CheckReduceScatter(group, RandomCase(ranks, seed));
      }
    });
  }
}

TEST(ReduceScatter, TakesLargeSlicesPieceByPiece) {
  RunGroup(3, [](Communicator& group) {
    std::mt19937_64 random(7);
    Case large{.bounds = {RandomBounds(3, 300'001, random)}, .add = {false}, .seed = 5};
    const int64_t bytes = ReduceScatterWorkBytes(3, 300'001);
    EXPECT_EQ(bytes, ReduceScatterWorkBytes(3, 1'000'000'000));
    large.work = static_cast<size_t>(bytes) / sizeof(float);
    CheckReduceScatter(group, large);
  });
}

TEST(ReduceScatter, SaysThatItHasTooLittleMemory) {
  RunGroup(3, [](Communicator& group) {
    std::vector<float> work(1);
    const absl::Status status = ReduceScatter(group, {}, absl::MakeSpan(work), kPatience);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  });
}

TEST(AllGatherSlices, FillsEveryArray) {
  for (int ranks = 1; ranks <= 6; ++ranks) {
    RunGroup(ranks, [ranks](Communicator& group) {
      std::mt19937_64 random(11);
      std::mt19937 delays(static_cast<uint32_t>(group.rank()));
      for (int round = 0; round < 30; ++round) {
        const size_t arrays = random() % 12;
        std::vector<std::vector<int64_t>> bounds;
        std::vector<std::vector<uint8_t>> wanted;
        std::vector<std::vector<uint8_t>> data;
        for (size_t a = 0; a < arrays; ++a) {
          const size_t bytes = random() % 200;
          bounds.push_back(RandomBounds(ranks, bytes, random));
          wanted.emplace_back(bytes);
          for (uint8_t& byte : wanted.back()) byte = static_cast<uint8_t>(random() % 256);
          data.emplace_back(bytes);
          const auto first = bounds.back()[static_cast<size_t>(group.rank())];
          const auto last = bounds.back()[static_cast<size_t>(group.rank()) + 1];
          std::copy(wanted.back().begin() + first, wanted.back().begin() + last,
                    data.back().begin() + first);
        }
        std::vector<SlicedBytes> slices;
        for (size_t a = 0; a < arrays; ++a)
          slices.push_back({.data = data[a].data(), .bounds = bounds[a]});
        MayBeLate(delays);
        ASSERT_EQ(AllGatherSlices(group, slices, kPatience), absl::OkStatus());
        ASSERT_EQ(data, wanted);
      }
    });
  }
}

TEST(SumOverMachine, AddsUpWhatRanksOfOneMachineGive) {
  // Of six ranks 0, 3 and 4 are on one machine, 1 on another, and 2 and 5 do not know.
  const uint64_t a = 0x123456789abcdef0, b = 0xf23456789abcdef0;
  const uint64_t machines[] = {a, b, 0, a, a, 0};
  const int64_t wanted[] = {1 + 1000 + 10000, 10, 100, 1 + 1000 + 10000, 1 + 1000 + 10000, 100000};
  const int64_t mine[] = {1, 10, 100, 1000, 10000, 100000};
  RunGroup(6, [&](Communicator& group) {
    const auto rank = static_cast<size_t>(group.rank());
    const absl::StatusOr<int64_t> sum =
        SumOverMachine(group, mine[rank], Soon(), {.machine = machines[rank]});
    EXPECT_EQ(sum.value_or(-1), wanted[rank]);
    // Threads of one process share its machine.
    EXPECT_EQ(SumOverMachine(group, mine[rank], Soon()).value_or(-1), 111111);
  });
}

// The second of many sums fails on one rank, which tells the others the reason.
TEST(ReduceScatter, EndsForEverybodyWhenOneRankAborts) {
  for (int deserter = 0; deserter < 4; ++deserter) {
    RunGroup(4, [deserter](Communicator& group) {
      std::mt19937_64 random(3);
      const Case of{
          .bounds = {RandomBounds(4, 2000, random)}, .add = {false}, .work = 12, .seed = 9};
      CheckReduceScatter(group, of);
      ASSERT_EQ(group.Barrier(Soon()), absl::OkStatus());
      if (group.rank() == deserter) {
        group.Abort(absl::UnavailableError("had to leave"));
        return;
      }
      std::vector<float> data = of.Summand(group.rank(), 0);
      std::vector<float> work(of.work);
      const SlicedSum array{.data = data.data(),
                            .sum = data.data() + of.bounds[0][static_cast<size_t>(group.rank())],
                            .bounds = of.bounds[0]};
      absl::Status status = absl::OkStatus();
      // A rank without a slice may finish a sum before it learns that no other rank can.
      for (int i = 0; i < 3 && status.ok(); ++i) {
        status =
            ReduceScatter(group, absl::MakeConstSpan(&array, 1), absl::MakeSpan(work), kPatience);
        if (status.ok()) status = group.Barrier(Soon());
      }
      EXPECT_EQ(status, absl::UnavailableError("had to leave"));
    });
  }
}

TEST(ReduceScatter, APeerThatDoesNotComeIsADeadline) {
  RunGroup(2, [](Communicator& group) {
    if (group.rank() == 1) return;
    std::vector<float> data(10);
    std::vector<float> work(4);
    const std::vector<int64_t> bounds = {0, 5, 10};
    const SlicedSum array{.data = data.data(), .sum = data.data(), .bounds = bounds};
    const absl::Status status = ReduceScatter(group, absl::MakeConstSpan(&array, 1),
                                              absl::MakeSpan(work), absl::Milliseconds(30));
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  });
}

// Whoever comes later reads what it brought, not its memory (AddressSanitizer sees that).
TEST(Collectives, ARankMayLeaveAnAllGatherThatIsLate) {
  InProcessGroup group(2);
  for (int rank : {0, 1}) {
    const std::vector<double> mine = {1.0};
    std::vector<double> all(2);
    EXPECT_TRUE(absl::IsDeadlineExceeded(group.communicator(rank).AllGather(
        mine, absl::MakeSpan(all), Instant::Now() + absl::Milliseconds(10))));
  }
}

// Arrays that take longer than the time-out: it is for each message.
TEST(Collectives, TheTimeoutIsForEachMessage) {
  RunGroup(2, [](Communicator& ranks) {
    NotesDeadlines group(&ranks);
    std::vector<float> data(12);
    const std::vector<int64_t> bounds = {0, 6, 12};
    std::vector<float> work(1);  // six rounds
    const SlicedSum sum{
        .data = data.data(), .sum = data.data() + ptrdiff_t{6} * group.rank(), .bounds = bounds};
    ASSERT_EQ(ReduceScatter(group, {&sum, 1}, absl::MakeSpan(work), kPatience), absl::OkStatus());
    EXPECT_GT(group.deadlines.back(), group.deadlines.front());
    group.deadlines.clear();
    const SlicedBytes array{.data = data.data(), .bounds = bounds, .element_bytes = 4};
    const std::vector<SlicedBytes> arrays(20, array);
    ASSERT_EQ(AllGatherSlices(group, arrays, kPatience), absl::OkStatus());
    EXPECT_GT(group.deadlines.back(), group.deadlines.front());
  });
}

// Four ranks in two replicas of two: both pairs sum at the same time, independently.
TEST(ReduceScatter, RunsInSeveralSubGroupsAtOnce) {
  RunGroup(6, [](Communicator& whole) {
    const int mine = whole.rank() % 2;
    SubGroup group(&whole, {mine, mine + 2, mine + 4});
    for (uint64_t seed = 1; seed <= 40; ++seed)
      CheckReduceScatter(group, RandomCase(3, 2 * seed + static_cast<uint64_t>(mine)));
  });
}

TEST(ProbeLinksTest, MeasuresEveryPairOfRanks) {
  for (int ranks = 1; ranks <= 9; ++ranks) {
    std::vector<std::vector<MeasuredLink>> found(static_cast<size_t>(ranks));
    RunGroup(ranks, [&](Communicator& world) {
      const auto rank = static_cast<uint32_t>(world.rank());
      std::mt19937 random(rank);
      MayBeLate(random);
      absl::StatusOr<std::vector<MeasuredLink>> links = ProbeLinks(world, absl::Seconds(60));
      ASSERT_TRUE(links.ok()) << links.status();
      found[rank] = *std::move(links);
    });
    const auto size = static_cast<size_t>(ranks);
    for (size_t a = 0; a < size; ++a) {
      for (size_t b = 0; b < size; ++b) {
        const double seconds = found[0][a * size + b].Seconds(1 << 20);
        EXPECT_EQ(seconds > 0, a != b) << a << " to " << b << " of " << ranks;
        EXPECT_EQ(seconds, found[0][b * size + a].Seconds(1 << 20));
        EXPECT_EQ(seconds, found[a][a * size + b].Seconds(1 << 20));
      }
    }
  }
}

TEST(ProbeLinksTest, EndsWhereARankIsLost) {
  RunGroup(3, [&](Communicator& world) {
    if (world.rank() == 2) return world.Abort(absl::UnavailableError("rank 2 is gone"));
    EXPECT_TRUE(absl::IsUnavailable(ProbeLinks(world, absl::Seconds(60)).status()));
  });
}

}  // namespace
}  // namespace sluice
