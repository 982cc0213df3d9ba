#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "comm/collectives/collectives.h"
#include "comm/collectives/reduce_scatter_work.h"

namespace sluice {
namespace {

constexpr int64_t kPiece = kReduceScatterPiece;
// Elements that are added at a time.
constexpr int64_t kTile = 1024;
constexpr size_t kDepth = kReduceScatterDepth;

size_t Index(int64_t value) { return static_cast<size_t>(value); }

// A part of a slice that travels as one message.
struct Piece {
  const SlicedSum* array = nullptr;  // null: no more
  int64_t first = 0;                 // within the array
  int64_t count = 0;
};

// Walks through all slices of one owner, piece by piece.
class PieceWalk {
 public:
  PieceWalk(absl::Span<const SlicedSum> arrays, int owner, int64_t most)
      : arrays_(arrays), owner_(Index(owner)), most_(most) {}

  Piece Next() {
    for (; array_ < arrays_.size(); ++array_, done_ = 0) {
      const absl::Span<const int64_t> bounds = arrays_[array_].bounds;
      const int64_t first = bounds[owner_] + done_;
      const int64_t count = std::min(most_, bounds[owner_ + 1] - first);
      if (count <= 0) continue;
      done_ += count;
      return {.array = &arrays_[array_], .first = first, .count = count};
    }
    return {};
  }

 private:
  const absl::Span<const SlicedSum> arrays_;
  const size_t owner_;
  const int64_t most_;
  size_t array_ = 0;
  int64_t done_ = 0;  // elements of the array's slice
};

// Adds, tile by tile, `count` elements of each of `summands` in their order to what `sum` holds, or
// to nothing. A summand may be `sum` itself.
void SumInOrder(absl::Span<const float* const> summands, bool add, int64_t count, float* sum) {
  float tile[kTile];
  for (int64_t at = 0; at < count; at += kTile) {
    const int64_t size = std::min(kTile, count - at);
    std::copy_n((add ? sum : summands.front()) + at, size, tile);
    for (size_t s = add ? 0 : 1; s < summands.size(); ++s) {
      const float* summand = summands[s] + at;
      for (int64_t i = 0; i < size; ++i) tile[i] += summand[i];
    }
    std::copy_n(tile, size, sum + at);
  }
}

// In each round every rank takes one piece of its own slices from all others, and sends each of
// them a piece of theirs.
class SumScatter {
 public:
  SumScatter(Communicator& group, absl::Span<const SlicedSum> arrays, absl::Span<float> work,
             absl::Duration timeout, const AddFunction& add)
      : group_(group),
        work_(work),
        timeout_(timeout),
        add_(add),
        depth_(work.size() >= kDepth * Others() ? kDepth : 1),
        piece_(work.size() / (depth_ * std::max<size_t>(Others(), 1))),
        rounds_(depth_),
        summands_(Index(group.size())) {
    for (int owner = 0; owner < group.size(); ++owner)
      walks_.emplace_back(arrays, owner, Others() == 0 ? kPiece : static_cast<int64_t>(piece_));
    for (Round& round : rounds_) {
      round.sent.resize(Index(group.size()));
      round.received.resize(Index(group.size()));
      round.pieces.resize(Index(group.size()));
    }
  }

  absl::Status Run() {
    if (piece_ == 0 && Others() > 0)
      return absl::InternalError(absl::StrCat(
          "a sum over ", group_.size(), " ranks with work memory for ", work_.size(), " elements"));
    absl::Status status = absl::OkStatus();
    size_t posted = 0;
    size_t finished = 0;
    for (bool more = true; status.ok() && (more || finished < posted);) {
      while (more && posted < finished + depth_ && status.ok()) {
        more = Open(rounds_[posted % depth_]);
        if (!more) break;
        status = Post(posted++ % depth_);
      }
      if (status.ok() && finished < posted) status = Finish(finished++ % depth_);
    }
    return status;
  }

 private:
  struct Round {
    std::vector<Piece> pieces;  // [owner]
    std::vector<Ticket> sent;   // [peer]
    std::vector<Ticket> received;
  };

  size_t Others() const { return Index(group_.size()) - 1; }

