#include "tests/models/kernels/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

namespace sluice {
namespace {

constexpr size_t kGuard = 128;
constexpr char kCanary = 0x5A;
constexpr char kPoison = -1;  // 0xFFFF is a bf16 NaN, 0xFFFFFFFF an fp32 one

void CheckCanaries(const Reachable<char>& bytes, size_t start, size_t length) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == start) i += length;  // so that large ones take no longer than small ones
    if (bytes[i] != kCanary) {
      ADD_FAILURE() << "byte " << static_cast<long>(i) - static_cast<long>(start)
                    << " of a buffer of " << length << " bytes was written";
      return;
    }
  }
}

size_t Misalignment(DType dtype) {
  static const bool aligned = std::getenv("SLUICE_TEST_ALIGNED") != nullptr;
  return aligned ? 0 : static_cast<size_t>(SizeOf(dtype));
}

uint16_t RoundedBits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

float ValueOfBits(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

}  // namespace

double Rounded(double value, DType dtype) {
  const auto single = static_cast<float>(value);
  return static_cast<double>(dtype == DType::kBFloat16 ? ValueOfBits(RoundedBits(single)) : single);
}

Values Rounded(Values values, DType dtype) {
  for (double& value : values) value = Rounded(value, dtype);
  return values;
}

Values RandomValues(size_t n, uint64_t seed, double low, double high) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(low, high);
  Values values(n);
  for (double& value : values) value = uniform(random);
  return values;
}

Values RandomMatrix(int64_t rows, int64_t columns, uint64_t seed, double low, double high) {
  return RandomValues(static_cast<size_t>(rows * columns), seed, low, high);
}

Tensor::Tensor(DType dtype, size_t n)
    : dtype_(dtype),
      n_(n),
      offset_(kGuard + Misalignment(dtype)),
      bytes_(n * static_cast<size_t>(SizeOf(dtype)) + 2 * kGuard, kCanary) {
  std::fill_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset_), bytes(), kPoison);
}

Tensor::Tensor(DType dtype, const Values& values) : Tensor(dtype, values.size()) {
  for (size_t i = 0; i < n_; ++i) Set(i, values[i]);
}

Tensor::~Tensor() { CheckCanaries(bytes_, offset_, bytes()); }

double Tensor::Get(size_t i) const {
  const char* at = bytes_.data() + offset_ + i * static_cast<size_t>(SizeOf(dtype_));
  if (dtype_ == DType::kBFloat16) {
    uint16_t bits;
    std::memcpy(&bits, at, sizeof(bits));
    return static_cast<double>(ValueOfBits(bits));
  }
  float value;
  std::memcpy(&value, at, sizeof(value));
  return static_cast<double>(value);
}

void Tensor::Set(size_t i, double value) {
  char* at = bytes_.data() + offset_ + i * static_cast<size_t>(SizeOf(dtype_));
  const auto single = static_cast<float>(value);
  if (dtype_ == DType::kBFloat16) {
    const uint16_t bits = RoundedBits(single);
    std::memcpy(at, &bits, sizeof(bits));
  } else {
    std::memcpy(at, &single, sizeof(single));
  }
}

Values Tensor::ToValues() const {
  Values values(n_);
  for (size_t i = 0; i < n_; ++i) values[i] = Get(i);
  return values;
}

std::vector<char> Tensor::Bits() const {
  const auto start = bytes_.begin() + static_cast<std::ptrdiff_t>(offset_);
  return {start, start + static_cast<std::ptrdiff_t>(bytes())};
}

Workspace::Workspace(size_t bytes) : bytes_(bytes), storage_(bytes + 2 * kGuard, kCanary) {
  const auto address = reinterpret_cast<uintptr_t>(storage_.data());
  start_ = storage_.data() + ((address + 63) / 64 * 64 - address) + 64;
  Poison();
}

Workspace::~Workspace() {
  CheckCanaries(storage_, static_cast<size_t>(start_ - storage_.data()), bytes_);
}

void Workspace::Poison() { std::fill_n(start_, bytes_, kPoison); }

void ExpectClose(const Tensor& got, const Values& want, double relative, double absolute,
                 const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double error = std::abs(got.Get(i) - want[i]) / (relative * std::abs(want[i]) + absolute);
    if (!(error <= worst)) {  // catches NaN
      worst = error;
      where = i;
    }
    if (std::isnan(worst)) break;
  }
  EXPECT_TRUE(worst <= 1) << what << ": element " << where << " of " << want.size() << " is "
                          << got.Get(where) << ", expected " << want[where] << ", " << worst
                          << " times the tolerance";
}

double Epsilon(DType dtype) { return dtype == DType::kBFloat16 ? 0x1p-8 : 0x1p-23; }

double SumTolerance(int64_t terms) { return 0x1p-22 * (2 + static_cast<double>(terms) / 4); }

}  // namespace sluice
