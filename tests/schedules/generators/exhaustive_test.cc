// Every schedule of the catalogue at every small size.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "schedules/check/validate.h"
#include "schedules/generators/catalogue.h"
#include "schedules/lower.h"
#include "schedules/simulate/bound.h"
#include "schedules/simulate/simulate.h"

namespace sluice {
namespace {

constexpr int kRanks = 8;
constexpr int kMicroBatches = 16;
constexpr int kChunks[] = {1, 2, 4};

bool Takes(const CatalogueEntry& entry, int p, int v) {
  if (entry.copies > 1 && p % 2 != 0) return false;
  return entry.chunk_step == 0 ? v == entry.default_chunks : v % entry.chunk_step == 0;
}

using Visit = std::function<void(const ScheduleRequest&, const Timetable&)>;

// Calls `visit` for every size that `entry` takes.
void ForEachTable(const CatalogueEntry& entry, const Visit& visit) {
  for (int p = 1; p <= kRanks; ++p) {
    for (int m = 1; m <= kMicroBatches; ++m) {
      for (const int v : kChunks) {
        if (!Takes(entry, p, v)) continue;
        const ScheduleRequest request{p, m, v};
        const auto table = GenerateSchedule(entry.name, request);
        ASSERT_TRUE(table.ok()) << table.status();
        SCOPED_TRACE(std::string(entry.name) + " p" + std::to_string(p) + " m" + std::to_string(m) +
                     " v" + std::to_string(v));
        visit(request, *table);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

std::string NameOf(const char* schedule) {
  std::string name = std::string(schedule) == "1f1b" ? "one_f_one_b" : schedule;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

class EverySchedule : public testing::TestWithParam<CatalogueEntry> {
 protected:
  const CatalogueEntry& entry() const { return GetParam(); }
};

TEST_P(EverySchedule, RefusesOnlyWhatItSaysItDoesNotTake) {
  for (int p = 1; p <= kRanks; ++p) {
    for (const int v : kChunks) {
      const auto table = GenerateSchedule(entry().name, {p, 5, v});
      ASSERT_EQ(table.ok(), Takes(entry(), p, v)) << p << " " << v << table.status();
      if (table.ok()) continue;
      // The message of the generator, not that of the validator.
      const std::string expected = std::string("schedule ") + entry().name + " needs ";
      EXPECT_EQ(table.status().message().find(expected), 0) << table.status();
      EXPECT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument);
    }
  }
}

TEST_P(EverySchedule, SaysWhatItIs) {
  ForEachTable(entry(), [&](const ScheduleRequest& request, const Timetable& table) {
    EXPECT_EQ(table.name, entry().name);
    EXPECT_EQ(table.micro_batches, request.micro_batches);
    EXPECT_EQ(table.placement.ranks(), request.ranks);
    EXPECT_EQ(table.placement.chunks(), request.chunks);
    EXPECT_EQ(table.placement.copies(), entry().copies);
    EXPECT_EQ(table.updates, entry().updates);
    bool splits = false;
    for (const auto& row : table.rows) {
      for (const Action& action : row) splits |= action.op == Op::kInputGrad;
    }
    // With one rank no schedule may be better than another.
    if (request.ranks > 1) {
      EXPECT_EQ(splits, entry().splits_backward);
    }
  });
}

TEST_P(EverySchedule, LowersToASoundTableWithTheSameTimes) {
  ForEachTable(entry(), [](const ScheduleRequest&, const Timetable& table) {
    const auto lowered = LowerTimetable(table);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_TRUE(ValidateTimetable(*lowered).ok());
    EXPECT_EQ(ComputeOnly(*lowered).rows, table.rows);
    const auto costs = StageCosts::Uniform(table.placement.stages(), 1.5, 1.25, 0.75, 0.5);
    const auto run = Simulate(table, costs);
    const auto lowered_run = Simulate(*lowered, costs);
    ASSERT_TRUE(run.ok() && lowered_run.ok());
    EXPECT_EQ(run->makespan, lowered_run->makespan);
    EXPECT_EQ(run->peak_activations, lowered_run->peak_activations);
  });
}

TEST_P(EverySchedule, IsNeverFasterThanTheBound) {
  ForEachTable(entry(), [](const ScheduleRequest& request, const Timetable& table) {
    StageCosts costs = StageCosts::Uniform(table.placement.stages(), 1, 1, 1, 0.25);
    for (int s = 0; s < table.placement.stages(); ++s) {
      costs.forward[s] += 0.125 * (s % 3);
      costs.backward[s] = costs.input_grad[s] + costs.weight_grad[s] - 0.25 * (s % 2);
    }
    const auto run = Simulate(table, costs);
    ASSERT_TRUE(run.ok());
    EXPECT_LE(MakespanLowerBound(table.placement, request.micro_batches, costs),
              run->makespan + 1e-9);
  });
}

// Of stages that differ, with and without a limit.
TEST_P(EverySchedule, IsSoundWhateverTheCosts) {
  if (!entry().takes_costs) return;
  std::mt19937 random(7);
  const auto draw = [&random](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  for (int i = 0; i < 5'000; ++i) {
    ScheduleRequest request{.ranks = draw(1, 6), .micro_batches = draw(1, 8)};
    StageCosts costs = StageCosts::Uniform(request.ranks, 1, 1, 1);
    for (std::vector<double>* list :
         {&costs.forward, &costs.input_grad, &costs.weight_grad, &costs.send}) {
      for (double& cost : *list) cost = draw(0, 4);
    }
    for (int s = 0; s < request.ranks; ++s)
      costs.backward[s] = costs.input_grad[s] + costs.weight_grad[s];
    request.costs = &costs;
    request.memory_limit = draw(0, 2 * request.ranks);
    const auto table = GenerateSchedule(entry().name, request);
    ASSERT_TRUE(table.ok()) << table.status();
    ASSERT_EQ(ValidateTimetable(*table), absl::OkStatus());
    if (request.memory_limit == 0) continue;
    const auto run = Simulate(*table, costs);
    ASSERT_TRUE(run.ok()) << run.status();
    for (const int peak : run->peak_activations) ASSERT_LE(peak, request.memory_limit);
  }
}

INSTANTIATE_TEST_SUITE_P(Catalogue, EverySchedule,
                         testing::ValuesIn(Catalogue().begin(), Catalogue().end()),
                         [](const auto& known) { return NameOf(known.param.name); });

// Any group size and any number of micro-batches, divisible or not.
TEST(InterleavedGroups, AreOfAnySize) {
  for (const char* name : {"interleaved", "interleaved-zb"}) {
    for (int p = 1; p <= 6; ++p) {
      for (int m = 1; m <= 14; ++m) {
        for (int v = 1; v <= 3; ++v) {
          for (int group = 1; group <= m + 1; ++group) {
            const auto table = GenerateSchedule(name, {p, m, v, group});
            ASSERT_TRUE(table.ok()) << table.status();
            const auto lowered = LowerTimetable(*table);
            ASSERT_TRUE(lowered.ok()) << lowered.status();
            EXPECT_TRUE(ValidateTimetable(*lowered).ok());
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice
