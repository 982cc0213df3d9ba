#ifndef SLUICE_SCHEDULES_TIMETABLE_H_
#define SLUICE_SCHEDULES_TIMETABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedules/action.h"

namespace sluice {

// Which rank holds which stage. A stage is one contiguous run of layers; a rank with several stages
// (chunks) holds them in ascending order.
class Placement {
 public:
  // Stage s on rank s mod ranks (Megatron's interleaving; with one chunk, the plain pipeline).
  static Placement Looped(int ranks, int chunks = 1);
  // Chunks alternate direction: stage s of chunk c on rank s - c*ranks when c is even, mirrored
  // when odd (ZB-V).
  static Placement V(int ranks, int chunks = 2);
  // Any map stage -> rank. InvalidArgument when a rank of 0..max has no stage or the map is empty.
  static absl::StatusOr<Placement> FromRanks(std::vector<int> rank_of_stage);

  int ranks() const { return ranks_; }
  int stages() const { return static_cast<int>(rank_of_stage_.size()); }
  // Largest number of stages that one rank holds.
  int chunks() const { return chunks_; }
  int rank(int stage) const { return rank_of_stage_[stage]; }
  const std::vector<int>& rank_of_stage() const { return rank_of_stage_; }
  // The stages of `rank`, ascending.
  std::vector<int> StagesOf(int rank) const;

 private:
  Placement() = default;
  int ranks_ = 0;
  int chunks_ = 0;
  std::vector<int> rank_of_stage_;
};

// Who computes what, in which order: one row of actions per rank. The times at which actions run
// are not part of it; Simulate() finds them.
struct Timetable {
  std::string name;  // the catalogue name or the file it came from
  Placement placement = Placement::Looped(1);
  int micro_batches = 0;
  std::vector<std::vector<Action>> rows;  // [rank][position]
  // Whether the lines of its CSV end in CR LF (as Python's csv module writes them) or in LF; kept
  // so that an imported file is written back unchanged.
  bool crlf = false;

  // True when the rows hold sends and receives.
  bool lowered() const;
  int64_t action_count() const;
};

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_TIMETABLE_H_
