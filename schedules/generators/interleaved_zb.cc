#include <algorithm>

#include "schedules/generators/generators.h"
#include "schedules/generators/interleaved_order.h"

namespace sluice {

// Interleaved zero bubble: ZB-H1 over the order of interleaved 1F1B. Half as many warm-up forwards
// are needed as there, because the gradient of a chunk's input no longer waits for its weight
// gradient; the W of rank r run r slots late (p = 2, m = 4, v = 2, g = 2; capitals are the second
// chunk, i and w the halves of the backward):
//
//   rank 0 (stages 0, 2)  f0 f1 F0 F1 I0 W0 f2 I1 W1 f3 i0 w0 F2 i1 w1 F3 I2 W2 I3 W3 i2 w2 i3 w3
//   rank 1 (stages 1, 3)  f0 f1 F0 I0 F1 I1 W0 f2 i0 W1 f3 i1 w0 F2 I2 w1 F3 I3 W2 i2 W3 i3 w2 w3
//
// PyTorch's ScheduleInterleavedZeroBubble; the idea is of Qi et al., Zero Bubble Pipeline
// Parallelism, ICLR 2024.
absl::StatusOr<Timetable> GenerateInterleavedZb(const ScheduleRequest& request) {
  const int ranks = request.ranks;
  const InterleavedOrder order = VisitInterleaved(request);
  const int total = static_cast<int>(order.forwards.size());
  Timetable table =
      EmptyTimetable("interleaved-zb", request, Placement::Looped(ranks, request.chunks));
  for (int rank = 0; rank < ranks; ++rank) {
    auto& row = table.rows[rank];
    row.reserve(3 * order.forwards.size());
    const auto append = [&](Op op, const ChunkSlot& slot) {
      if (slot.micro_batch == request.micro_batches) return;
      row.push_back(ComputeAction(op, slot.chunk * ranks + rank, slot.micro_batch));
    };
    const int warm_up =
        std::min(total, ranks - rank - 1 + (request.chunks - 1) * order.largest_group);
    const int lag = std::min(total, rank);
    for (int i = 0; i < warm_up; ++i) append(Op::kForward, order.forwards[i]);
    for (int i = 0; i < total; ++i) {
      if (i + warm_up < total) append(Op::kForward, order.forwards[i + warm_up]);
      append(Op::kInputGrad, order.backwards[i]);
      if (i >= lag) append(Op::kWeightGrad, order.backwards[i - lag]);
    }
    for (int i = total - lag; i < total; ++i) append(Op::kWeightGrad, order.backwards[i]);
  }
  return table;
}

}  // namespace sluice
