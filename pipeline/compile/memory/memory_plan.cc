#include "pipeline/compile/memory/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

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

// Free ranges of an address space that grows at its end.
class FreeRanges {
 public:
  // The smallest range that holds `bytes`; else the end of the space, grown as needed.
  int64_t Take(int64_t bytes) {
    const auto fit = by_size_.lower_bound({bytes, 0});
    if (fit == by_size_.end()) return Grow(bytes);
    const auto [size, offset] = *fit;
    Remove(offset, size);
    if (size > bytes) Insert(offset + bytes, size - bytes);
    return offset;
  }

  void Give(int64_t offset, int64_t bytes) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && offset + bytes == next->first) {
      const auto [at, size] = *next;
      Remove(at, size);
      bytes += size;
    }
    auto previous = by_offset_.lower_bound(offset);
    if (previous != by_offset_.begin() && (--previous)->first + previous->second == offset) {
      const auto [at, size] = *previous;
      Remove(at, size);
      offset = at;
      bytes += size;
    }
    Insert(offset, bytes);
  }

  int64_t end() const { return end_; }

 private:
  int64_t Grow(int64_t bytes) {
    int64_t offset = end_;
    if (!by_offset_.empty()) {
      const auto [at, size] = *by_offset_.rbegin();
      if (at + size == end_) {
        Remove(at, size);
        offset = at;
      }
    }
    end_ = offset + bytes;
    return offset;
  }
  void Insert(int64_t offset, int64_t size) {
    by_offset_.emplace(offset, size);
    by_size_.emplace(size, offset);
  }
  void Remove(int64_t offset, int64_t size) {
    by_offset_.erase(offset);
    by_size_.erase({size, offset});
  }

  std::map<int64_t, int64_t> by_offset_;           // offset -> size
  std::set<std::pair<int64_t, int64_t>> by_size_;  // (size, offset)
  int64_t end_ = 0;
};

BufferLayout PackInTime(absl::Span<const Buffer> buffers) {
  BufferLayout layout;
  layout.offsets.resize(buffers.size());
  Order births = Identity(buffers.size());
  // Larger ones first among those born together: they are the harder ones to place.
  std::sort(births.begin(), births.end(), [&](size_t a, size_t b) {
    if (buffers[a].first != buffers[b].first) return buffers[a].first < buffers[b].first;
    return buffers[a].bytes != buffers[b].bytes ? buffers[a].bytes > buffers[b].bytes : a < b;
  });
  Order deaths = Identity(buffers.size());
  std::sort(deaths.begin(), deaths.end(), [&](size_t a, size_t b) {
    return buffers[a].last != buffers[b].last ? buffers[a].last < buffers[b].last : a < b;
  });
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
  std::vector<std::pair<int64_t, int64_t>>
      changes;  // (instruction, bytes); deaths come before births of the next one
  for (const Buffer& buffer : buffers) {
    changes.emplace_back(2 * int64_t{buffer.first}, AlignUp(buffer.bytes));
    changes.emplace_back(2 * int64_t{buffer.last} + 1, -AlignUp(buffer.bytes));
  }
  std::sort(changes.begin(), changes.end());
  int64_t live = 0;
  int64_t peak = 0;
  for (const auto& [when, bytes] : changes) {
    live += bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace sluice
