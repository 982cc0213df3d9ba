#include "partitioner/machines.h"

#include <gtest/gtest.h>

#include <memory>

namespace sluice {
namespace {

std::shared_ptr<const CostTable> Table(int layers, double apart_seconds = 0) {
  LayerCost layer;
  layer.input_grad_seconds = 1;
  layer.apart_input_grad_seconds = apart_seconds;
  return *CostTable::CreateShared(std::vector<LayerCost>(layers, layer));
}

// Four ranks in a ring; every link has another latency and bandwidth.
Machines Ring() {
  Machines machines;
  machines.costs = Table(4);
  machines.rank_links = {{1, 40}, {4, 20}, {2, 30}, {8, 10}};
  return machines;
}

TEST(Machines, NeighboursUseTheirOwnLinkInBothDirections) {
  const Machines machines = Ring();
  EXPECT_EQ(machines.LinkBetween(1, 2).latency, 4);
  EXPECT_EQ(machines.LinkBetween(2, 1).latency, 4);
  EXPECT_EQ(machines.LinkBetween(3, 0).latency, 8);  // from the last rank to the first
}

TEST(Machines, RanksFurtherApartHaveTheSlowestOfTheLinksBetweenThem) {
  const Machines machines = Ring();
  EXPECT_EQ(machines.LinkBetween(0, 3).latency, 4);
  EXPECT_EQ(machines.LinkBetween(0, 3).bandwidth, 20);
  EXPECT_EQ(machines.LinkBetween(2, 0).bandwidth, 20);
}

TEST(Machines, OneValueHoldsForAllRanksWhereNoneIsGivenByRank) {
  Machines machines;
  machines.costs = Table(4);
  machines.link.latency = 3;
  EXPECT_EQ(machines.LinkBetween(0, 2).latency, 3);
  EXPECT_EQ(&machines.CostsOf(1), machines.costs.get());
  EXPECT_FALSE(machines.limits_memory());
  machines.rank_memory = {7, 5, 9};
  EXPECT_EQ(machines.MemoryOf(2), 9);
  EXPECT_EQ(machines.least_memory(), 5);
  machines.SetMemory(6);
  EXPECT_EQ(machines.MemoryOf(2), 6);
}

TEST(Machines, AreRefusedWhereRanksMustBeAlikeAndDiffer) {
  Machines machines;
  machines.SetMemory(5);
  EXPECT_TRUE(machines.alike());
  EXPECT_TRUE(ValidateEqualMachines(machines, 3).ok());
  machines.rank_memory = {5, 5, 5};
  EXPECT_FALSE(machines.alike());
  EXPECT_TRUE(ValidateMachines(machines, 3).ok());
  EXPECT_EQ(ValidateEqualMachines(machines, 3).code(), absl::StatusCode::kInvalidArgument);
}

TEST(Machines, ApartPricesEveryRankForTimetablesThatRunWApart) {
  Machines machines;
  machines.costs = Table(2, /*apart_seconds=*/3);
  machines.rank_costs = {Table(2), Table(2, /*apart_seconds=*/5)};
  const Machines apart = machines.Apart();
  EXPECT_EQ(apart.costs->layers()[0].input_grad_seconds, 3);
  EXPECT_EQ(apart.CostsOf(0).layers()[0].input_grad_seconds, 1);  // it does not cost more
  EXPECT_EQ(apart.CostsOf(1).layers()[0].input_grad_seconds, 5);
}

TEST(Machines, RefusesValuesByRankThatDoNotFitTheRanks) {
  Machines machines = Ring();
  EXPECT_TRUE(ValidateMachines(machines, 4).ok());
  EXPECT_FALSE(ValidateMachines(machines, 3).ok());
  machines.rank_costs = {Table(4), Table(4), Table(4), Table(5)};
  EXPECT_FALSE(ValidateMachines(machines, 4).ok());
}

}  // namespace
}  // namespace sluice
