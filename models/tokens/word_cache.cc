#include "models/tokens/word_cache.h"

#include <cstring>

namespace sluice {
namespace {

constexpr size_t kBlock = size_t{1} << 16;

}  // namespace

absl::Span<const int32_t> WordCache::Find(absl::string_view word) const {
  const auto found = places_.find(word);
  if (found == places_.end()) return {};
  return absl::MakeConstSpan(ids_).subspan(found->second.begin, found->second.count);
}

void WordCache::Insert(absl::string_view word, absl::Span<const int32_t> ids) {
  if (word.size() > kLongestWord || ids.empty()) return;
  if (blocks_.size() * kBlock >= kMostBytes || ids_.size() + ids.size() > kMostIds) {
    places_.clear();
    ids_.clear();
    blocks_.clear();
  }
  const auto begin = static_cast<uint32_t>(ids_.size());
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  places_.emplace(Keep(word), Place{begin, static_cast<uint32_t>(ids.size())});
}

absl::string_view WordCache::Keep(absl::string_view word) {
  if (blocks_.empty() || used_ + word.size() > kBlock) {
    blocks_.push_back(std::make_unique<char[]>(kBlock));
    used_ = 0;
  }
  char* at = blocks_.back().get() + used_;
  std::memcpy(at, word.data(), word.size());
  used_ += word.size();
  return {at, word.size()};
}

}  // namespace sluice
