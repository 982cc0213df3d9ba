#include "comm/collectives/sub_group.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/collectives/collectives.h"

namespace sluice {

SubGroup::SubGroup(Communicator* whole, std::vector<int> members)
    : whole_(*whole), members_(std::move(members)) {
  const auto self = std::find(members_.begin(), members_.end(), whole_.rank());
  assert(self != members_.end());
  rank_ = static_cast<int>(self - members_.begin());
}

absl::Status SubGroup::PostSend(int to, const void* data, size_t bytes, Ticket* ticket) {
  return whole_.PostSend(Whole(to), data, bytes, ticket);
}

absl::Status SubGroup::PostReceive(int from, void* data, size_t bytes, Ticket* ticket) {
  return whole_.PostReceive(Whole(from), data, bytes, ticket);
}

absl::Status SubGroup::WaitSend(int to, Ticket ticket, Instant deadline) {
  return whole_.WaitSend(Whole(to), ticket, deadline);
}

absl::Status SubGroup::WaitReceive(int from, Ticket ticket, Instant deadline) {
  return whole_.WaitReceive(Whole(from), ticket, deadline);
}

absl::Status SubGroup::AllGather(absl::Span<const double> mine, absl::Span<double> all,
                                 Instant deadline) {
  const auto ranks = static_cast<size_t>(size());
  if (all.size() != mine.size() * ranks) {
    return absl::InternalError(absl::StrCat("all-gather: rank ", whole_.rank(), " brought ",
                                            mine.size(), " values for ", all.size(), " places of ",
                                            ranks, " ranks"));
  }
  std::copy(mine.begin(), mine.end(),
            all.begin() + static_cast<std::ptrdiff_t>(mine.size()) * rank_);
  std::vector<int64_t> bounds;
  for (size_t r = 0; r <= ranks; ++r) bounds.push_back(static_cast<int64_t>(r * mine.size()));
  const SlicedBytes array{
      .data = all.data(), .bounds = bounds, .element_bytes = static_cast<int64_t>(sizeof(double))};
  return AllGatherSlices(*this, absl::MakeConstSpan(&array, 1), deadline - Instant::Now());
}

absl::Status SubGroup::Barrier(Instant deadline) {
  const double token = 0;  // an empty slice would not be sent
  std::vector<double> all(members_.size());
  return AllGather(absl::MakeConstSpan(&token, 1), absl::MakeSpan(all), deadline);
}

void SubGroup::Abort(const absl::Status& status) { whole_.Abort(status); }

}  // namespace sluice
