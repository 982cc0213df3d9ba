#include "schedules/generators/generators.h"

namespace sluice {

// Looped breadth-first: GPipe over v chunks per rank; all micro-batches through a chunk before the
// next chunk starts (p = 2, m = 4, v = 2; a dash marks the second chunk, B = 2 F):
//
//   rank 0 (stages 0, 2)  0 1 2 3 0'1'2'3' . . .[0'][1'][2'][3'][0 ][1 ][2 ][3 ]
//   rank 1 (stages 1, 3)  . 0 1 2 3 0'1'2'3'[0'][1'][2'][3'][0 ][1 ][2 ][3 ]
//
// Every message has m slots to travel in, and each chunk's gradients are complete at once, which
// suits fully sharded weights. Lamy-Poirier, "Breadth-First Pipeline Parallelism", MLSys 2023,
// fig. 4d. The figure runs the backwards in reverse; here they run in micro-batch order, so that
// gradients always add up in one order.
absl::StatusOr<Timetable> GenerateBreadthFirst(const ScheduleRequest& request) {
  const int ranks = request.ranks;
  Timetable table = EmptyTimetable("bfs", request, Placement::Looped(ranks, request.chunks));
  for (int rank = 0; rank < ranks; ++rank) {
    const auto append = [&](Op op, int chunk) {
      for (int b = 0; b < request.micro_batches; ++b) {
        table.rows[rank].push_back(ComputeAction(op, chunk * ranks + rank, b));
      }
    };
    for (int chunk = 0; chunk < request.chunks; ++chunk) append(Op::kForward, chunk);
    for (int chunk = request.chunks - 1; chunk >= 0; --chunk) append(Op::kBackward, chunk);
  }
  return table;
}

}  // namespace sluice
