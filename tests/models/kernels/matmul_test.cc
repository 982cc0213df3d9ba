#include "models/kernels/cpu/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <oneapi/dnnl/dnnl.hpp>
#include <vector>

#include "models/kernels/cpu/widen.h"
#include "models/spec/bfloat16.h"
#include "tests/models/kernels/tensor.h"

namespace sluice {
namespace {

using testing::Message;

TEST(SumPartsTest, AreAsEqualAsMultiplesOf64CanBe) {
  EXPECT_EQ(cpu::SumParts(1, 65536), (std::vector<int64_t>{1}));
  EXPECT_EQ(cpu::SumParts(65536, 65536), (std::vector<int64_t>{65536}));
  EXPECT_EQ(cpu::SumParts(65537, 65536), (std::vector<int64_t>{32832, 32705}));
  EXPECT_EQ(cpu::SumParts(151936, 65536), (std::vector<int64_t>{50688, 50688, 50560}));
  EXPECT_EQ(cpu::SumParts(262144, 65536), (std::vector<int64_t>(4, 65536)));
}

// The sum of bf16 values, in parts where the processor has tiles, rounded once.
TEST(SummedMatmulTest, IsTheProductOfLongRows) {
  if (!cpu::HasPairs()) GTEST_SKIP() << "no bf16 products here";
  constexpr int64_t kRows = 3, kSum = 131'100, kColumns = 65;
  const auto narrow = [](const Values& values) {
    std::vector<uint16_t> bits;
    for (const double value : values) bits.push_back(ToBFloat16(static_cast<float>(value)));
    return bits;
  };
  const auto a = narrow(RandomValues(kRows * kSum, 1)),
             b = narrow(RandomValues(kSum * kColumns, 2));
  const auto before = narrow(RandomValues(kRows * kColumns, 3));
  const auto wide = [](uint16_t bits) { return double{FromBFloat16(bits)}; };
  for (const bool packed : {false, true}) {
    for (const bool transposed : {false, true}) {
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(Message() << packed << transposed << accumulate);
        const auto b_at = [&](int64_t k, int64_t n) {
          return static_cast<size_t>(transposed ? n * kSum + k : k * kColumns + n);
        };
        cpu::SummedMatmul product({.m = kRows,
                                   .k = kSum,
                                   .n = kColumns,
                                   .a_dtype = DType::kBFloat16,
                                   .b_dtype = DType::kBFloat16,
                                   .c_dtype = DType::kBFloat16,
                                   .b_transposed = transposed,
                                   .b_packed = packed,
                                   .accumulate = accumulate});
        Workspace copy(product.packed_bytes()), work(product.scratchpad_bytes());
        if (packed) {
          std::vector<float> fp32;
          for (const uint16_t bits : b) fp32.push_back(FromBFloat16(bits));
          product.Pack(fp32.data(), copy.data());
        }
        std::vector<uint16_t> c = before;
        product.Run(a.data(), packed ? copy.data() : b.data(), c.data(), work.data());
        for (int64_t m = 0; m < kRows; ++m) {
          for (int64_t n = 0; n < kColumns; ++n) {
            const auto at = static_cast<size_t>(m * kColumns + n);
            double want = accumulate ? wide(before[at]) : 0;
            for (int64_t k = 0; k < kSum; ++k)
              want += wide(a[static_cast<size_t>(m * kSum + k)]) * wide(b[b_at(k, n)]);
            EXPECT_NEAR(wide(c[at]), want, std::abs(want) / 256 + 0.01) << m << " " << n;
          }
        }
      }
    }
  }
}

// By the definition of its layout, and byte for byte what oneDNN packs.
TEST(PackPairsTest, HasTheLayoutOfOneDnn) {
  for (const int64_t rows : {1, 2, 31, 32, 64, 77, 288}) {
    for (const int64_t columns : {1, 16, 63, 64, 65, 200}) {
      for (const bool transposed : {false, true}) {
        for (const int64_t beside : {0, 5}) {
          SCOPED_TRACE(Message() << rows << " x " << columns << ", " << transposed << ", "
                                 << beside);
          const int64_t stride = (transposed ? rows : columns) + beside;
          std::vector<float> from;
          const auto values =
              RandomValues(static_cast<size_t>(stride * (transposed ? columns : rows)), 4);
          for (const double value : values) from.push_back(static_cast<float>(value));
          from.front() = NAN;
          const int64_t high = (rows + 31) / 32 * 32, wide = (columns + 63) / 64 * 64;
          std::vector<uint16_t> packed(static_cast<size_t>(high * wide), 1);
          const cpu::Tile<const float> tile = {.rows = transposed ? columns : rows,
                                               .columns = transposed ? rows : columns,
                                               .stride = stride,
                                               .data = from.data()};
          cpu::PackPairs(tile, transposed, packed.data());
          for (int64_t r = 0; r < high; ++r) {
            for (int64_t c = 0; c < wide; ++c) {
              const int64_t block = c / 64 * (high / 32) + r / 32;
              const int64_t at = block * 2048 + r % 32 / 2 * 128 + c % 64 * 2 + r % 2;
              const float value =
                  r >= rows || c >= columns
                      ? 0.0f
                      : from[static_cast<size_t>(transposed ? c * stride + r : r * stride + c)];
              ASSERT_EQ(packed[static_cast<size_t>(at)], ToBFloat16(value)) << r << " " << c;
            }
          }
          if (!cpu::HasPairs()) continue;
          using dnnl::memory;
          const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
          const memory::dims strides =
              transposed ? memory::dims{1, stride} : memory::dims{stride, 1};
          memory plain({{rows, columns}, memory::data_type::f32, strides}, engine, from.data());
          const memory theirs(
              {{rows, columns}, memory::data_type::bf16, memory::format_tag::BA16a64b2a}, engine);
          ASSERT_EQ(theirs.get_desc().get_size(), packed.size() * sizeof(packed[0]));
          dnnl::stream stream(engine);
          dnnl::reorder(plain, theirs).execute(stream, plain, const_cast<memory&>(theirs));
          stream.wait();
          EXPECT_EQ(
              std::memcmp(theirs.get_data_handle(), packed.data(), theirs.get_desc().get_size()),
              0);
        }
      }
    }
  }
}

}  // namespace
}  // namespace sluice
