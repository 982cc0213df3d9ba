#include "pipeline/compile/memory/memory_plan.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"

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

// Free ranges of an address space that grows at its end. No two of them touch.
class FreeRanges {
 public:
  // The smallest range that holds `bytes`, of these the lowest; else the end of the space, grown as
  // needed.
  int64_t Take(int64_t bytes) {
    const auto fit = by_size_.lower_bound({bytes, 0});
    if (fit == by_size_.end()) return Grow(bytes);
    const auto [size, offset] = *fit;
    Remove(offset, size);
    if (size > bytes) Insert(offset + bytes, size - bytes);
    return offset;
  }

  void Give(int64_t offset, int64_t bytes) {
    const auto next = sizes_.find(offset + bytes);
    if (next != sizes_.end()) {
      const auto [at, size] = *next;
      Remove(at, size);
      bytes += size;
    }
    const auto previous = starts_.find(offset);
    if (previous != starts_.end()) {
      const int64_t at = previous->second;
      Remove(at, offset - at);
      bytes += offset - at;
      offset = at;
    }
    Insert(offset, bytes);
  }

  int64_t end() const { return end_; }

 private:
  int64_t Grow(int64_t bytes) {
    int64_t offset = end_;
    const auto last = starts_.find(end_);
    if (last != starts_.end()) {
      offset = last->second;
      Remove(offset, end_ - offset);
    }
    end_ = offset + bytes;
    return offset;
  }
  void Insert(int64_t offset, int64_t size) {
    sizes_.emplace(offset, size);
    starts_.emplace(offset + size, offset);
    by_size_.emplace(size, offset);
  }
  void Remove(int64_t offset, int64_t size) {
    sizes_.erase(offset);
    starts_.erase(offset + size);
    by_size_.erase({size, offset});
  }

  absl::flat_hash_map<int64_t, int64_t> sizes_;           // start -> size
  absl::flat_hash_map<int64_t, int64_t> starts_;          // end -> start
  absl::btree_set<std::pair<int64_t, int64_t>> by_size_;  // (size, start)
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
  std::vector<std::pair<int64_t, size_t>> placed;  // (offset, buffer), ascending
  for (size_t b : order) {
    const int64_t bytes = AlignUp(buffers[b].bytes);
    int64_t offset = 0;
    for (const auto& [at, other] : placed) {
      if (buffers[other].last < buffers[b].first || buffers[b].last < buffers[other].first)
        continue;
      if (at >= offset + bytes) break;
      offset = std::max(offset, at + AlignUp(buffers[other].bytes));
    }
    layout.offsets[b] = offset;
    const std::pair<int64_t, size_t> entry{offset, b};
    placed.insert(std::upper_bound(placed.begin(), placed.end(), entry), entry);
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
