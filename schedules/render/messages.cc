#include "schedules/render/messages.h"

#include <algorithm>

#include "schedules/dependency.h"

namespace sluice {

std::vector<DrawnMessage> MessagesOf(const Simulation& run, const Timetable& timetable) {
  const CellIndex cell(timetable);
  struct Maker {
    size_t rank = 0;
    const TimedAction* timed = nullptr;
  };
  std::vector<Maker> forwards(cell.size()), gradients(cell.size());
  for (size_t rank = 0; rank < run.rows.size(); ++rank) {
    for (const TimedAction& timed : run.rows[rank]) {
      const Op op = timed.action.op;
      if (op == Op::kForward) forwards[cell(timed.action)] = {rank, &timed};
      if (MakesInputGrad(op)) gradients[cell(timed.action)] = {rank, &timed};
    }
  }
  std::vector<DrawnMessage> messages;
  for (size_t rank = 0; rank < run.rows.size(); ++rank) {
    for (const TimedAction& timed : run.rows[rank]) {
      const Action& action = timed.action;
      if (!IsCompute(action.op)) continue;
      const int stage = ProducerStage(timetable.placement, action.op, action.stage);
      if (stage == kNoStage) continue;
      const Maker& maker =
          (action.op == Op::kForward ? forwards : gradients)[cell(stage, action.micro_batch)];
      if (maker.timed == nullptr || maker.rank == rank) continue;
      messages.push_back({maker.rank, maker.timed, rank, &timed});
    }
  }
  return messages;
}

std::vector<std::vector<MessageWait>> MessageWaitsOf(const Simulation& run,
                                                     const Timetable& timetable) {
  std::vector<std::vector<MessageWait>> waits(run.rows.size());
  const std::vector<DrawnMessage> messages = MessagesOf(run, timetable);
  auto message = messages.begin();
  for (size_t rank = 0; rank < run.rows.size(); ++rank) {
    double free = 0;  // since when the rank has been idle
    for (const TimedAction& timed : run.rows[rank]) {
      if (message != messages.end() && message->to == &timed) {
        const double start = std::max(free, message->from->end);
        if (start < timed.start) waits[rank].push_back({start, timed.start, message->from});
        ++message;
      }
      // The halves of a pair begin together.
      if (!timed.action.overlaps_next) free = std::max(free, timed.end);
    }
  }
  return waits;
}

}  // namespace sluice
