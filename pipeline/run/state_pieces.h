#ifndef SLUICE_PIPELINE_RUN_STATE_PIECES_H_
#define SLUICE_PIPELINE_RUN_STATE_PIECES_H_

#include <cstddef>
#include <cstdint>

namespace sluice {

// How tensors of a rank's state travel to another rank: in pieces.

// Elements of a piece: 1 MiB.
inline constexpr int64_t kStatePiece = int64_t{1} << 18;
// Pieces under way at a time: one arrives while the other is written.
inline constexpr int64_t kStatePiecesUnderWay = 2;

inline size_t StateBytes(int64_t elements) { return static_cast<size_t>(elements) * sizeof(float); }

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_STATE_PIECES_H_
