#ifndef SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_KERNELS_CUH_
#define SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_KERNELS_CUH_

#include "models/kernels/cuda/attention/attention_forward.cuh"
#include "models/kernels/cuda/attention/attention_key_gradients.cuh"
#include "models/kernels/cuda/attention/attention_plain_backward.cuh"
#include "models/kernels/cuda/attention/attention_plain_forward.cuh"
#include "models/kernels/cuda/attention/attention_query_gradients.cuh"
#include "models/kernels/cuda/attention/attention_statistics.cuh"

// The kernels by name: what a block runs, how many there are, and which one a shape takes. A
// launcher is given one of these: attention_launch.cuh's puts it on a stream, the tests' runs it on
// the CPU.
namespace sluice::cuda::attention {

struct AttentionGrid {
  int64_t x = 0;
  int64_t y = 0;
};

template <int kWidth, bool kLimited, bool kCapped>
struct ForwardKernel {
  using Tile = ForwardTile<kWidth>;
  static constexpr int kThreads = Tile::kThreads;
  static constexpr int kBlocksPerMultiprocessor = 2;
  static AttentionGrid Grid(const AttentionArguments& args) {
    return {args.batch * args.heads, TilesOf(args.seq, Tile::kQueries)};
  }
  static int SharedBytes(const AttentionArguments&) {
    return Tile::kSharedBytes + RowBounds<false, kLimited, Tile::kQueries>::kSharedBytes;
  }
  static SLUICE_DEVICE void Run(const AttentionArguments& args) {
    AttendTile<kWidth, kLimited, kCapped>(args);
  }
};

template <int kWidth, bool kLimited, bool kCapped>
struct KeyGradientKernel {
  using Tile = KeyTile<kWidth>;
  static constexpr int kThreads = Tile::kThreads;
  static constexpr int kBlocksPerMultiprocessor = 256 / kThreads;
  static AttentionGrid Grid(const AttentionArguments& args) {
    return {args.batch * args.kv_heads,
            int64_t{TilesOf(args.seq, Tile::kRows)} * (kWidth / Tile::kColumns)};
  }
  static int SharedBytes(const AttentionArguments&) {
    return Tile::kSharedBytes + RowBounds<true, kLimited, Tile::kRows>::kSharedBytes;
  }
  static SLUICE_DEVICE void Run(const AttentionArguments& args) {
    KeyGradients<kWidth, kLimited, kCapped>(args);
  }
};

template <int kWidth, bool kLimited, bool kCapped>
struct QueryGradientKernel {
  using Tile = QueryTile<kWidth>;
  static constexpr int kThreads = Tile::kThreads;
  static constexpr int kBlocksPerMultiprocessor = 256 / kThreads;
  static AttentionGrid Grid(const AttentionArguments& args) {
    return {args.batch * args.heads, TilesOf(args.seq, Tile::kRows)};
  }
  static int SharedBytes(const AttentionArguments&) {
    return Tile::kSharedBytes + RowBounds<false, kLimited, Tile::kRows>::kSharedBytes;
  }
  static SLUICE_DEVICE void Run(const AttentionArguments& args) {
    QueryGradients<kWidth, kLimited, kCapped>(args);
  }
};

template <class T, bool kAligned>
struct StatisticsKernel {
  static constexpr int kThreads = kStatisticsThreads;
  static constexpr int kBlocksPerMultiprocessor = 4;
  static AttentionGrid Grid(const AttentionArguments& args) {
    return {args.batch * args.heads, args.padded_seq() / (kStatisticsThreads / kLanesOfRow)};
  }
  static int SharedBytes(const AttentionArguments&) { return 0; }
  static SLUICE_DEVICE void Run(const AttentionArguments& args) {
    ComputeStatistics<T, kAligned>(args);
  }
};

// What the three plain kernels have in common.
struct PlainKernel {
  static constexpr int kThreads = kPlainThreads;
  static constexpr int kBlocksPerMultiprocessor = 1;
  static AttentionGrid Grid(const AttentionArguments& args) {
    return {args.batch * args.heads, TilesOf(args.seq, kPlainRows)};
  }
};

template <class T, int kColumns>
struct PlainForwardKernel : PlainKernel {
  static int SharedBytes(const AttentionArguments& args) {
    return PlainSharedBytes(args.width, kPlainForwardTiles, 1);
  }
  static SLUICE_DEVICE void Run(const AttentionArguments& args) { AttendPlain<T, kColumns>(args); }
};

template <class T, int kColumns>
struct PlainKeyGradientKernel : PlainKernel {
  static AttentionGrid Grid(const AttentionArguments& args) {
    return {args.batch * args.kv_heads, TilesOf(args.seq, kPlainRows)};
  }
  static int SharedBytes(const AttentionArguments& args) {
    return PlainSharedBytes(args.width, kPlainBackwardTiles, 2);
  }
  static SLUICE_DEVICE void Run(const AttentionArguments& args) {
    PlainKeyGradients<T, kColumns>(args);
  }
};

template <class T, int kColumns>
struct PlainQueryGradientKernel : PlainKernel {
  static int SharedBytes(const AttentionArguments& args) {
    return PlainSharedBytes(args.width, kPlainBackwardTiles, 2);
  }
  static SLUICE_DEVICE void Run(const AttentionArguments& args) {
    PlainQueryGradients<T, kColumns>(args);
  }
};

// Which kernels a shape takes; launch(kernel) is called for each, in order.
constexpr int kTileMaxWidth = 256;

template <int kWidth, bool kLimited, bool kCapped, class Launcher>
void BackwardTilesOf(const Launcher& launch) {
  launch(StatisticsKernel<uint16_t, true>());
  launch(KeyGradientKernel<kWidth, kLimited, kCapped>());
  launch(QueryGradientKernel<kWidth, kLimited, kCapped>());
}

template <bool kLimited, class Launcher>
void ForwardByTiles(int width, const Launcher& launch) {
  if (width <= 64) return launch(ForwardKernel<64, kLimited, false>());
  if (width <= 96) return launch(ForwardKernel<96, kLimited, false>());
  if (width <= 128) return launch(ForwardKernel<128, kLimited, false>());
  launch(ForwardKernel<kTileMaxWidth, kLimited, false>());
}

template <bool kLimited, class Launcher>
void BackwardByTiles(int width, const Launcher& launch) {
  if (width <= 64) return BackwardTilesOf<64, kLimited, false>(launch);
  if (width <= 96) return BackwardTilesOf<96, kLimited, false>(launch);
  if (width <= 128) return BackwardTilesOf<128, kLimited, false>(launch);
  BackwardTilesOf<kTileMaxWidth, kLimited, false>(launch);
}

// Scores are capped in Gemma 2 alone, whose heads have 128 or 256 values and in every other layer a
// window: one kernel for each width, which takes windows and documents.
template <class Launcher>
void CappedForwardByTiles(int width, const Launcher& launch) {
  if (width <= 128) return launch(ForwardKernel<128, true, true>());
  launch(ForwardKernel<kTileMaxWidth, true, true>());
}

template <class Launcher>
void CappedBackwardByTiles(int width, const Launcher& launch) {
  if (width <= 128) return BackwardTilesOf<128, true, true>(launch);
  BackwardTilesOf<kTileMaxWidth, true, true>(launch);
}

template <class Launcher>
void ForwardByTiles(const AttentionArguments& args, const Launcher& launch) {
  if (args.soft_cap != 0) return CappedForwardByTiles(args.width, launch);
  args.limited() ? ForwardByTiles<true>(args.width, launch)
                 : ForwardByTiles<false>(args.width, launch);
}

template <class Launcher>
void BackwardByTiles(const AttentionArguments& args, const Launcher& launch) {
  if (args.soft_cap != 0) return CappedBackwardByTiles(args.width, launch);
  args.limited() ? BackwardByTiles<true>(args.width, launch)
                 : BackwardByTiles<false>(args.width, launch);
}

template <class T, class Launcher>
void ForwardPlain(int width, const Launcher& launch) {
  if (width <= 64) return launch(PlainForwardKernel<T, 64 / kThreadsOfRow>());
  if (width <= 128) return launch(PlainForwardKernel<T, 128 / kThreadsOfRow>());
  launch(PlainForwardKernel<T, kPlainMaxWidth / kThreadsOfRow>());
}

template <class T, int kColumns, class Launcher>
void BackwardPlainOf(const Launcher& launch) {
  launch(StatisticsKernel<T, false>());
  launch(PlainKeyGradientKernel<T, kColumns>());
  launch(PlainQueryGradientKernel<T, kColumns>());
}

template <class T, class Launcher>
void BackwardPlain(int width, const Launcher& launch) {
  if (width <= 64) return BackwardPlainOf<T, 64 / kThreadsOfRow>(launch);
  if (width <= 128) return BackwardPlainOf<T, 128 / kThreadsOfRow>(launch);
  BackwardPlainOf<T, kPlainMaxWidth / kThreadsOfRow>(launch);
}

}  // namespace sluice::cuda::attention

#endif  // SLUICE_MODELS_KERNELS_CUDA_ATTENTION_ATTENTION_KERNELS_CUH_
