#ifndef SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_SOFTMAX_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_SOFTMAX_CUH_

#include <cmath>

#include "models/kernels/cuda/attention/attention_tile.cuh"

// The softmax of rows whose scores come a tile at a time (Milakov & Gimelshein 2018, Online
// normalizer calculation for softmax, Algorithm 3).
namespace sluice::cuda::attention {

// What a lane knows of the rows it has sums of: two in each tile of 16.
template <int kRowTiles>
struct RunningSoftmax {
  float largest[kRowTiles][2];
  float sum[kRowTiles][2];  // over this lane's columns only
};

// A sum or maximum over the four lanes that hold one row.
SLUICE_DEVICE float MaxOfRow(float x) {
  x = fmaxf(x, ShuffleXor(x, 1));
  return fmaxf(x, ShuffleXor(x, 2));
}
SLUICE_DEVICE float SumOfRow(float x) {
  x += ShuffleXor(x, 1);
  return x + ShuffleXor(x, 2);
}

// What is taken off a row's scores. With kLimited the row may not have seen a key yet.
template <bool kLimited>
SLUICE_DEVICE float Reference(float largest) {
  return kLimited && largest == -INFINITY ? 0.0f : largest;
}

// Takes these scores into the running maxima; returns by what each row's earlier sums must be
// multiplied. Maxima pass over NaN.
template <bool kLimited, int kRowTiles, int kKeyTiles>
SLUICE_DEVICE void RaiseMaxima(float scale, const Sums<kRowTiles, kKeyTiles>& scores,
                               RunningSoftmax<kRowTiles>& softmax, float (&change)[kRowTiles][2]) {
  SLUICE_UNROLL
  for (int m = 0; m < kRowTiles; ++m) {
    SLUICE_UNROLL
    for (int half = 0; half < 2; ++half) {
      float largest = softmax.largest[m][half];
      SLUICE_UNROLL
      for (int n = 0; n < kKeyTiles; ++n) {
        largest = fmaxf(largest, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
      }
      largest = MaxOfRow(largest);
      change[m][half] = FastExp2((softmax.largest[m][half] - Reference<kLimited>(largest)) * scale);
      softmax.largest[m][half] = largest;
    }
  }
}

// Scores become weights relative to the largest score so far; what was summed relative to the
// former one is scaled. A NaN among the scores stays one.
template <bool kLimited, int kRowTiles, int kKeyTiles, int kColumnTiles>
SLUICE_DEVICE void AddToSoftmax(float scale, Sums<kRowTiles, kKeyTiles>& scores,
                                RunningSoftmax<kRowTiles>& softmax,
                                Sums<kRowTiles, kColumnTiles>& out) {
  float change[kRowTiles][2];
  RaiseMaxima<kLimited, kRowTiles, kKeyTiles>(scale, scores, softmax, change);
  bool changed = false;
  SLUICE_UNROLL
  for (int i = 0; i < 2 * kRowTiles; ++i) changed = changed || change[i / 2][i % 2] != 1;
  if (AnyLane(changed)) {  // times 1 would change no bit, and is what mostly happens
    SLUICE_UNROLL
    for (int m = 0; m < kRowTiles; ++m) {
      SLUICE_UNROLL
      for (int n = 0; n < kColumnTiles; ++n) {
        SLUICE_UNROLL
        for (int e = 0; e < 4; ++e) out[m][n][e] *= change[m][e / 2];
      }
    }
  }
  SLUICE_UNROLL
  for (int m = 0; m < kRowTiles; ++m) {
    SLUICE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float offset = Reference<kLimited>(softmax.largest[m][half]) * scale;
      float sum = softmax.sum[m][half] * change[m][half];
      SLUICE_UNROLL
      for (int n = 0; n < kKeyTiles; ++n) {
        SLUICE_UNROLL
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          scores[m][n][e] = FastExp2(fmaf(scores[m][n][e], scale, -offset));
          sum += scores[m][n][e];
        }
      }
      softmax.sum[m][half] = sum;
    }
  }
}

// Divides by the softmax's denominators and writes their logarithms.
template <int kRowTiles, int kColumnTiles>
SLUICE_DEVICE void Normalize(float scale, int query, int seq,
                             const RunningSoftmax<kRowTiles>& softmax, float* lse,
                             Sums<kRowTiles, kColumnTiles>& out) {
  SLUICE_UNROLL
  for (int m = 0; m < kRowTiles; ++m) {
    SLUICE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float sum = SumOfRow(softmax.sum[m][half]);
      const int row = query + LaneRow(m, 2 * half);
      if (LaneColumn() == 0 && row < seq) {
        lse[row] = softmax.largest[m][half] * scale + logf(sum);
      }
      const float inverse = 1.0f / sum;
      SLUICE_UNROLL
      for (int n = 0; n < kColumnTiles; ++n) {
        out[m][n][2 * half] *= inverse;
        out[m][n][2 * half + 1] *= inverse;
      }
    }
  }
}

}  // namespace sluice::cuda::attention

#endif  // SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_SOFTMAX_CUH_
