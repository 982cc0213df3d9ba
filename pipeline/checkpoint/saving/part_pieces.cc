#include "pipeline/checkpoint/saving/part_pieces.h"

#include <algorithm>
#include <cstddef>

#include "pipeline/run/state_pieces.h"

namespace sluice {

float* PartPieces::Place(int64_t piece) {
  pieces_.resize(kStatePiecesUnderWay * kStatePiece);
  return pieces_.data() + piece % kStatePiecesUnderWay * kStatePiece;
}

absl::Status PartPieces::ForEach(const CheckpointPart& part, const Use& use) {
  for (int64_t first = 0; first < part.count; first += kStatePiece) {
    const int64_t count = std::min(kStatePiece, part.count - first);
    absl::Status status = use(read_(part, first, count), first, count);
    if (status.ok()) status = rounds_.Tick();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status PartPieces::Write(const CheckpointPart& part, const Sink& sink) {
  return ForEach(part, [&](const float* values, int64_t first, int64_t count) {
    sink(part.offset + StateBytes(first), values, StateBytes(count));
    return absl::OkStatus();
  });
}

absl::Status PartPieces::Send(const CheckpointPart& part) {
  Ticket tickets[kStatePiecesUnderWay] = {};
  int64_t piece = 0;
  const auto wait = [&](int64_t sent) {
    return rounds_.WaitSend(0, tickets[sent % kStatePiecesUnderWay]);
  };
  absl::Status status = ForEach(part, [&](const float* values, int64_t /*first*/, int64_t count) {
    absl::Status left =
        piece < kStatePiecesUnderWay ? absl::OkStatus() : wait(piece - kStatePiecesUnderWay);
    if (!left.ok()) return left;
    std::copy_n(values, count, Place(piece));
    left =
        world_.PostSend(0, Place(piece), StateBytes(count), &tickets[piece % kStatePiecesUnderWay]);
    ++piece;
    return left;
  });
  for (int64_t last = std::max<int64_t>(piece - kStatePiecesUnderWay, 0);
       last < piece && status.ok(); ++last)
    status = wait(last);
  return status;
}

absl::Status PartPieces::Receive(const CheckpointPart& part, const Sink& sink) {
  Ticket tickets[kStatePiecesUnderWay] = {};
  const int64_t pieces = (part.count + kStatePiece - 1) / kStatePiece;
  const auto size = [&](int64_t piece) {
    return std::min(kStatePiece, part.count - piece * kStatePiece);
  };
  const auto post = [&](int64_t piece) {
    if (piece >= pieces) return absl::OkStatus();
    return world_.PostReceive(part.owner, Place(piece), StateBytes(size(piece)),
                              &tickets[piece % kStatePiecesUnderWay]);
  };
  absl::Status status = absl::OkStatus();
  for (int64_t piece = 0; piece < kStatePiecesUnderWay && status.ok(); ++piece)
    status = post(piece);
  for (int64_t piece = 0; piece < pieces && status.ok(); ++piece) {
    status = rounds_.WaitReceive(part.owner, tickets[piece % kStatePiecesUnderWay]);
    if (status.ok())
      sink(part.offset + StateBytes(piece * kStatePiece), Place(piece), StateBytes(size(piece)));
    if (status.ok()) status = rounds_.Tick();
    if (status.ok()) status = post(piece + kStatePiecesUnderWay);
  }
  return status;
}

}  // namespace sluice
