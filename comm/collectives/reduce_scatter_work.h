#ifndef SLUICE_COMM_COLLECTIVES_REDUCE_SCATTER_WORK_H_
#define SLUICE_COMM_COLLECTIVES_REDUCE_SCATTER_WORK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

// How much work memory a ReduceScatter takes (collectives.h): here for those who only plan one.
namespace sluice {

// Elements of the pieces in which slices travel: 256 KiB, which a cache holds while they are added.
inline constexpr int64_t kReduceScatterPiece = int64_t{1} << 16;
// Rounds of a sum that are under way at a time, each in work memory of its own.
inline constexpr size_t kReduceScatterDepth = 2;

// Bytes of work memory with which ReduceScatter is fastest, for `ranks` ranks and
// slices of at most `largest` elements. Bounded, however large a slice is.
inline int64_t ReduceScatterWorkBytes(int ranks, int64_t largest) {
  return static_cast<int64_t>(kReduceScatterDepth) * (ranks - 1) *
         std::clamp<int64_t>(largest, 1, kReduceScatterPiece) * static_cast<int64_t>(sizeof(float));
}

}  // namespace sluice

#endif  // SLUICE_COMM_COLLECTIVES_REDUCE_SCATTER_WORK_H_
