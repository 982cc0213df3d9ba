#include "schedules/lower.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedules/channels.h"
#include "schedules/check/validate.h"
#include "schedules/check/validate_checks.h"
#include "schedules/dependency.h"
#include "schedules/simulate/reference_run.h"
#include "schedules/simulate/stage_links.h"

namespace sluice {
namespace {

// Every row of the result is what one total order of events leaves to that rank: actions on their
// rank, a message on both of its ends. Executing the events in that order never blocks, since a
// message's two ends are reached together: so there is no deadlock, and on every channel both ends
// see the same order. The order is that of time in the reference run; at one moment messages come
// first, then actions, each by rank and position. It respects the dependencies, because a message's
// time lies between the end of its producer and the start of its consumer.
class Lowering {
 public:
  // Requires rows that are complete and in order.
  Lowering(const Timetable& timetable, const LowerOptions& options)
      : table_(timetable),
        channels_(timetable.placement),
        links_(LinksOf(timetable.placement, channels_, /*costs=*/nullptr)),
        run_(timetable, links_),
        messages_(channels_.size()),
        touching_(timetable.rows.size()) {
    for (size_t channel = 0; channel < channels_.size(); ++channel) {
      touching_[channels_.ranks(channel).first].push_back(static_cast<int>(channel));
      touching_[channels_.ranks(channel).second].push_back(static_cast<int>(channel));
    }
    if (!run_.finished()) return;
    CollectMessages();
    if (options.most_waiting == LowerOptions::kAllThatArrive) return;
    for (int rank = 0; rank < table_.placement.ranks(); ++rank) {
      PutOff(rank, options.most_waiting);
    }
    SortMessages();
  }

  // Whether the table can run at all; otherwise it has no lowered rows.
  bool runs() const { return run_.finished(); }

  // The rows with their sends and receives.
  std::vector<std::vector<Action>> Rows() const {
    std::vector<std::vector<Action>> rows;
    for (int rank = 0; rank < static_cast<int>(table_.rows.size()); ++rank) {
      rows.push_back(Row(rank));
    }
    return rows;
  }

 private:
  // What F, B or I makes for another rank. Kept beside each other in the order of their channel,
  // since both ends read them.
  struct Message {
    int32_t time;
    uint32_t position;  // of its producer
    Action producer;
  };

  // The messages to come of a channel that ends or begins at a rank.
  struct Head {
    const Message* next;
    const Message* end;
    int from;  // rank
    bool operator<(const Head& other) const {
      if (next->time != other.next->time) return next->time < other.next->time;
      return std::pair(from, next->position) < std::pair(other.from, other.next->position);
    }
  };

  // Where the result of `action` goes; its stage is kNoStage where it goes nowhere.
  const StageLink& LinkOf(const Action& action) const {
    static constexpr StageLink kNowhere;
    if (action.op == Op::kForward) return links_[action.stage].next;
    return MakesInputGrad(action.op) ? links_[action.stage].previous : kNowhere;
  }

  void CollectMessages() {
    for (const auto& row : table_.rows) {
      for (size_t i = 0; i < row.size(); ++i) {
        const StageLink& link = LinkOf(row[i]);
        if (!link.crosses) continue;
        messages_[link.to].push_back({run_.MadeAt(row[i]), static_cast<uint32_t>(i), row[i]});
      }
    }
  }

  // Lets the messages to a rank come in the order of their use, and the k-th not before the use of
  // the one `limit` earlier has begun. Durations are 1 at least, so one later is still in time.
  void PutOff(int rank, int limit) {
    struct Use {
      int32_t start;
      size_t group;  // position of the action, of the first half for a pair
    };
    std::vector<Use> uses;
    int32_t previous = 0;
    const std::vector<Action>& row = table_.rows[rank];
    const std::vector<int32_t>& starts = run_.starts()[rank];
    for (size_t i = 0; i < row.size(); ++i) {
      const int producer = ProducerStage(table_.placement, row[i].op, row[i].stage);
      if (producer == kNoStage) continue;
      Action made = row[i];
      made.stage = static_cast<uint16_t>(producer);
      if (!LinkOf(made).crosses) continue;
      const size_t group = i > 0 && row[i - 1].overlaps_next ? i - 1 : i;
      int32_t time = std::max(previous, run_.MadeAt(made));
      if (uses.size() >= static_cast<size_t>(limit)) {
        const Use& frees = uses[uses.size() - static_cast<size_t>(limit)];
        if (frees.group != group) time = std::max(time, frees.start + 1);
      }
      uses.push_back({starts[i], group});
      previous = time;
      run_.PutOff(made, time);
    }
  }

