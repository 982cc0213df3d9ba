#include "schedules/generators/generators.h"

namespace sluice {

// GPipe: all forwards, a flush, all backwards (p = 4, m = 4, B = 2 F):
//
//   rank 0  0 1 2 3 . . . . . . . . .[0 ][1 ][2 ][3 ]
//   rank 1  . 0 1 2 3 . . . . . .[0 ][1 ][2 ][3 ]
//   rank 2  . . 0 1 2 3 . . .[0 ][1 ][2 ][3 ]
//   rank 3  . . . 0 1 2 3[0 ][1 ][2 ][3 ]
//
// Huang et al., "GPipe: Efficient Training of Giant Neural Networks using Pipeline Parallelism",
// NeurIPS 2019, fig. 2c. The figure runs backwards in reverse; here they run in micro-batch order,
// so that gradients always add up in one order. The time is the same, and so is the memory: every
// micro-batch is held when the first backward starts.
absl::StatusOr<Timetable> GenerateGPipe(const ScheduleRequest& request) {
  if (absl::Status ok = RequireChunks("gpipe", 1, request); !ok.ok()) return ok;
  Timetable table = EmptyTimetable("gpipe", request, Placement::Looped(request.ranks));
  for (int rank = 0; rank < request.ranks; ++rank) {
    for (Op op : {Op::kForward, Op::kBackward}) {
      for (int b = 0; b < request.micro_batches; ++b) {
        table.rows[rank].push_back(ComputeAction(op, rank, b));
      }
    }
  }
  return table;
}

}  // namespace sluice
