#include "pipeline/state/state_pieces.h"

#include <algorithm>

namespace sluice {

float* StatePieces::Place(int64_t piece) {
  pieces_.resize(kUnderWay * kStatePiece);
  return pieces_.data() + piece % kUnderWay * kStatePiece;
}

absl::Status StatePieces::ForEach(int64_t count, const Read& read, const Use& use) {
  for (int64_t first = 0; first < count; first += kStatePiece) {
    const int64_t size = std::min(kStatePiece, count - first);
    absl::Status status = use(read(first, size), first, size);
    if (status.ok()) status = rounds_.Tick();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status StatePieces::Send(int to, int64_t count, const Read& read) {
  Ticket tickets[kUnderWay] = {};
  int64_t piece = 0;
  const auto wait = [&](int64_t sent) { return rounds_.WaitSend(to, tickets[sent % kUnderWay]); };
  absl::Status status =
      ForEach(count, read, [&](const float* values, int64_t /*first*/, int64_t size) {
        absl::Status left = piece < kUnderWay ? absl::OkStatus() : wait(piece - kUnderWay);
        if (!left.ok()) return left;
        std::copy_n(values, size, Place(piece));
        left = world_.PostSend(to, Place(piece), StateBytes(size), &tickets[piece % kUnderWay]);
        ++piece;
        return left;
      });
  for (int64_t last = std::max<int64_t>(piece - kUnderWay, 0); last < piece && status.ok(); ++last)
    status = wait(last);
  return status;
}

absl::Status StatePieces::Receive(int from, int64_t count, const Use& use) {
  Ticket tickets[kUnderWay] = {};
  const int64_t pieces = (count + kStatePiece - 1) / kStatePiece;
  const auto size = [&](int64_t piece) {
    return std::min(kStatePiece, count - piece * kStatePiece);
  };
  const auto post = [&](int64_t piece) {
    if (piece >= pieces) return absl::OkStatus();
    return world_.PostReceive(from, Place(piece), StateBytes(size(piece)),
                              &tickets[piece % kUnderWay]);
  };
  absl::Status status = absl::OkStatus();
  for (int64_t piece = 0; piece < kUnderWay && status.ok(); ++piece) status = post(piece);
  for (int64_t piece = 0; piece < pieces && status.ok(); ++piece) {
    status = rounds_.WaitReceive(from, tickets[piece % kUnderWay]);
    if (status.ok()) status = use(Place(piece), piece * kStatePiece, size(piece));
    if (status.ok()) status = rounds_.Tick();
    if (status.ok()) status = post(piece + kUnderWay);
  }
  return status;
}

}  // namespace sluice
