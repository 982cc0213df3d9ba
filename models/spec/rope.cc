#include "models/spec/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace sluice {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

// One over the frequencies that nothing stretches. PyTorch takes the power of a number with an fp32
// tensor in fp32: base and exponent are rounded first.
std::vector<float> PowersOfTheta(const Rope& rope, int64_t head_dim) {
  std::vector<float> powers(static_cast<size_t>(head_dim / 2));
  for (size_t i = 0; i < powers.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(head_dim);
    powers[i] = std::pow(static_cast<float>(rope.theta), exponent);
  }
  return powers;
}

// One frequency of Llama 3.1's: short waves stay, long ones are stretched, between them a blend. A
// number divided by a tensor is, in PyTorch, the number times its reciprocal.
float Llama3Frequency(const Rope& rope, float frequency, double original) {
  const auto factor = static_cast<float>(rope.factor);
  const double low = rope.low_frequency_factor, high = rope.high_frequency_factor;
  const float wave = 1 / frequency * static_cast<float>(kTwoPi);
  const auto longest = static_cast<float>(original / low);
  const auto shortest = static_cast<float>(original / high);
  if (wave > longest) return frequency / factor;
  if (wave < shortest) return frequency;
  const float turns = 1 / wave * static_cast<float>(original);
  const float smooth = (turns - static_cast<float>(low)) / static_cast<float>(high - low);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

// The pair whose wave makes `turns` turns in the original sequence, as a fraction (YaRN, section
// 3.2).
double PairOfTurns(const Rope& rope, double turns, double head_dim, double original) {
  return head_dim * std::log(original / (turns * kTwoPi)) / (2 * std::log(rope.theta));
}

// Where the ramp from frequencies that stay to those that are divided begins and ends, in pairs.
struct Ramp {
  double begin, end;
};

Ramp RampOf(const Rope& rope, double head_dim, double original) {
  Ramp ramp = {PairOfTurns(rope, rope.beta_fast, head_dim, original),
               PairOfTurns(rope, rope.beta_slow, head_dim, original)};
  if (rope.truncate) ramp = {std::floor(ramp.begin), std::ceil(ramp.end)};
  ramp = {std::max(ramp.begin, 0.0), std::min(ramp.end, head_dim - 1)};
  if (ramp.begin == ramp.end) ramp.end += 0.001;  // as transformers does, against a division by 0
  return ramp;
}

std::vector<float> YarnFrequencies(const Rope& rope, std::vector<float> powers, double head_dim,
                                   double original) {
  const Ramp ramp = RampOf(rope, head_dim, original);
  const auto begin = static_cast<float>(ramp.begin);
  const auto span = static_cast<float>(ramp.end - ramp.begin);
  for (size_t i = 0; i < powers.size(); ++i) {
    const float stay = 1 - std::clamp((static_cast<float>(i) - begin) / span, 0.0f, 1.0f);
    const float divided = 1 / (static_cast<float>(rope.factor) * powers[i]);
    powers[i] = divided * (1 - stay) + 1 / powers[i] * stay;
  }
  return powers;
}

}  // namespace

const char* RopeScalingName(RopeScaling scaling) {
  switch (scaling) {
    case RopeScaling::kNone:
      return "default";
    case RopeScaling::kLinear:
      return "linear";
    case RopeScaling::kLlama3:
      return "llama3";
    case RopeScaling::kYarn:
      return "yarn";
  }
  return "";
}

std::optional<RopeScaling> ParseRopeScaling(absl::string_view name) {
  for (const RopeScaling scaling :
       {RopeScaling::kNone, RopeScaling::kLinear, RopeScaling::kLlama3, RopeScaling::kYarn}) {
    if (name == RopeScalingName(scaling)) return scaling;
  }
  return std::nullopt;
}

std::vector<float> InverseFrequencies(const Rope& rope, int64_t head_dim, int64_t max_seq) {
  const auto original =
      static_cast<double>(rope.original_max_seq > 0 ? rope.original_max_seq : max_seq);
  std::vector<float> powers = PowersOfTheta(rope, head_dim);
  if (rope.scaling == RopeScaling::kYarn) {
    return YarnFrequencies(rope, std::move(powers), static_cast<double>(head_dim), original);
  }
  for (float& value : powers) {
    value = 1 / value;
    if (rope.scaling == RopeScaling::kLinear) value /= static_cast<float>(rope.factor);
    if (rope.scaling == RopeScaling::kLlama3) value = Llama3Frequency(rope, value, original);
  }
  return powers;
}

float RopeMagnitude(const Rope& rope) {
  if (rope.scaling != RopeScaling::kYarn) return 1;
  if (rope.attention_factor > 0) return static_cast<float>(rope.attention_factor);
  const auto grown = [&](double scale) {
    return rope.factor <= 1 ? 1.0 : 0.1 * scale * std::log(rope.factor) + 1;
  };
  if (rope.mscale == 0 || rope.mscale_all_dim == 0) return static_cast<float>(grown(1));
  return static_cast<float>(grown(rope.mscale) / grown(rope.mscale_all_dim));
}

}  // namespace sluice
