#include <Random123/philox.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "models/layers/layer.h"

namespace sluice {
namespace {

constexpr size_t kNormalsPerBlock = 4;

// Uniform in (0, 1): never 0, so its logarithm is finite.
double Uniform(uint32_t bits) { return (bits + 0.5) * 0x1p-32; }

// Box & Muller 1958: two normals from two uniforms.
std::array<double, 2> BoxMuller(uint32_t a, uint32_t b) {
  const double radius = std::sqrt(-2 * std::log(Uniform(a)));
  const double angle = 2 * std::numbers::pi * Uniform(b);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

// Block `block` of the stream that `seed` and `stream` name (Salmon et al. 2011).
r123::Philox4x32::ctr_type RandomBits(uint64_t seed, uint64_t stream, uint64_t block) {
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  r123::Philox4x32 philox;
  const r123::Philox4x32::ctr_type counter = {{low(block), high(block), low(stream), high(stream)}};
  const r123::Philox4x32::key_type key = {{low(seed), high(seed)}};
  return philox(counter, key);
}

// Values 4 * block .. 4 * block + 3 of the stream.
std::array<double, kNormalsPerBlock> Normals(uint64_t seed, uint64_t stream, uint64_t block) {
  const r123::Philox4x32::ctr_type bits = RandomBits(seed, stream, block);
  const std::array<double, 2> first = BoxMuller(bits[0], bits[1]);
  const std::array<double, 2> second = BoxMuller(bits[2], bits[3]);
  return {first[0], first[1], second[0], second[1]};
}

// Between -bound and bound.
void FillUniform(uint64_t seed, uint64_t stream, float bound, size_t count, float* values) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = RandomBits(seed, stream, i / kNormalsPerBlock)[i % kNormalsPerBlock];
    values[i] = static_cast<float>(double{bound} * (2 * Uniform(bits) - 1));
  }
}

void FillNormal(uint64_t seed, uint64_t stream, float stddev, size_t count, float* values) {
  for (size_t begin = 0; begin < count; begin += kNormalsPerBlock) {
    const auto normals = Normals(seed, stream, begin / kNormalsPerBlock);
    const size_t end = std::min(count, begin + kNormalsPerBlock);
    for (size_t i = begin; i < end; ++i) {
      values[i] = static_cast<float>(double{stddev} * normals[i - begin]);
    }
  }
}

}  // namespace

void InitializeParameter(const ParameterDecl& decl, uint64_t seed, float* values) {
  const auto count = static_cast<size_t>(ElementCount(decl.shape));
  switch (decl.init) {
    case ParameterDecl::Init::kZeros:
      std::fill_n(values, count, 0.0f);
      break;
    case ParameterDecl::Init::kOnes:
      std::fill_n(values, count, 1.0f);
      break;
    case ParameterDecl::Init::kUniform:
      FillUniform(seed, XXH3_64bits(decl.name.data(), decl.name.size()), decl.stddev, count,
                  values);
      break;
    case ParameterDecl::Init::kNormal: {
      // A tied parameter draws what its twin draws: they are equal from the start.
      const std::string& name = decl.tied_to.empty() ? decl.name : decl.tied_to;
      FillNormal(seed, XXH3_64bits(name.data(), name.size()), decl.stddev, count, values);
      break;
    }
  }
}

}  // namespace sluice
