#ifndef SLUICE_MODELS_KERNELS_CUDA_LAUNCH_SIZES_H_
#define SLUICE_MODELS_KERNELS_CUDA_LAUNCH_SIZES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

// How much work a launch takes on, from shapes alone: what decides how many launches a call needs,
// and how many partial sums they leave. Needs no CUDA: launchers use it, and the record of launches
// (../record).
namespace sluice::cuda {

inline int64_t CeilDiv(int64_t n, int64_t by) { return (n + by - 1) / by; }
// The offset at which the next part of a work area may begin.
inline size_t WorkBytes(int64_t bytes) { return static_cast<size_t>(CeilDiv(bytes, 64) * 64); }

constexpr int kPart = 8;                  // values that a thread handles at a time
constexpr int kFloatPart = 4;             // the same where all values are fp32
constexpr int kWarp = 32;                 // threads
constexpr int kWarpPart = kPart * kWarp;  // values that a warp handles at a time

// Of column sums. Rows of a chunk: few enough that the blocks fill a large GPU and that a sum stays
// close, and otherwise many, as each chunk leaves a part to add.
inline int64_t ColumnChunkRows(int64_t rows, int64_t columns) {
  constexpr int64_t kGoodBlocks = 1024, kFewRows = 16, kWholeBatches = 64, kMostRows = 256;
  const int64_t chunks = CeilDiv(kGoodBlocks, std::max<int64_t>(CeilDiv(columns, kWarpPart), 1));
  const int64_t each = CeilDiv(rows, chunks);
  const int64_t step = each > kWholeBatches ? kWholeBatches : kFewRows;
  return std::clamp(CeilDiv(each, step) * step, kFewRows, kMostRows);
}

// Of norms, which have one warp per row.
constexpr int kNormWarps = 4;
// Blocks of a backward pass that a multiprocessor has registers for, by the parts of bf16 that a
// lane holds of each tensor.
constexpr int BackwardBlocks(int parts) {
  return parts <= 1 ? 8 : parts == 2 ? 5 : parts == 3 ? 4 : parts == 4 ? 3 : 2;
}
// Rows of a block of the backward pass: as many blocks as run at the same time on a large GPU, or
// in two turns where few do, which leaves few parts of dgamma and dbeta to add.
inline int64_t NormBlockRows(int64_t rows, int64_t dim) {
  constexpr int64_t kLargeGpu = 128;  // multiprocessors
  const int64_t parts = CeilDiv(dim, kWarpPart);
  const int64_t most = kLargeGpu * (parts <= 4 ? BackwardBlocks(static_cast<int>(parts)) : 4);
  const int64_t each = CeilDiv(rows, most);
  return std::max<int64_t>(CeilDiv(each, kNormWarps) * kNormWarps, kNormWarps);
}

// Sums over rows that a backward pass leaves: dgamma, and dbeta of a layer norm.
template <bool kCentered>
constexpr int kNormSums = kCentered ? 2 : 1;

// Of norms of heads that are turned by their positions as well. Lanes that have a head together, each
// kPart pairs of it: a power of two, of a warp.
constexpr int kHeadThreads = 128;
inline bool FitsHeadLanes(int64_t width) { return width <= int64_t{2} * kWarpPart; }
inline int HeadLanes(int64_t width) {
  int lanes = 1;
  while (int64_t{2} * lanes * kPart < width) lanes *= 2;
  return lanes;
}
// Heads of a block of the backward pass: as NormBlockRows, of which the block's groups of lanes have
// equally many.
inline int64_t HeadBlockRows(int64_t heads, int64_t width) {
  const int64_t groups = kHeadThreads / HeadLanes(width);
  return CeilDiv(NormBlockRows(heads, width), groups) * groups;
}

// Rows that one launch of the embedding's backward pass sorts at once; merges double them.
constexpr int kSortThreads = 512;
constexpr int kSortTile = 2 * kSortThreads;
// Sorted rows that one block of the embedding's backward pass adds. Few, since it reads them a part
// at a time, and waits for each part.
constexpr int kRowWindow = 32;

// Of cross-entropy. Shared memory for a row's whole parts, wherever the row begins in the first
// part: their end, up to kPart - 1 values later than in a row that begins with it, is the end of a
// part all the same.
constexpr int64_t EntropyRowBytes(int64_t classes, int64_t value_bytes) {
  return (classes + kPart - 1) / kPart * kPart * value_bytes;
}
// The widest row that is kept there, so that memory is read once: two blocks fit into a
// multiprocessor of compute capability 9.0, where one's reads then run beside the other's writes.
// 8.0 has room for one.
constexpr int64_t kEntropyRowBytes = int64_t{112} * 1024;

// Of attention with a cache: parts that the keys of a row are divided into, at most, and the fewest
// keys of one, a tile of its block.
constexpr int kCachedParts = 16;
constexpr int kCachedPartKeys = 128;
// Parts of the rows that see up to so many keys, at most.
inline int64_t CachedParts(int64_t keys) {
  return std::min<int64_t>(CeilDiv(keys, kCachedPartKeys), kCachedParts);
}

// Blocks of threads that hash a tensor of so many bytes; at most kHashParts of ../kernels.h.
inline int64_t HashBlocks(int64_t bytes) {
  constexpr int64_t kBytesOfBlock = int64_t{64} << 10, kMost = 256;
  return std::clamp<int64_t>(CeilDiv(bytes, kBytesOfBlock), 1, kMost);
}

// What one launch is told of in its parameters, at most.
constexpr int kOptimizerTensors = 64;  // fits into 4 KiB
constexpr int kFlatTensors = 128;      // likewise, of accumulate and of block_squares
constexpr int kSummedTensors = 16;     // of column_sums: a layer has few
constexpr int kListedRows = 64;        // of add_in_groups; the number that fits well
constexpr int kListedHashes = 64;      // tensors
constexpr int kListedPairs = 256;      // frequencies of rotary positions: 1 KiB

}  // namespace sluice::cuda

#endif  // SLUICE_MODELS_KERNELS_CUDA_LAUNCH_SIZES_H_
