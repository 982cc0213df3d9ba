#ifndef SLUICE_COMM_LYING_RANK_H_
#define SLUICE_COMM_LYING_RANK_H_

#include <cstdint>

namespace sluice {

// A rank whose hardware an audit has found to compute wrong, and how much of the run that spoils.
struct LyingRank {
  int32_t rank = -1;         // of the world that found it; -1: nobody was found
  int32_t stage = -1;        // where the bits differed; -1: not of one stage
  int32_t micro_batch = -1;  // likewise, among those of all replicas; -1: of weights
  int64_t step = -1;         // in which it was found
  // What ranks hold, have saved and have shown of the steps after this one may be wrong.
  int64_t good_step = -1;
  // All but that rank hold what is right: its memory has lost a bit, and nobody has made an update of
  // that yet. What they have saved after good_step may be wrong all the same.
  bool others_hold_right = false;

  bool found() const { return rank >= 0; }
};

}  // namespace sluice

#endif  // SLUICE_COMM_LYING_RANK_H_
