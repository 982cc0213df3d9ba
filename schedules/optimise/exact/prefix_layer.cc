#include "schedules/optimise/exact/prefix_layer.h"

#include <algorithm>
#include <numeric>

#include "absl/hash/hash.h"

namespace sluice::optimise {
namespace {

// Whether every time of `a` is at most that of `b`.
bool NoLater(const std::vector<double>& a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] > b[i]) return false;
  }
  return true;
}

}  // namespace

bool PrefixLayer::Covers(const PrefixState& state) const {
  const auto first = first_.find(absl::HashOf(state.counts));
  if (first == first_.end()) return false;
  for (uint32_t i = first->second; i != kNone; i = entries_[i].next) {
    const Entry& entry = entries_[i];
    if (entry.covered || entry.state.counts != state.counts) continue;
    if (NoLater(entry.state.times, state.times)) return true;
  }
  return false;
}

void PrefixLayer::Add(PrefixState& state, Link link) {
  uint32_t& first = first_.try_emplace(absl::HashOf(state.counts), kNone).first->second;
  for (uint32_t i = first; i != kNone; i = entries_[i].next) {
    Entry& entry = entries_[i];
    if (entry.covered || entry.state.counts != state.counts) continue;
    entry.covered = NoLater(state.times, entry.state.times);
  }
  const double promise = std::accumulate(state.bounds.begin(), state.bounds.end(), 0.0);
  entries_.push_back({std::move(state), link, promise, first, false});
  first = static_cast<uint32_t>(entries_.size() - 1);
}

bool PrefixLayer::Keep(size_t width) {
  first_.clear();
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(),
                                [](const Entry& entry) { return entry.covered; }),
                 entries_.end());
  if (entries_.size() <= width) return false;
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) { return a.promise < b.promise; });
  entries_.resize(width);
  return true;
}

std::vector<Link> PrefixLayer::links() const {
  std::vector<Link> links;
  links.reserve(entries_.size());
  for (const Entry& entry : entries_) links.push_back(entry.link);
  return links;
}

}  // namespace sluice::optimise
