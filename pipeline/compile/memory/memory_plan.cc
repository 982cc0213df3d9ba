#include "pipeline/compile/memory/memory_plan.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>
#include <vector>

namespace sluice {
namespace {

// Lowest fit in the order of size looks at every pair of buffers.
constexpr size_t kMaxForSizeOrder = 4096;

using Order = std::vector<size_t>;

Order Identity(size_t n) {
  Order order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  return order;
}

struct Range {
  int64_t offset = 0;
  int64_t size = 0;
};

bool IsBefore(const Range& a, const Range& b) { return a.offset < b.offset; }

bool IsSmaller(const Range& a, const Range& b) {
  return a.size != b.size ? a.size < b.size : a.offset < b.offset;
}

// Free ranges of an address space that grows at its end. No two of them touch. There are rarely more
// than some hundred, of which sorted vectors are faster than trees and hash tables.
class FreeRanges {
 public:
  // The smallest range that holds `bytes`, of these the lowest; else the end of the space, grown as
  // needed.
  int64_t Take(int64_t bytes) {
    const auto fit = Sized({0, bytes});
    if (fit == by_size_.end()) return Grow(bytes);
    const Range range = *fit;
    const auto here = At(range);
    if (range.size == bytes) {
      by_offset_.erase(here);
      by_size_.erase(fit);
    } else {
      *here = {range.offset + bytes, range.size - bytes};
      Move(fit, *here);
    }
    return range.offset;
  }

  void Give(int64_t offset, int64_t bytes) {
    Range given{offset, bytes};
    const auto next = At(given);
    const bool joins_next = next != by_offset_.end() && offset + bytes == next->offset;
    const bool joins_previous =
        next != by_offset_.begin() && std::prev(next)->offset + std::prev(next)->size == offset;
    if (joins_next) given.size += next->size;
    if (joins_previous) {
      const auto previous = std::prev(next);
      given = {previous->offset, previous->size + given.size};
      Move(Sized(*previous), given);
      *previous = given;
      if (!joins_next) return;
      by_size_.erase(Sized(*next));
      by_offset_.erase(next);
    } else if (joins_next) {
      Move(Sized(*next), given);
      *next = given;
    } else {
      by_offset_.insert(next, given);
      by_size_.insert(Sized(given), given);
    }
  }

  int64_t end() const { return end_; }

 private:
  using Place = std::vector<Range>::iterator;

  int64_t Grow(int64_t bytes) {
    int64_t offset = end_;
    if (!by_offset_.empty() && by_offset_.back().offset + by_offset_.back().size == end_) {
      offset = by_offset_.back().offset;
      by_size_.erase(Sized(by_offset_.back()));
      by_offset_.pop_back();
    }
    end_ = offset + bytes;
    return offset;
  }

  // Where a range that is free stands, or would stand, in by_offset_ and in by_size_.
  Place At(const Range& range) {
    return std::lower_bound(by_offset_.begin(), by_offset_.end(), range, IsBefore);
  }
  Place Sized(const Range& range) {
    return std::lower_bound(by_size_.begin(), by_size_.end(), range, IsSmaller);
  }

  // Makes `from`, a place in by_size_, the range `to`, and brings it where that belongs.
  void Move(Place from, const Range& to) {
    const auto target = Sized(to);
    if (target <= from) {
      std::move_backward(target, from, std::next(from));
      *target = to;
    } else {
      *std::move(std::next(from), target, from) = to;
    }
  }

