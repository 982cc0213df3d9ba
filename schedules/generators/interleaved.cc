#include <algorithm>

#include "schedules/generators/generators.h"
#include "schedules/generators/interleaved_order.h"

namespace sluice {

// Interleaved 1F1B: rank r holds stages r, r + p, r + 2p, ...; a group of g micro-batches goes
// through a chunk before the next chunk starts, and 1F1B runs over that order (p = 2, m = 4, v = 2,
// g = 2; capitals are the second chunk):
//
//   rank 0 (stages 0, 2)  f0 f1 F0 F1 f2 B0 f3 B1 F2 b0 F3 b1 B2 B3 b2 b3
//   rank 1 (stages 1, 3)  f0 f1 F0 B0 F1 B1 f2 b0 f3 b1 F2 B2 F3 B3 b2 b3
//
// Narayanan et al., SC 2021, section 2.2 and fig. 4 bottom; the group is Megatron-LM's
// microbatch_group_size_per_vp_stage, the warm-up count is the one of its
// forward_backward_pipelining_with_interleaving. Megatron-LM refuses groups, or a rest, smaller
// than p, which would deadlock; here such a group is padded with empty slots.
absl::StatusOr<Timetable> GenerateInterleaved(const ScheduleRequest& request) {
  const int ranks = request.ranks;
  const InterleavedOrder order = VisitInterleaved(request);
  const int total = static_cast<int>(order.forwards.size());
  Timetable table =
      EmptyTimetable("interleaved", request, Placement::Looped(ranks, request.chunks));
  for (int rank = 0; rank < ranks; ++rank) {
    auto& row = table.rows[rank];
    row.reserve(2 * order.forwards.size());
    const auto append = [&](Op op, const ChunkSlot& slot) {
      if (slot.micro_batch == request.micro_batches) return;
      row.push_back(ComputeAction(op, slot.chunk * ranks + rank, slot.micro_batch));
    };
    const int warm_up =
        std::min(total, 2 * (ranks - rank - 1) + (request.chunks - 1) * order.largest_group);
    for (int i = 0; i < warm_up; ++i) append(Op::kForward, order.forwards[i]);
    for (int i = 0; i < total; ++i) {
      if (i + warm_up < total) append(Op::kForward, order.forwards[i + warm_up]);
      append(Op::kBackward, order.backwards[i]);
    }
  }
  return table;
}

}  // namespace sluice
