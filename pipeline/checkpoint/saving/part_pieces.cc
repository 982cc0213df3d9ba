#include "pipeline/checkpoint/saving/part_pieces.h"

#include <algorithm>
#include <cstddef>

namespace sluice {
namespace {

// Elements of a piece: 1 MiB.
constexpr int64_t kPiece = int64_t{1} << 18;
// Pieces under way to rank 0 at a time: one arrives while the other is written.
constexpr int64_t kUnderWay = 2;

size_t Bytes(int64_t elements) { return static_cast<size_t>(elements) * sizeof(float); }

}  // namespace

float* PartPieces::Place(int64_t piece) {
  pieces_.resize(kUnderWay * kPiece);
  return pieces_.data() + piece % kUnderWay * kPiece;
}

absl::Status PartPieces::ForEach(const CheckpointPart& part, const Use& use) {
  for (int64_t first = 0; first < part.count; first += kPiece) {
    const int64_t count = std::min(kPiece, part.count - first);
    absl::Status status = use(read_(part, first, count), first, count);
    if (status.ok()) status = rounds_.Tick();
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status PartPieces::Write(const CheckpointPart& part, const SharedFile& file) {
  return ForEach(part, [&](const float* values, int64_t first, int64_t count) {
    return file.WriteAt(part.offset + Bytes(first), values, Bytes(count));
  });
}

absl::Status PartPieces::Send(const CheckpointPart& part) {
  Ticket tickets[kUnderWay] = {};
  int64_t piece = 0;
  const auto wait = [&](int64_t sent) { return rounds_.WaitSend(0, tickets[sent % kUnderWay]); };
  absl::Status status = ForEach(part, [&](const float* values, int64_t /*first*/, int64_t count) {
    absl::Status left = piece < kUnderWay ? absl::OkStatus() : wait(piece - kUnderWay);
    if (!left.ok()) return left;
    std::copy_n(values, count, Place(piece));
    left = world_.PostSend(0, Place(piece), Bytes(count), &tickets[piece % kUnderWay]);
    ++piece;
    return left;
  });
  for (int64_t last = std::max<int64_t>(piece - kUnderWay, 0); last < piece && status.ok(); ++last)
    status = wait(last);
  return status;
}

absl::Status PartPieces::Receive(const CheckpointPart& part, const SharedFile& file) {
  Ticket tickets[kUnderWay] = {};
  const int64_t pieces = (part.count + kPiece - 1) / kPiece;
  const auto size = [&](int64_t piece) { return std::min(kPiece, part.count - piece * kPiece); };
  const auto post = [&](int64_t piece) {
    if (piece >= pieces) return absl::OkStatus();
    return world_.PostReceive(part.owner, Place(piece), Bytes(size(piece)),
                              &tickets[piece % kUnderWay]);
  };
  absl::Status status = absl::OkStatus();
  for (int64_t piece = 0; piece < kUnderWay && status.ok(); ++piece) status = post(piece);
  for (int64_t piece = 0; piece < pieces && status.ok(); ++piece) {
    status = rounds_.WaitReceive(part.owner, tickets[piece % kUnderWay]);
    if (status.ok()) {
      status = file.WriteAt(part.offset + Bytes(piece * kPiece), Place(piece), Bytes(size(piece)));
    }
    if (status.ok()) status = rounds_.Tick();
    if (status.ok()) status = post(piece + kUnderWay);
  }
  return status;
}

}  // namespace sluice
