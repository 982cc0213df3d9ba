// What models/kernels/cuda/attention/attention_primitives.cuh declares, as the PTX manual describes
// it.
#include "models/kernels/cuda/attention/attention_primitives.cuh"

#include <bit>
#include <cmath>
#include <cstring>

#include "tests/models/kernels/cuda_emulation/bfloat16.h"
#include "tests/models/kernels/cuda_emulation/block.h"

namespace sluice::cuda::attention {
namespace {

using emulation::kLanes;
using emulation::Operands;

template <class Operand>
void Meet(std::string_view name, Operand& operand, void (*work)(Operands)) {
  emulation::MeetWarp(name, &operand, work);
}

float Low(uint32_t pair) { return std::bit_cast<float>(pair << 16); }
float High(uint32_t pair) { return std::bit_cast<float>(pair & 0xFFFF0000u); }

struct Load {
  uint32_t* to;
  uint32_t row;
};

uint16_t MatrixElement(Operands lanes, int matrix, int row, int column) {
  const auto* const load = static_cast<const Load*>(lanes[matrix * 8 + row]);
  uint16_t elements[8];
  std::memcpy(elements, emulation::SharedAt(load->row, sizeof(elements)), sizeof(elements));
  return elements[column];
}

template <bool kTransposed>
void LoadWarp(Operands lanes) {
  for (int lane = 0; lane < kLanes; ++lane) {
    uint32_t* const to = static_cast<const Load*>(lanes[lane])->to;
    const int row = lane / 4;
    const int column = lane % 4 * 2;
    for (int matrix = 0; matrix < 4; ++matrix) {
      const uint32_t first = kTransposed ? MatrixElement(lanes, matrix, column, row)
                                         : MatrixElement(lanes, matrix, row, column);
      const uint32_t second = kTransposed ? MatrixElement(lanes, matrix, column + 1, row)
                                          : MatrixElement(lanes, matrix, row, column + 1);
      to[matrix] = first | second << 16;
    }
  }
}

struct Product {
  float* c;
  const uint32_t* a;
  uint32_t b[2];
};

// Figures of the section on mma.m16n8k16: a[row][k], b[k][column], c[row][column].
void MultiplyWarp(Operands lanes) {
  float left[16][16];
  float right[16][8];
  float sums[16][8];
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto* const own = static_cast<const Product*>(lanes[lane]);
    const int group = lane / 4;
    const int pair = lane % 4 * 2;
    for (int part = 0; part < 4; ++part) {
      left[group + part % 2 * 8][pair + part / 2 * 8] = Low(own->a[part]);
      left[group + part % 2 * 8][pair + part / 2 * 8 + 1] = High(own->a[part]);
      sums[group + part / 2 * 8][pair + part % 2] = own->c[part];
    }
    for (int part = 0; part < 2; ++part) {
      right[pair + part * 8][group] = Low(own->b[part]);
      right[pair + part * 8 + 1][group] = High(own->b[part]);
    }
  }
  // All columns with each k, so that the compiler takes vectors; each sum is in the order of k.
  for (int row = 0; row < 16; ++row) {
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column)
        sums[row][column] += left[row][k] * right[k][column];
    }
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto* const own = static_cast<const Product*>(lanes[lane]);
    for (int part = 0; part < 4; ++part) {
      own->c[part] = sums[lane / 4 + part / 2 * 8][lane % 4 * 2 + part % 2];
    }
  }
}

struct Shuffle {
  float value;
  float result;
  int mask;
};

void ShuffleWarp(Operands lanes) {
  for (int lane = 0; lane < kLanes; ++lane) {
    auto* const own = static_cast<Shuffle*>(lanes[lane]);
    own->result = static_cast<const Shuffle*>(lanes[lane ^ own->mask])->value;
  }
}

}  // namespace

void LoadMatrices(uint32_t (&to)[4], uint32_t row) {
  Load load = {to, row};
  Meet("ldmatrix", load, LoadWarp<false>);
}
void LoadMatricesTransposed(uint32_t (&to)[4], uint32_t row) {
  Load load = {to, row};
  Meet("ldmatrix.trans", load, LoadWarp<true>);
}
void MultiplyAdd(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  Product product = {c, a, {b0, b1}};
  Meet("mma", product, MultiplyWarp);
}

uint32_t PackBFloat16(float low, float high) {
  return emulation::ToBFloat16(low) | uint32_t{emulation::ToBFloat16(high)} << 16;
}
float WidenBFloat16(uint16_t value) { return emulation::FromBFloat16(value); }
float FastExp2(float x) {
  const float power = std::exp2(x);
  return std::fpclassify(power) == FP_SUBNORMAL ? 0.0f : power;
}
float FastReciprocal(float x) {
  if (std::fpclassify(x) == FP_SUBNORMAL) return std::copysign(INFINITY, x);
  const float inverse = 1 / x;
  return std::fpclassify(inverse) == FP_SUBNORMAL ? std::copysign(0.0f, inverse) : inverse;
}

float ShuffleXor(float value, int mask) {
  Shuffle shuffle = {value, 0, mask};
  Meet("shfl.xor", shuffle, ShuffleWarp);
  return shuffle.result;
}

bool AnyLane(bool value) {
  Meet("vote.any", value, [](Operands lanes) {
    bool any = false;
    for (const void* lane : lanes) any = any || *static_cast<const bool*>(lane);
    for (void* lane : lanes) *static_cast<bool*>(lane) = any;
  });
  return value;
}

void SyncBlock() { emulation::MeetBlock(); }
void SyncWarp() {
  char nothing = 0;
  Meet("bar.warp", nothing, [](Operands) {});
}

int Thread() { return emulation::Here().thread; }
int64_t BlockX() { return emulation::Here().block_x; }
int BlockY() { return static_cast<int>(emulation::Here().block_y); }
int BlocksY() { return static_cast<int>(emulation::Here().blocks_y); }

}  // namespace sluice::cuda::attention
