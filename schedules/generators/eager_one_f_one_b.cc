#include "schedules/generators/generators.h"

namespace sluice {

// Eager 1F1B: 1F1B with twice as many warm-up forwards, 2 (p - r - 1), so that in the steady state
// a message has a whole slot to travel in (p = 4, m = 6, B = 2 F):
//
//   rank 0  0 1 2 3 4 5 . . . .[0 ] .[1 ] .[2 ] .[3 ] .[4 ] .[5 ]
//   rank 1  . 0 1 2 3 4 . .[0 ]5[1 ] .[2 ] .[3 ] .[4 ] .[5 ]
//   rank 2  . . 0 1 2 .[0 ]3[1 ]4[2 ]5[3 ] .[4 ] .[5 ]
//   rank 3  . . . 0[0 ]1[1 ]2[2 ]3[3 ]4[4 ]5[5 ]
//
// Zhuang et al., "On Optimizing the Communication of Model Parallelism", MLSys 2023, section 4.
absl::StatusOr<Timetable> GenerateEagerOneFOneB(const ScheduleRequest& request) {
  if (absl::Status ok = RequireChunks("eager-1f1b", 1, request); !ok.ok()) return ok;
  Timetable table = EmptyTimetable("eager-1f1b", request, Placement::Looped(request.ranks));
  for (int rank = 0; rank < request.ranks; ++rank) {
    AppendOneFOneB(rank, request.micro_batches, 2 * (request.ranks - rank - 1), table.rows[rank]);
  }
  return table;
}

}  // namespace sluice
