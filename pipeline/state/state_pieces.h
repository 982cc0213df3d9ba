#ifndef SLUICE_PIPELINE_STATE_STATE_PIECES_H_
#define SLUICE_PIPELINE_STATE_STATE_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "comm/communicator.h"
#include "pipeline/state/rounds.h"

namespace sluice {

// Elements of a piece: 1 MiB.
inline constexpr int64_t kStatePiece = int64_t{1} << 18;

inline size_t StateBytes(int64_t elements) { return static_cast<size_t>(elements) * sizeof(float); }

// How tensors of a rank's state travel to another rank: in pieces, of which few are in memory at a
// time. Between any two pieces the rank shows that it is still there.
class StatePieces {
 public:
  // Both must outlive this.
  StatePieces(Communicator* world, Rounds* rounds) : world_(*world), rounds_(*rounds) {}

  // Elements first ... first + count - 1 of what is sent, in the host's memory until the next call.
  using Read = std::function<const float*(int64_t first, int64_t count)>;
  // Takes elements first ... first + count - 1, in order.
  using Use = std::function<absl::Status(const float* values, int64_t first, int64_t count)>;

  // Calls `use` for all of this rank's own `count` elements.
  absl::Status ForEach(int64_t count, const Read& read, const Use& use);
  // `count` elements to rank `to`, which must Receive as many from this one.
  absl::Status Send(int to, int64_t count, const Read& read);
  absl::Status Receive(int from, int64_t count, const Use& use);

 private:
  // One arrives while the other is used.
  static constexpr int64_t kUnderWay = 2;

  float* Place(int64_t piece);

  Communicator& world_;
  Rounds& rounds_;
  std::vector<float> pieces_;  // under way
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_STATE_STATE_PIECES_H_
