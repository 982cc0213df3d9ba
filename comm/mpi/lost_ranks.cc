#include "comm/mpi/lost_ranks.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

LostRanks::LostRanks(int rank, std::vector<MachineProcess> processes)
    : rank_(rank), processes_(std::move(processes)), missed_(processes_.size(), 0) {}

bool LostRanks::Look(const std::function<bool(int rank)>& expected,
                     const std::function<void(int rank)>& lost) {
  bool missing = false;
  for (int peer = 0; peer < size(); ++peer) {
    if (!expected(peer) || !IsHere(peer) || !HasEnded(ProcessOf(peer))) continue;
    missing = true;
    ++missed_[static_cast<size_t>(peer)];
    if (IsLost(peer)) lost(peer);
  }
  return missing;
}

bool LostRanks::AnyIsLost() const {
  return std::any_of(missed_.begin(), missed_.end(), [](int looks) { return looks >= 2; });
}

bool LostRanks::AllAreHere() const {
  for (int peer = 0; peer < size(); ++peer) {
    if (!IsHere(peer)) return false;
  }
  return true;
}

PeerHealth LostRanks::Health(int peer) const {
  PeerHealth health{"", peer};
  for (int other = 0; other < size(); ++other) {
    if (!IsHere(other) || !IsStopped(ProcessOf(other))) continue;
    if (health.words.empty()) health.suspect = other;
    absl::StrAppend(&health.words, health.words.empty() ? " (" : ", ", "rank ", other,
                    " is stopped");
  }
  if (!health.words.empty()) health.words += ")";
  return health;
}

}  // namespace sluice