  void SortMessages() {
    for (auto& channel : messages_) {
      for (Message& message : channel) message.time = run_.MadeAt(message.producer);
      std::sort(channel.begin(), channel.end(), [](const Message& a, const Message& b) {
        return std::pair(a.time, a.position) < std::pair(b.time, b.position);
      });
    }
  }

  // The end of a message on the rank that makes it, and on the one that takes it.
  static Action SendOf(const Action& producer) {
    const bool forward = producer.op == Op::kForward;
    return {.op = forward ? Op::kSendForward : Op::kSendBackward,
            .stage = producer.stage,
            .micro_batch = producer.micro_batch};
  }
  Action ReceiveOf(const Action& producer) const {
    const bool forward = producer.op == Op::kForward;
    return {.op = forward ? Op::kRecvForward : Op::kRecvBackward,
            .stage = static_cast<uint16_t>(LinkOf(producer).stage),
            .micro_batch = producer.micro_batch};
  }

  // Merges the actions of a rank with the messages of the few channels that touch it.
  std::vector<Action> Row(int rank) const {
    const auto& row = table_.rows[rank];
    const auto& starts = run_.starts()[rank];
    std::vector<Head> heads;
    size_t size = row.size();
    for (const int channel : touching_[rank]) {
      const auto& messages = messages_[channel];
      size += messages.size();
      if (messages.empty()) continue;
      heads.push_back({messages.data(), messages.data() + messages.size(),
                       channels_.ranks(static_cast<size_t>(channel)).first});
    }
    std::vector<Action> merged;
    merged.reserve(size);
    const auto emit_messages_until = [&](int64_t time) {
      while (!heads.empty()) {
        Head& first = *std::min_element(heads.begin(), heads.end());
        if (first.next->time > time) return;
        const Action& producer = first.next->producer;
        merged.push_back(first.from == rank ? SendOf(producer) : ReceiveOf(producer));
        if (++first.next != first.end) continue;
        first = heads.back();
        heads.pop_back();
      }
    };
    for (size_t i = 0; i < row.size(); ++i) {
      if (RunsNothing(row[i].op)) continue;
      const bool second_half = i > 0 && row[i - 1].overlaps_next;
      if (!second_half) emit_messages_until(starts[i]);
      merged.push_back(row[i]);
    }
    emit_messages_until(INT64_MAX);
    return merged;
  }

  const Timetable& table_;
  const Channels channels_;
  const std::vector<StageLinks> links_;
  ReferenceRun run_;
  std::vector<std::vector<Message>> messages_;  // [channel] in order
  std::vector<std::vector<int>> touching_;      // [rank] channels from and to it
};

bool IsCompleteAndInOrder(const Timetable& timetable) {
  DefectList defects(/*limit=*/1);
  if (!CheckShape(timetable, defects)) return false;
  Census census(timetable);
  CheckAllButProgress(timetable, census, defects);
  return defects.empty();
}

absl::Status CheckOptions(const Timetable& timetable, const LowerOptions& options) {
  if (timetable.lowered()) {
    return absl::InvalidArgumentError(
        absl::StrCat("timetable ", timetable.name, " already has sends and receives"));
  }
  if (options.most_waiting < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a rank must be able to receive at least 1 tensor ahead, not ", options.most_waiting));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Timetable> LowerTimetable(const Timetable& timetable, const LowerOptions& options) {
  if (absl::Status ok = CheckOptions(timetable, options); !ok.ok()) return ok;
  // The reference run finds out about cycles by itself.
  if (!IsCompleteAndInOrder(timetable)) return ValidateTimetable(timetable);
  const Lowering lowering(timetable, options);
  if (!lowering.runs()) return ValidateTimetable(timetable);
  Timetable lowered = timetable;
  lowered.rows = lowering.Rows();
  return lowered;
}

Timetable ComputeOnly(const Timetable& timetable) {
  Timetable compute = timetable;
  for (auto& row : compute.rows) {
    row.erase(std::remove_if(row.begin(), row.end(),
                             [](const Action& a) {
                               return IsCommunication(a.op) || a.op == Op::kWaitSendForward ||
                                      a.op == Op::kWaitSendBackward;
                             }),
              row.end());
  }
  return compute;
}

}  // namespace sluice
