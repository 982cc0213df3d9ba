#include "schedules/generators/generators.h"

namespace sluice {

// ZB-H2: enough warm-up forwards, 2 (p - r - 1), that no rank waits for its first I; the W of rank
// r run 2r slots late and fill the end, so each rank works without a pause, each one slot later
// than the one before (p = 4, m = 8, F = I = W; f, i, w and the micro-batch):
//
//   rank 0  f0 f1 f2 f3 f4 f5 f6 i0 w0 f7 i1 w1 i2 w2 i3 w3 i4 w4 i5 w5 i6 w6 i7 w7
//   rank 1     f0 f1 f2 f3 f4 i0 f5 i1 f6 i2 w0 f7 i3 w1 i4 w2 i5 w3 i6 w4 i7 w5 w6 w7
//   rank 2        f0 f1 f2 i0 f3 i1 f4 i2 f5 i3 f6 i4 w0 f7 i5 w1 i6 w2 i7 w3 w4 w5 w6 w7
//   rank 3           f0 i0 f1 i1 f2 i2 f3 i3 f4 i4 f5 i5 f6 i6 w0 f7 i7 w1 w2 w3 w4 w5 w6 w7
//
// Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024, section 2.2 and fig. 3 bottom. The paper
// has no flush after it: the optimizer step is checked and repaired instead. sluice's makespan
// counts the shift of p - 1 slots; span_bubble, as the paper does, does not.
absl::StatusOr<Timetable> GenerateZbH2(const ScheduleRequest& request) {
  if (absl::Status ok = RequireChunks("zb-h2", 1, request); !ok.ok()) return ok;
  Timetable table = EmptyTimetable("zb-h2", request, Placement::Looped(request.ranks));
  for (int rank = 0; rank < request.ranks; ++rank) {
    AppendOneFOneBOneW(rank, request.micro_batches, 2 * (request.ranks - rank - 1),
                       /*lag=*/2 * rank, table.rows[rank]);
  }
  return table;
}

}  // namespace sluice
