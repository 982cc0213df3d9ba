// Who sends what to whom, against a twin that looks at every element by itself.
#include "pipeline/recover/moves.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <tuple>
#include <vector>

namespace sluice {
namespace {

using Element = std::tuple<int, StateKind, int64_t>;
using Ranges = std::vector<std::vector<StateRange>>;

std::set<Element> ElementsOf(const std::vector<StateRange>& ranges) {
  std::set<Element> elements;
  for (const StateRange& range : ranges) {
    for (int64_t at = range.first; at < range.first + range.count; ++at)
      elements.insert({range.parameter, range.kind, at});
  }
  return elements;
}

// Of each tensor a rank has at most one range.
Ranges RandomRanges(std::mt19937& random, int ranks, double share) {
  Ranges ranges(static_cast<size_t>(ranks));
  std::uniform_real_distribution<double> chance(0, 1);
  for (std::vector<StateRange>& of_rank : ranges) {
    for (int parameter = 0; parameter < 4; ++parameter) {
      for (const StateKind kind : {StateKind::kWeight, StateKind::kMoment1, StateKind::kMoment2}) {
        if (chance(random) > share) continue;
        const bool all = chance(random) < share;
        const int64_t first = all ? 0 : std::uniform_int_distribution<int64_t>(0, 12)(random);
        const int64_t end = all ? 12 : std::uniform_int_distribution<int64_t>(first, 12)(random);
        of_rank.push_back({.parameter = parameter,
                           .kind = kind,
                           .frozen = parameter == 3,
                           .first = first,
                           .count = end - first});
      }
    }
  }
  return ranges;
}

TEST(PlanMovesTest, BringsEachNeededElementOnceFromWhoeverHasIt) {
  std::mt19937 random(17);
  int with_missing = 0, whole = 0;
  for (int round = 0; round < 2000; ++round) {
    const int ranks = std::uniform_int_distribution<int>(1, 5)(random);
    const double share = std::uniform_real_distribution<double>(0.2, 1)(random);
    const Ranges held = RandomRanges(random, ranks, share);
    const Ranges needed = RandomRanges(random, ranks, 0.5);
    const StateMoves plan = PlanMoves(held, needed);

    std::vector<std::set<Element>> holds;
    std::set<Element> all;
    for (const auto& of_rank : held) {
      holds.push_back(ElementsOf(of_rank));
      all.insert(holds.back().begin(), holds.back().end());
    }
    std::vector<std::multiset<Element>> got(held.size());
    for (const StateMove& move : plan.moves) {
      ASSERT_GT(move.what.count, 0);
      for (const Element& element : ElementsOf({move.what})) {
        ASSERT_TRUE(holds[static_cast<size_t>(move.from)].contains(element));
        // What is here is not sent for.
        ASSERT_TRUE(move.from == move.to || !holds[static_cast<size_t>(move.to)].contains(element));
        got[static_cast<size_t>(move.to)].insert(element);
      }
    }
    bool loses = false;
    for (size_t rank = 0; rank < needed.size(); ++rank) {
      std::multiset<Element> wanted;
      std::set<Element> missing;
      for (const Element& element : ElementsOf(needed[rank])) {
        if (all.contains(element)) {
          wanted.insert(element);
        } else {
          missing.insert(element);
          loses |= std::get<0>(element) != 3;
        }
      }
      EXPECT_EQ(got[rank], wanted);
      EXPECT_EQ(ElementsOf(plan.missing[rank]), missing);
    }
    EXPECT_EQ(plan.loses_training(), loses);
    ++(loses ? with_missing : whole);
  }
  EXPECT_GT(with_missing, 100);
  EXPECT_GT(whole, 100);
}

}  // namespace
}  // namespace sluice
