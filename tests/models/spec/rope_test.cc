#include "models/spec/rope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace sluice {
namespace {

// What transformers 5.23 computes on a CPU: inv_freq and attention_scaling of
// LlamaRotaryEmbedding(LlamaConfig(head_dim=..., max_position_embeddings=..., rope_parameters=...))
// with these fields, printed with nine digits.
struct Computed {
  const char* name;
  Rope rope;
  int64_t head_dim, max_seq;
  float magnitude;
  std::vector<float> frequencies;
};

std::vector<Computed> ByTransformers() {
  return {
      {"nothing stretched",
       {.theta = 1e6},
       64,
       32768,
       1,
       {1,
        0.649381638f,
        0.421696514f,
        0.273841977f,
        0.177827939f,
        0.115478203f,
        0.0749894157f,
        0.0486967526f,
        0.0316227786f,
        0.0205352511f,
        0.0133352149f,
        0.00865964312f,
        0.00562341325f,
        0.00365174143f,
        0.00237137382f,
        0.00153992651f,
        0.00100000005f,
        0.000649381662f,
        0.000421696488f,
        0.000273841957f,
        0.00017782794f,
        0.000115478193f,
        7.49894243e-05f,
        4.86967547e-05f,
        3.16227743e-05f,
        2.05352499e-05f,
        1.33352141e-05f,
        8.65964375e-06f,
        5.62341347e-06f,
        3.65174128e-06f,
        2.37137374e-06f,
        1.53992653e-06f}},
      {"linear",
       {.scaling = RopeScaling::kLinear, .factor = 3},
       16,
       8192,
       1,
       {0.333333343f, 0.105409257f, 0.0333333351f, 0.0105409259f, 0.00333333318f, 0.00105409266f,
        0.000333333359f, 0.000105409265f}},
      {"Llama 3.2 1B",
       {.theta = 5e5, .scaling = RopeScaling::kLlama3, .factor = 32, .original_max_seq = 8192},
       64,
       131072,
       1,
       {1,
        0.663601279f,
        0.440366626f,
        0.292227834f,
        0.193922758f,
        0.128687382f,
        0.0853971019f,
        0.0566696189f,
        0.0376060307f,
        0.0249554086f,
        0.0165604409f,
        0.0109895291f,
        0.00729266508f,
        0.00483942125f,
        0.00321144611f,
        0.00129054801f,
        0.000429556705f,
        9.70828623e-05f,
        1.94616387e-05f,
        1.29147675e-05f,
        8.57025589e-06f,
        5.68723226e-06f,
        3.77405445e-06f,
        2.50446715e-06f,
        1.66196742e-06f,
        1.10288363e-06f,
        7.31874934e-07f,
        4.85673127e-07f,
        3.22293289e-07f,
        2.1387423e-07f,
        1.41927202e-07f,
        9.41830649e-08f}},
      {"llama3, other factors, without the original sequence",
       {.scaling = RopeScaling::kLlama3,
        .factor = 6,
        .low_frequency_factor = 2,
        .high_frequency_factor = 9},
       32,
       4096,
       1,
       {1, 0.562341332f, 0.316227764f, 0.177827939f, 0.100000001f, 0.0562341288f, 0.0316227786f,
        0.0177827943f, 0.00704641175f, 0.0020524757f, 0.000550192839f, 0.000296379905f,
        0.000166666679f, 9.37235527e-05f, 5.27046323e-05f, 2.96379894e-05f}},
      {"yarn, as Qwen's cards say",
       {.theta = 1e6, .scaling = RopeScaling::kYarn, .factor = 4, .original_max_seq = 8192},
       32,
       32768,
       1.13862944f,
       {1, 0.421696514f, 0.177827939f, 0.0749894157f, 0.0316227786f, 0.0113349333f, 0.00393638946f,
        0.00130425557f, 0.000400000019f, 0.000105424122f, 4.44569851e-05f, 1.87473561e-05f,
        7.90569356e-06f, 3.33380353e-06f, 1.40585337e-06f, 5.92843435e-07f}},
      {"yarn, every field",
       {.scaling = RopeScaling::kYarn,
        .factor = 40,
        .beta_fast = 16,
        .beta_slow = 2,
        .mscale = 0.707,
        .mscale_all_dim = 1,
        .truncate = false,
        .original_max_seq = 4096},
       64,
       163840,
       0.921042355f,
       {1,
        0.749894202f,
        0.562341332f,
        0.421696514f,
        0.316227764f,
        0.237137362f,
        0.177827939f,
        0.133352146f,
        0.100000001f,
        0.0749894157f,
        0.0562341288f,
        0.0421696492f,
        0.0316227786f,
        0.0233312435f,
        0.0150961196f,
        0.00952086132f,
        0.00579010462f,
        0.00332995923f,
        0.00173821871f,
        0.000734386675f,
        0.000123952457f,
        5.92843462e-05f,
        4.44569851e-05f,
        3.3338034e-05f,
        2.49999994e-05f,
        1.87473543e-05f,
        1.40585325e-05f,
        1.05424124e-05f,
        7.90569447e-06f,
        5.92843435e-06f,
        4.44569832e-06f,
        3.33380353e-06f}},
      {"yarn, attention_factor",
       {.scaling = RopeScaling::kYarn,
        .factor = 2.5,
        .attention_factor = 1.25,
        .original_max_seq = 1000},
       16,
       8192,
       1.25f,
       {1, 0.316227764f, 0.0850000009f, 0.022135945f, 0.00549999997f, 0.00126491114f,
        0.00039999999f, 0.000126491112f}},
  };
}

// In units of the last place: torch's vectorised power may differ from this library's by one.
double Distance(float a, float b) {
  const double unit = std::ldexp(std::numeric_limits<float>::epsilon(), std::ilogb(b));
  return std::abs(static_cast<double>(a) - b) / unit;
}

TEST(RopeTest, FrequenciesAreThoseOfTransformers) {
  for (const Computed& computed : ByTransformers()) {
    const std::vector<float> frequencies =
        InverseFrequencies(computed.rope, computed.head_dim, computed.max_seq);
    ASSERT_EQ(frequencies.size(), computed.frequencies.size()) << computed.name;
    for (size_t i = 0; i < frequencies.size(); ++i) {
      EXPECT_LE(Distance(frequencies[i], computed.frequencies[i]), 1)
          << computed.name << ", pair " << i << ": " << frequencies[i];
    }
    EXPECT_LE(Distance(RopeMagnitude(computed.rope), computed.magnitude), 1) << computed.name;
  }
}

// Chen et al. 2023: every position divided by the factor, which is every frequency.
TEST(RopeTest, LinearDividesEveryFrequency) {
  const std::vector<float> plain = InverseFrequencies({}, 32, 2048);
  const std::vector<float> linear =
      InverseFrequencies({.scaling = RopeScaling::kLinear, .factor = 4}, 32, 2048);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(linear[i], plain[i] / 4);
}

// Of any factors, a stretched frequency lies between the plain one and that divided by the factor,
// and the ends of the range are exactly these.
TEST(RopeTest, ScalingsStayBetweenPlainAndDivided) {
  for (const RopeScaling scaling : {RopeScaling::kLlama3, RopeScaling::kYarn}) {
    const Rope rope = {.theta = 5e5, .scaling = scaling, .factor = 8, .original_max_seq = 8192};
    const std::vector<float> plain = InverseFrequencies({.theta = 5e5}, 128, 131072);
    const std::vector<float> found = InverseFrequencies(rope, 128, 131072);
    for (size_t i = 0; i < plain.size(); ++i) {
      EXPECT_LE(found[i], plain[i] * (1 + 1e-6f)) << i;
      EXPECT_GE(found[i], plain[i] / 8 * (1 - 1e-6f)) << i;
    }
    EXPECT_EQ(found.front(), plain.front());
    EXPECT_LE(Distance(found.back(), plain.back() / 8), 1);
  }
}

TEST(RopeTest, NamesAreReadBack) {
  for (const RopeScaling scaling :
       {RopeScaling::kNone, RopeScaling::kLinear, RopeScaling::kLlama3, RopeScaling::kYarn}) {
    EXPECT_EQ(ParseRopeScaling(RopeScalingName(scaling)), scaling);
  }
  for (const char* other : {"", "dynamic", "YARN", "longrope"}) {
    EXPECT_EQ(ParseRopeScaling(other), std::nullopt);
  }
}

}  // namespace
}  // namespace sluice
