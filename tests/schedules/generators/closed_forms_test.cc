// The formulas that `sluice schedule list` prints, against the simulator, at every small size.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "schedules/generators/catalogue.h"
#include "schedules/simulate/simulate.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

constexpr int kMostRanks = 8;
constexpr int kMostMicroBatches = Trials(40, 20);

struct Size {
  int p, m, v;
};

// The closed forms of one schedule in the catalogue: the idle time in the makespan (or in the span)
// of a run in which all stages cost the same, and the activations of rank r.
struct Forms {
  const char* name;
  double f, i, w;
  bool of_span;
  bool exact;  // otherwise they are upper bounds
  std::function<bool(Size)> holds;
  std::function<double(Size)> idle;
  std::function<int(Size, int)> peak;
};

int IdleOf1F1B(Size s) { return 3 * (s.p - 1); }
bool Always(Size) { return true; }
bool Full(Size s) { return s.m >= s.p; }
bool Doubled(Size s) { return s.m >= 2 * s.p; }
bool DoubledAndSeveral(Size s) { return s.m >= 2 * s.p && s.p > 1; }
double None(Size) { return 0; }

const Forms kForms[] = {
    {"gpipe", 1, 1, 1, false, true, Always, IdleOf1F1B, [](Size s, int) { return s.m; }},
    {"1f1b", 1, 1, 1, false, true, Always, IdleOf1F1B,
     [](Size s, int r) { return std::min(s.m, s.p - r); }},
    {"eager-1f1b", 1, 1, 1, false, true, Always, IdleOf1F1B,
     [](Size s, int r) { return std::min(s.m, 2 * (s.p - r) - 1); }},
    {"interleaved", 1, 1, 1, false, false, Full, IdleOf1F1B,
     [](Size s, int r) {
       const int g = s.m < 2 * s.p ? s.m : s.p + (s.m % s.p + s.m / s.p - 1) / (s.m / s.p);
       return std::min(s.v * s.m, 2 * (s.p - r - 1) + (s.v - 1) * g + 1);
     }},
    {"interleaved-zb", 1, 1, 1, false, false, Full, [](Size s) { return s.p - 1; },
     [](Size s, int) {
       const int g = s.m < 2 * s.p ? s.m : s.p + (s.m % s.p + s.m / s.p - 1) / (s.m / s.p);
       return std::min(s.v * s.m, (s.v - 1) * g + s.p);
     }},
    {"bfs", 1, 1, 1, false, true, Full, IdleOf1F1B, [](Size s, int) { return s.v * s.m; }},
    {"zb-h1", 1, 1, 1, false, true, Full, [](Size s) { return s.p - 1; },
     [](Size s, int) { return std::min(s.m, s.p); }},
    {"zb-h2", 1, 1, 1, true, true, [](Size s) { return s.m >= 2 * s.p - 1; }, None,
     [](Size s, int) { return std::min(s.m, 2 * s.p - 1); }},
    {"zb-2p", 1, 1, 1, true, true, Doubled, None,
     [](Size s, int) { return std::min(s.m, 2 * s.p); }},
    {"zbv", 1, 1, 1, true, true, [](Size s) { return s.m >= 2 * s.p - 1; }, None,
     [](Size s, int) { return std::min(2 * s.m, 2 * s.p); }},
    {"v-half", 1, 1, 1, false, false, DoubledAndSeveral, [](Size s) { return 3 * s.p - 4; },
     [](Size s, int) { return s.p + (s.p % 2 == 0 ? 2 : 1); }},
    {"v-min", 1, 1, 1, false, false, DoubledAndSeveral, [](Size s) { return 4 * s.p - 5; },
     [](Size s, int) { return 2 * ((s.p + 4) / 3); }},
    {"dualpipev", 1, 1, 1, false, true, DoubledAndSeveral, [](Size s) { return 2 * (s.p - 1); },
     [](Size s, int) { return 2 * s.p + 1; }},
    {"chimera", 2, 1, 1, false, true, [](Size s) { return s.m % s.p == 0; },
     [](Size s) { return 2 * (s.p - 2); },
     [](Size s, int r) { return s.p / 2 + 1 + std::min(r, s.p - 1 - r); }},
    {"hanayo", 1, 1, 1, false, true, [](Size s) { return s.m == s.p && s.v == 2; },
     [](Size s) { return 4 * (s.p - 1); }, nullptr},
    {"pipedream", 1, 1, 1, false, true, Always, IdleOf1F1B,
     [](Size s, int r) { return std::min(s.m, s.p - r); }},
    {"pipedream-2bw", 1, 1, 1, false, true, Always, IdleOf1F1B,
     [](Size s, int r) { return std::min(s.m, s.p - r); }},
};

