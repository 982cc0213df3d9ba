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
float LeftAt(Operands lanes, int row, int k) {
  const auto* const lane = static_cast<const Product*>(lanes[row % 8 * 4 + k % 8 / 2]);
  const uint32_t pair = lane->a[row / 8 + k / 8 * 2];
  return k % 2 == 0 ? Low(pair) : High(pair);
}
float RightAt(Operands lanes, int k, int column) {
  const auto* const lane = static_cast<const Product*>(lanes[column * 4 + k % 8 / 2]);
  return k % 2 == 0 ? Low(lane->b[k / 8]) : High(lane->b[k / 8]);
}

void MultiplyWarp(Operands lanes) {
  float left[16][16];
  float right[16][8];
  for (int k = 0; k < 16; ++k) {
    for (int row = 0; row < 16; ++row) left[row][k] = LeftAt(lanes, row, k);
    for (int column = 0; column < 8; ++column) right[k][column] = RightAt(lanes, k, column);
  }
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      const auto* const lane = static_cast<const Product*>(lanes[row % 8 * 4 + column / 2]);
      float& sum = lane->c[row / 8 * 2 + column % 2];
      for (int k = 0; k < 16; ++k) sum += left[row][k] * right[k][column];
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
