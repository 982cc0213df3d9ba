#ifndef SLUICE_PIPELINE_STATE_TENSOR_PIECES_H_
#define SLUICE_PIPELINE_STATE_TENSOR_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comm/communicator.h"

namespace sluice {

// Tensors that travel as they lie in memory, straight to their places, cut into messages.
class TensorPieces {
 public:
  struct Piece {
    std::byte* data = nullptr;
    size_t size = 0;
  };

  // A null tensor is none.
  void Add(void* tensor, int64_t bytes);
  size_t count() const { return pieces_.size(); }
  const Piece& operator[](size_t i) const { return pieces_[i]; }

 private:
  std::vector<Piece> pieces_;
};

// What goes to, or comes from, rank `peer` of a group.
struct TensorsOfPeer {
  int peer = 0;
  TensorPieces pieces = {};
};

// Sends `out` and receives `in`, whose pieces have the sizes of those that their peer sends. Where
// all ranks of a group call it together, each has one peer that it sends to and one that it
// receives from, different ones on different ranks: no one waits for ever, since of all ranks one
// that has got least far waits for a piece that its peer, which is at least as far, has posted. No
// pieces, no messages. Each piece may take `timeout`.
absl::Status PassOn(Communicator& group, TensorsOfPeer out, TensorsOfPeer in,
                    absl::Duration timeout);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_STATE_TENSOR_PIECES_H_