TEST(ClosedForms, AreThereForEveryEntry) {
  ASSERT_EQ(std::size(kForms), Catalogue().size());
  for (size_t i = 0; i < Catalogue().size(); ++i) EXPECT_STREQ(kForms[i].name, Catalogue()[i].name);
}

void Check(const Forms& forms, Size size) {
  const auto table = GenerateSchedule(forms.name, {size.p, size.m, size.v});
  if (!table.ok()) return;
  const auto run =
      Simulate(*table, StageCosts::Uniform(table->placement.stages(), forms.f, forms.i, forms.w));
  ASSERT_TRUE(run.ok());
  const int cells = size.m * (size.v / table->placement.copies());
  const double work = cells * (forms.f + forms.i + forms.w);
  const double idle = (forms.of_span ? run->span : run->makespan) - work;
  if (forms.holds(size)) {
    if (forms.exact) {
      EXPECT_DOUBLE_EQ(idle, forms.idle(size));
    }
    EXPECT_LE(idle, forms.idle(size));
  }
  for (int r = 0; r < size.p && forms.peak; ++r) {
    // If there are too few micro-batches to fill the pipeline, fewer are held.
    if (forms.exact && forms.holds(size)) {
      EXPECT_EQ(run->peak_activations[r], forms.peak(size, r));
    }
    EXPECT_LE(run->peak_activations[r], forms.peak(size, r));
  }
}

TEST(ClosedForms, HoldAtEverySmallSize) {
  for (const Forms& forms : kForms) {
    for (int p = 1; p <= kMostRanks; ++p) {
      for (int m = 1; m <= kMostMicroBatches; ++m) {
        for (int v = 1; v <= 4; ++v) {
          SCOPED_TRACE(std::string(forms.name) + " p" + std::to_string(p) + " m" +
                       std::to_string(m) + " v" + std::to_string(v));
          Check(forms, {p, m, v});
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(ClosedForms, OfHanayoBoundItsMemory) {
  for (int p = 1; p <= kMostRanks; ++p) {
    for (int m = 1; m <= 5 * p; ++m) {
      for (int v = 2; v <= 6; v += 2) {
        const auto table = GenerateSchedule("hanayo", {p, m, v});
        const auto run = Simulate(*table, StageCosts::Uniform(p * v, 1, 1, 1));
        for (const int peak : run->peak_activations) EXPECT_LE(peak, v * std::min(m, 2 * p));
      }
    }
  }
}

// (p - 1)(X + B - 3 W) for a pair that takes X, if F + I - 2 W of it can be hidden: the formula of
// github.com/deepseek-ai/DualPipe for 2p stages.
TEST(ClosedForms, OfDualPipeVCountAPairAtItsDuration) {
  for (const double pair : {2.0, 2.5, 3.0}) {
    for (int p = 1; p <= kMostRanks; ++p) {
      for (const int m : {2 * p, 2 * p + 3, 5 * p}) {
        const auto table = GenerateSchedule("dualpipev", {p, m, 2});
        StageCosts costs = StageCosts::Uniform(2 * p, 1, 1, 1);
        costs.overlap = pair;
        const auto run = Simulate(*table, costs);
        const double most = *std::max_element(run->work.begin(), run->work.end());
        EXPECT_LE(run->makespan - most, (p - 1) * (pair + 2 - 3) + 1e-9) << pair << " " << p;
      }
    }
  }
}

}  // namespace
}  // namespace sluice
