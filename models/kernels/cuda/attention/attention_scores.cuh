#ifndef SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_SCORES_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_SCORES_CUH_

#include "models/kernels/cuda/attention/attention_tile.cuh"

namespace sluice::cuda::attention {

// How a product of a query and a key becomes a score: product * scale, or with kCapped
// soft_cap * tanh(product * scale / soft_cap), of which the kernels hold the tanh.
struct ScoreScale {
  float inner;  // 2^(product * inner) is e^(2 * product * scale / soft_cap); used with kCapped only
  float outer;  // of what the kernels hold, to the score
};
template <bool kCapped>
SLUICE_DEVICE ScoreScale ScaleOf(const AttentionArguments& args) {
  if constexpr (kCapped) {
    return {2 * kLog2E * (args.scale / args.soft_cap), args.soft_cap};
  } else {
    return {0, args.scale};
  }
}

// What the kernels hold of a score. tanh x = 1 - 2 / (1 + e^2x) is good to some 1e-7, for small x
// not relative to it: what counts is the error of the score, and products of bf16 have larger ones.
template <bool kCapped>
SLUICE_DEVICE float HeldScore(const ScoreScale& scale, float product) {
  if constexpr (kCapped) {
    return fmaf(-2.0f, FastReciprocal(1.0f + FastExp2(product * scale.inner)), 1.0f);
  } else {
    return product;
  }
}

template <bool kCapped, int kRowTiles, int kKeyTiles>
SLUICE_DEVICE void ToHeldScores(const ScoreScale& scale, Sums<kRowTiles, kKeyTiles>& scores) {
  SLUICE_UNROLL
  for (int m = 0; m < kRowTiles; ++m) {
    SLUICE_UNROLL
    for (int n = 0; n < kKeyTiles; ++n) {
      SLUICE_UNROLL
      for (int e = 0; e < 4; ++e) scores[m][n][e] = HeldScore<kCapped>(scale, scores[m][n][e]);
    }
  }
}

}  // namespace sluice::cuda::attention

#endif  // SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_SCORES_CUH_
