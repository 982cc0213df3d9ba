#include "schedules/generators/generators.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

absl::Status RequireChunks(const char* name, int chunks, const ScheduleRequest& request) {
  if (request.chunks == chunks) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("schedule ", name, " needs ", chunks == 1 ? "one chunk" : "two chunks",
                   " per rank, not ", request.chunks, "; interleaved takes any number"));
}

Timetable EmptyTimetable(const char* name, const ScheduleRequest& request, Placement placement) {
  Timetable table;
  table.name = name;
  table.placement = std::move(placement);
  table.micro_batches = request.micro_batches;
  table.rows.resize(static_cast<size_t>(request.ranks));
  return table;
}

Action ComputeAction(Op op, int stage, int micro_batch) {
  return Action{.op = op, .stage = static_cast<uint16_t>(stage), .micro_batch = micro_batch};
}

void AppendOneFOneB(int stage, int micro_batches, int warm_up, std::vector<Action>& row) {
  warm_up = std::min(micro_batches, warm_up);
  for (int b = 0; b < warm_up; ++b) row.push_back(ComputeAction(Op::kForward, stage, b));
  for (int b = 0; b < micro_batches; ++b) {
    const int ahead = b + warm_up;
    if (ahead < micro_batches) row.push_back(ComputeAction(Op::kForward, stage, ahead));
    row.push_back(ComputeAction(Op::kBackward, stage, b));
  }
}

void AppendOneFOneBOneW(int stage, int micro_batches, int warm_up, int lag,
                        std::vector<Action>& row) {
  warm_up = std::min(micro_batches, warm_up);
  lag = std::min(micro_batches, lag);
  for (int b = 0; b < warm_up; ++b) row.push_back(ComputeAction(Op::kForward, stage, b));
  for (int b = 0; b < micro_batches; ++b) {
    const int ahead = b + warm_up;
    if (ahead < micro_batches) row.push_back(ComputeAction(Op::kForward, stage, ahead));
    row.push_back(ComputeAction(Op::kInputGrad, stage, b));
    if (b >= lag) row.push_back(ComputeAction(Op::kWeightGrad, stage, b - lag));
  }
  for (int b = micro_batches - lag; b < micro_batches; ++b) {
    row.push_back(ComputeAction(Op::kWeightGrad, stage, b));
  }
}

void KeepMicroBatches(int micro_batches, std::vector<Action>& row) {
  for (size_t i = 0; i + 1 < row.size(); ++i) {
    // Where only one half of a pair is left, it becomes an ordinary action.
    if (row[i + 1].micro_batch >= micro_batches) row[i].overlaps_next = false;
  }
  if (std::erase_if(row, [&](const Action& a) { return a.micro_batch >= micro_batches; }) > 0)
    row.shrink_to_fit();
}

}  // namespace sluice
