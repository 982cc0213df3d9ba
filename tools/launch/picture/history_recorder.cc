#include "tools/launch/picture/history_recorder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_split.h"

namespace sluice {

using Kind = MemberMessage::Kind;

void HistoryRecorder::Started(int process, int64_t pid, absl::Duration now) {
  place_[process] = static_cast<int>(history_.processes.size());
  history_.processes.push_back({.pid = pid, .from = Seconds(now), .until = -1});
}

void HistoryRecorder::Sent(int process, const MemberMessage& message, absl::Duration now) {
  const auto place = place_.find(process);
  if (message.kind != Kind::kGroup || place == place_.end()) return;
  if (message.generation != generation_) {
    EndGroup(now);
    generation_ = message.generation;
    group_ = {};
    group_.processes.assign(static_cast<size_t>(std::max(0, message.size)), -1);
    lost_at_ = message.lost_at;
  }
  const auto rank = static_cast<size_t>(message.rank);
  if (rank < group_.processes.size()) group_.processes[rank] = place->second;
}

void HistoryRecorder::Took(int process, const MemberMessage& message, absl::Duration now) {
  if (message.kind == Kind::kResult) history_.weights_hash = message.weights_hash;
  const auto place = place_.find(process);
  if (place == place_.end()) return;
  const bool in_group = std::find(group_.processes.begin(), group_.processes.end(),
                                  place->second) != group_.processes.end();
  if (!in_group) return;
  switch (message.kind) {
    case Kind::kBegan: {
      group_.from = Seconds(now);
      group_.step = message.step;
      group_.stages = message.stages;
      group_.replicas = message.replicas;
      const std::pair<std::string, std::string> text =
          absl::StrSplit(message.text.data(), absl::MaxSplits('\n', 1));
      group_.partition = text.first;
      group_.why = text.second;
      // Those behind the ranks wait as spares, or leave.
      group_.processes.resize(
          std::min(group_.processes.size(), static_cast<size_t>(std::max(0, group_.ranks()))));
      if (lost_at_ != 0) {
        group_.since_loss = absl::ToDoubleSeconds(now - absl::Nanoseconds(lost_at_));
      }
      history_.groups.push_back(group_);
      trains_ = true;
      return;
    }
    case Kind::kWaiting:
    case Kind::kEnding:
      EndGroup(now);
      return;
    default:
      return;
  }
}

void HistoryRecorder::Ended(int process, LaunchHistory::End end, const std::string& how,
                            absl::Duration now) {
  const auto place = place_.find(process);
  if (place == place_.end()) return;
  LaunchHistory::Process& ended = history_.processes[static_cast<size_t>(place->second)];
  if (ended.until < 0) ended.until = Seconds(now);
  // That it was lost, or has left, may be known before it has ended, or after.
  if (end != LaunchHistory::End::kDone) {
    ended.end = end;
    ended.how = how;
  }
  const bool in_group = std::find(group_.processes.begin(), group_.processes.end(),
                                  place->second) != group_.processes.end();
  if (in_group) EndGroup(now);
}

void HistoryRecorder::Shown(int64_t step, float loss, absl::Duration now) {
  // Steps that are taken again have the same loss.
  if (!history_.steps.empty() && step <= history_.steps.back().step) return;
  history_.steps.push_back({.at = Seconds(now), .step = step, .loss = loss});
}

void HistoryRecorder::Rewound(int64_t step) {
  std::erase_if(history_.steps, [step](const auto& each) { return each.step > step; });
}

LaunchHistory HistoryRecorder::History(absl::Duration now) const {
  LaunchHistory history = history_;
  history.seconds = Seconds(now);
  for (LaunchHistory::Process& process : history.processes) {
    if (process.until < 0) process.until = history.seconds;
  }
  if (trains_) history.groups.back().until = history.seconds;
  return history;
}

void HistoryRecorder::EndGroup(absl::Duration now) {
  if (std::exchange(trains_, false)) history_.groups.back().until = Seconds(now);
}

}  // namespace sluice
