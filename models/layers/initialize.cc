#include <Random123/philox.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "models/layers/layer.h"
#include "models/spec/bfloat16.h"

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

// Values of a parameter that are made together where it is not fp32; a multiple of kNormalsPerBlock.
constexpr int64_t kPiece = int64_t{1} << 16U;

// Between -bound and bound; values first ... first + count - 1 of the stream, as all below.
void FillUniform(uint64_t seed, uint64_t stream, float bound, size_t first, size_t count,
                 float* values) {
  for (size_t i = first; i < first + count; ++i) {
    const uint32_t bits = RandomBits(seed, stream, i / kNormalsPerBlock)[i % kNormalsPerBlock];
    values[i - first] = static_cast<float>(double{bound} * (2 * Uniform(bits) - 1));
  }
}

// `first` is a multiple of kNormalsPerBlock.
void FillNormal(uint64_t seed, uint64_t stream, float stddev, size_t first, size_t count,
                float* values) {
  for (size_t begin = 0; begin < count; begin += kNormalsPerBlock) {
    const auto normals = Normals(seed, stream, (first + begin) / kNormalsPerBlock);
    const size_t end = std::min(count, begin + kNormalsPerBlock);
    for (size_t i = begin; i < end; ++i) {
      values[i] = static_cast<float>(double{stddev} * normals[i - begin]);
    }
  }
}

void Fill(const ParameterDecl& decl, uint64_t seed, size_t first, size_t count, float* values) {
  const auto stream = [](const std::string& name) { return XXH3_64bits(name.data(), name.size()); };
  switch (decl.init) {
    case ParameterDecl::Init::kZeros:
      std::fill_n(values, count, 0.0f);
      break;
    case ParameterDecl::Init::kOnes:
      std::fill_n(values, count, 1.0f);
      break;
    case ParameterDecl::Init::kUniform:
      FillUniform(seed, stream(decl.name), decl.stddev, first, count, values);
      break;
    case ParameterDecl::Init::kNormal:
      // A tied parameter draws what its twin draws: they are equal from the start.
      FillNormal(seed, stream(decl.tied_to.empty() ? decl.name : decl.tied_to), decl.stddev, first,
                 count, values);
      break;
  }
}

}  // namespace

void InitializeParameter(const ParameterDecl& decl, uint64_t seed, void* values,
                         const LowHalves& low_halves) {
  const int64_t elements = ElementCount(decl.shape);
  if (decl.dtype == DType::kFloat32) {
    Fill(decl, seed, 0, static_cast<size_t>(elements), static_cast<float*>(values));
    return;
  }
  std::vector<float> piece(static_cast<size_t>(std::min(kPiece, elements)));
  for (int64_t first = 0; first < elements; first += kPiece) {
    const int64_t count = std::min(kPiece, elements - first);
    Fill(decl, seed, static_cast<size_t>(first), static_cast<size_t>(count), piece.data());
    auto* const halves = static_cast<uint16_t*>(values);
    if (decl.is_split()) {
      SplitFloats(first, count, piece.data(), halves, low_halves);
    } else {
      ToBFloat16(count, piece.data(), halves + first);
    }
  }
}

}  // namespace sluice