  // The next piece of every owner; false when nobody has one left.
  bool Open(Round& round) {
    bool any = false;
    for (size_t owner = 0; owner < walks_.size(); ++owner) {
      round.pieces[owner] = walks_[owner].Next();
      any = any || round.pieces[owner].array != nullptr;
    }
    return any;
  }

  // Where the piece of `peer` arrives.
  float* SlotOf(size_t round, int peer) const {
    const size_t before = Index(peer < group_.rank() ? peer : peer - 1);
    return work_.data() + (round * Others() + before) * piece_;
  }

  absl::Status Post(size_t number) {
    Round& round = rounds_[number];
    const Piece& mine = round.pieces[Index(group_.rank())];
    absl::Status status = absl::OkStatus();
    for (int peer = 0; peer < group_.size() && status.ok(); ++peer) {
      if (peer == group_.rank()) continue;
      if (mine.array != nullptr) {
        status = group_.PostReceive(peer, SlotOf(number, peer), Index(mine.count) * sizeof(float),
                                    &round.received[Index(peer)]);
      }
      const Piece& theirs = round.pieces[Index(peer)];
      if (theirs.array != nullptr && status.ok()) {
        status = group_.PostSend(peer, theirs.array->data + theirs.first,
                                 Index(theirs.count) * sizeof(float), &round.sent[Index(peer)]);
      }
    }
    return status;
  }

  absl::Status Finish(size_t number) {
    const Round& round = rounds_[number];
    const Piece& mine = round.pieces[Index(group_.rank())];
    absl::Status status = absl::OkStatus();
    for (int peer = 0; peer < group_.size() && status.ok(); ++peer) {
      if (peer == group_.rank()) continue;
      if (mine.array != nullptr)
        status = group_.WaitReceive(peer, round.received[Index(peer)], Instant::Now() + timeout_);
      if (round.pieces[Index(peer)].array != nullptr && status.ok())
        status = group_.WaitSend(peer, round.sent[Index(peer)], Instant::Now() + timeout_);
    }
    if (status.ok() && mine.array != nullptr) Sum(number, mine);
    return status;
  }

  void Sum(size_t number, const Piece& mine) {
    if (add_) {
      SumOnDevice(number, mine);
      return;
    }
    for (int peer = 0; peer < group_.size(); ++peer) {
      summands_[Index(peer)] =
          peer == group_.rank() ? mine.array->data + mine.first : SlotOf(number, peer);
    }
    const int64_t start = mine.array->bounds[Index(group_.rank())];
    SumInOrder(summands_, mine.array->add, mine.count, mine.array->sum + (mine.first - start));
  }

  // The same sums, array by array. Without `add` the sum's place may be the own summand's, so it is
  // written last: until then the first rank's summand grows where it arrived.
  void SumOnDevice(size_t number, const Piece& mine) {
    const float* own = mine.array->data + mine.first;
    float* sum = mine.array->sum + (mine.first - mine.array->bounds[Index(group_.rank())]);
    const bool own_first = group_.rank() == 0;
    float* grows = mine.array->add || own_first ? sum : SlotOf(number, 0);
    if (!mine.array->add && own_first && own != sum) add_(mine.count, own, sum, false);
    for (int peer = mine.array->add ? 0 : 1; peer < group_.size(); ++peer)
      add_(mine.count, peer == group_.rank() ? own : SlotOf(number, peer), grows, true);
    if (grows != sum) add_(mine.count, grows, sum, false);
  }

  Communicator& group_;
  const absl::Span<float> work_;
  const absl::Duration timeout_;
  const AddFunction& add_;
  const size_t depth_;
  const size_t piece_;
  std::vector<PieceWalk> walks_;        // [owner]
  std::vector<Round> rounds_;           // [round % depth]
  std::vector<const float*> summands_;  // [rank], of the piece that is added
};

}  // namespace

absl::Status ReduceScatter(Communicator& group, absl::Span<const SlicedSum> arrays,
                           absl::Span<float> work, absl::Duration timeout, const AddFunction& add) {
  return SumScatter(group, arrays, work, timeout, add).Run();
}

}  // namespace sluice
