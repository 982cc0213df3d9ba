#include "schedules/generators/generators.h"

namespace sluice {

// 1F1B: rank r runs p - r - 1 forwards ahead, then alternates one forward and one backward (p = 4,
// m = 6, B = 2 F):
//
//   rank 0  0 1 2 3 . . . . . .[0 ]4[1 ]5[2 ] .[3 ] .[4 ] .[5 ]
//   rank 1  . 0 1 2 . . . .[0 ]3[1 ]4[2 ]5[3 ] .[4 ] .[5 ]
//   rank 2  . . 0 1 . .[0 ]2[1 ]3[2 ]4[3 ]5[4 ] .[5 ]
//   rank 3  . . . 0[0 ]1[1 ]2[2 ]3[3 ]4[4 ]5[5 ]
//
// Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using
// Megatron-LM", SC 2021, fig. 4 top; called PipeDream-Flush in "Memory-Efficient Pipeline-Parallel
// DNN Training", ICML 2021.
absl::StatusOr<Timetable> GenerateOneFOneB(const ScheduleRequest& request) {
  if (absl::Status ok = RequireChunks("1f1b", 1, request); !ok.ok()) return ok;
  Timetable table = EmptyTimetable("1f1b", request, Placement::Looped(request.ranks));
  for (int rank = 0; rank < request.ranks; ++rank) {
    AppendOneFOneB(rank, request.micro_batches, request.ranks - rank - 1, table.rows[rank]);
  }
  return table;
}

}  // namespace sluice
