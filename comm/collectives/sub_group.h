#ifndef SLUICE_COMM_COLLECTIVES_SUB_GROUP_H_
#define SLUICE_COMM_COLLECTIVES_SUB_GROUP_H_

#include <cstddef>
#include <vector>

#include "comm/communicator.h"
#include "models/device/instant.h"

namespace sluice {

// Some ranks of a group as a group of their own: rank i of it is members[i] of the whole. It has no
// edges but those of the whole, so messages through both share one order on an edge, and on each
// edge both ends must post them in one order. Errors name ranks of the whole; Abort stops the
// whole.
class SubGroup : public Communicator {
 public:
  // `members`: different ranks of `whole`, the calling one among them; the same list on each
  // member. `whole` must outlive this.
  SubGroup(Communicator* whole, std::vector<int> members);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  absl::Status PostSend(int to, const void* data, size_t bytes, Ticket* ticket) override;
  absl::Status PostReceive(int from, void* data, size_t bytes, Ticket* ticket) override;
  absl::Status WaitSend(int to, Ticket ticket, Instant deadline) override;
  absl::Status WaitReceive(int from, Ticket ticket, Instant deadline) override;
  // By a message between every two members.
  absl::Status AllGather(absl::Span<const double> mine, absl::Span<double> all,
                         Instant deadline) override;
  absl::Status Barrier(Instant deadline) override;
  Progress* progress() override { return whole_.progress(); }
  void Abort(const absl::Status& status) override;
  absl::Status failure() const override { return whole_.failure(); }

 private:
  int Whole(int member) const { return members_[static_cast<size_t>(member)]; }

  Communicator& whole_;
  const std::vector<int> members_;
  int rank_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_COMM_COLLECTIVES_SUB_GROUP_H_