  std::vector<Range> by_offset_;
  std::vector<Range> by_size_;  // and by offset among those of one size
  int64_t end_ = 0;
};

// One more than the last instruction that needs a buffer.
size_t InstructionCount(absl::Span<const Buffer> buffers) {
  int32_t last = -1;
  for (const Buffer& buffer : buffers) last = std::max(last, buffer.last);
  return static_cast<size_t>(last) + 1;
}

// The buffers in the order of the instruction that `member` names; those of one instruction in
// their own order.
Order InOrderOf(int32_t Buffer::*member, absl::Span<const Buffer> buffers) {
  std::vector<size_t> next(InstructionCount(buffers) + 1, 0);  // [instruction] its next place
  for (const Buffer& buffer : buffers) ++next[static_cast<size_t>(buffer.*member) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  Order order(buffers.size());
  for (size_t b = 0; b < buffers.size(); ++b)
    order[next[static_cast<size_t>(buffers[b].*member)]++] = b;
  return order;
}

// In the order of their first instruction; larger ones first among those of one instruction: they
// are the harder ones to place.
Order InOrderOfBirth(absl::Span<const Buffer> buffers) {
  Order births = InOrderOf(&Buffer::first, buffers);
  const auto larger = [&](size_t a, size_t b) {
    return buffers[a].bytes != buffers[b].bytes ? buffers[a].bytes > buffers[b].bytes : a < b;
  };
  for (auto from = births.begin(); from != births.end();) {
    const auto to = std::find_if(
        from, births.end(), [&](size_t b) { return buffers[b].first != buffers[*from].first; });
    std::sort(from, to, larger);
    from = to;
  }
  return births;
}

BufferLayout PackInTime(absl::Span<const Buffer> buffers) {
  BufferLayout layout;
  layout.offsets.resize(buffers.size());
  const Order births = InOrderOfBirth(buffers);
  const Order deaths = InOrderOf(&Buffer::last, buffers);
  FreeRanges space;
  size_t dead = 0;
  for (size_t b : births) {
    for (; buffers[deaths[dead]].last < buffers[b].first; ++dead) {
      const size_t d = deaths[dead];
      if (buffers[d].bytes > 0) space.Give(layout.offsets[d], AlignUp(buffers[d].bytes));
    }
    layout.offsets[b] = buffers[b].bytes > 0 ? space.Take(AlignUp(buffers[b].bytes)) : 0;
  }
  layout.bytes = space.end();
  return layout;
}

BufferLayout PackBySize(absl::Span<const Buffer> buffers) {
  BufferLayout layout;
  layout.offsets.resize(buffers.size());
  Order order = Identity(buffers.size());
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  // What each look needs lies together: there are as many as pairs of buffers.
  struct Placed {
    int64_t offset, end;
    int32_t first, last;
  };
  std::vector<Placed> placed;  // ascending by offset
  placed.reserve(buffers.size());
  for (size_t b : order) {
    const Buffer& buffer = buffers[b];
    const int64_t bytes = AlignUp(buffer.bytes);
    int64_t offset = 0;
    for (const Placed& other : placed) {
      if (other.last < buffer.first || buffer.last < other.first) continue;
      if (other.offset >= offset + bytes) break;
      offset = std::max(offset, other.end);
    }
    layout.offsets[b] = offset;
    const auto above =
        std::upper_bound(placed.begin(), placed.end(), offset,
                         [](int64_t value, const Placed& other) { return value < other.offset; });
    placed.insert(above, {offset, offset + bytes, buffer.first, buffer.last});
    layout.bytes = std::max(layout.bytes, offset + bytes);
  }
  return layout;
}

}  // namespace

BufferLayout PackBuffers(absl::Span<const Buffer> buffers) {
  BufferLayout best = PackInTime(buffers);
  if (buffers.size() <= kMaxForSizeOrder && best.bytes > PeakLiveBytes(buffers)) {
    BufferLayout other = PackBySize(buffers);
    if (other.bytes < best.bytes) best = std::move(other);
  }
  return best;
}

int64_t PeakLiveBytes(absl::Span<const Buffer> buffers) {
  std::vector<int64_t> change(InstructionCount(buffers) + 1, 0);  // [instruction] of the live bytes
  for (const Buffer& buffer : buffers) {
    change[static_cast<size_t>(buffer.first)] += AlignUp(buffer.bytes);
    change[static_cast<size_t>(buffer.last) + 1] -= AlignUp(buffer.bytes);
  }
  int64_t live = 0;
  int64_t peak = 0;
  for (const int64_t bytes : change) {
    live += bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace sluice
