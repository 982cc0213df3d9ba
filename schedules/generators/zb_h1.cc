#include "schedules/generators/generators.h"

namespace sluice {

// ZB-H1: 1F1B with the backward split. Rank r lets its weight gradients lag r micro-batches behind
// its input gradients, so the input gradients flow on sooner, the lagging W fill the cool-down, and
// no rank holds more than 1F1B's rank 0 does: p activations. In order, for p = 4, m = 6:
//
//   rank 0  F0 F1 F2 F3 I0 W0 F4 I1 W1 F5 I2 W2 I3 W3 I4 W4 I5 W5
//   rank 1  F0 F1 F2 I0 F3 I1 W0 F4 I2 W1 F5 I3 W2 I4 W3 I5 W4 W5
//   rank 2  F0 F1 I0 F2 I1 F3 I2 W0 F4 I3 W1 F5 I4 W2 I5 W3 W4 W5
//   rank 3  F0 I0 F1 I1 F2 I2 F3 I3 W0 F4 I4 W1 F5 I5 W2 W3 W4 W5
//
// Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 2.1 and fig. 2 top.
absl::StatusOr<Timetable> GenerateZbH1(const ScheduleRequest& request) {
  if (absl::Status ok = RequireChunks("zb-h1", 1, request); !ok.ok()) return ok;
  Timetable table = EmptyTimetable("zb-h1", request, Placement::Looped(request.ranks));
  for (int rank = 0; rank < request.ranks; ++rank) {
    AppendOneFOneBOneW(rank, request.micro_batches, request.ranks - rank - 1, /*lag=*/rank,
                       table.rows[rank]);
  }
  return table;
}

}  // namespace sluice
