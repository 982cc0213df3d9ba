#ifndef SLUICE_TOOLS_LAUNCH_PICTURE_HISTORY_RECORDER_H_
#define SLUICE_TOOLS_LAUNCH_PICTURE_HISTORY_RECORDER_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "comm/membership/message.h"
#include "tools/launch/picture/launch_history.h"

namespace sluice {

// Writes the history of a run from what its supervisor sees. Processes have the supervisor's numbers;
// times are of MachineTime().
class HistoryRecorder {
 public:
  explicit HistoryRecorder(absl::Duration begin) : begin_(begin) {}

  void Started(int process, int64_t pid, absl::Duration now);
  // The supervisor has sent a message to a process, or taken one from it.
  void Sent(int process, const MemberMessage& message, absl::Duration now);
  void Took(int process, const MemberMessage& message, absl::Duration now);
  // The process has ended; `how` where it was lost.
  void Ended(int process, LaunchHistory::End end, const std::string& how, absl::Duration now);
  void Shown(int64_t step, float loss, absl::Duration now);
  // What was shown of the steps after this one does not count: they are shown again.
  void Rewound(int64_t step);

  // What has happened so far; who is there is there until now.
  LaunchHistory History(absl::Duration now) const;

 private:
  double Seconds(absl::Duration now) const { return absl::ToDoubleSeconds(now - begin_); }
  void EndGroup(absl::Duration now);  // if it trains

  const absl::Duration begin_;
  LaunchHistory history_;
  std::map<int, int> place_;    // [process] among history_.processes
  int64_t generation_ = 0;      // of the group that forms, or trains
  LaunchHistory::Group group_;  // that one
  int64_t lost_at_ = 0;         // MemberMessage::lost_at of it
  bool trains_ = false;         // it is the last of history_.groups, and goes on
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_LAUNCH_PICTURE_HISTORY_RECORDER_H_
