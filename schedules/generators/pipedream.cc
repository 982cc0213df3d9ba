#include "absl/strings/str_cat.h"
#include "schedules/generators/generators.h"

namespace sluice {
namespace {

// 1F1B over the whole run, with an update of the stage after every `every` micro-batches and after
// the last.
Timetable OneFOneBWithUpdates(const char* name, const ScheduleRequest& request, int every) {
  Timetable table = EmptyTimetable(name, request, Placement::Looped(request.ranks));
  for (int rank = 0; rank < request.ranks; ++rank) {
    std::vector<Action> plain;
    AppendOneFOneB(rank, request.micro_batches, request.ranks - rank - 1, plain);
    auto& row = table.rows[rank];
    for (const Action& action : plain) {
      row.push_back(action);
      const int done = action.micro_batch + 1;
      if (action.op != Op::kBackward || (done % every != 0 && done != request.micro_batches))
        continue;
      row.push_back(ComputeAction(Op::kOptimizerStep, rank, action.micro_batch));
    }
  }
  return table;
}

}  // namespace

// PipeDream: 1F1B that never drains. Each stage updates its weights (u) after every backward and
// keeps those that a micro-batch in flight has used until its backward (p = 3, m = 5, B = 2 F):
//
//   rank 0  0 1 2 . . . .[0 ]u 3[1 ]u 4[2 ]u .[3 ]u .[4 ]u
//   rank 1  . 0 1 . .[0 ]u 2[1 ]u 3[2 ]u 4[3 ]u .[4 ]u
//   rank 2  . . 0[0 ]u 1[1 ]u 2[2 ]u 3[3 ]u 4[4 ]u
//
// A table covers a whole run of m micro-batches. Harlap et al., PipeDream, 2018, section 3.3;
// Narayanan et al., SOSP 2019.
absl::StatusOr<Timetable> GeneratePipeDream(const ScheduleRequest& request) {
  if (absl::Status ok = RequireChunks("pipedream", 1, request); !ok.ok()) return ok;
  Timetable table = OneFOneBWithUpdates("pipedream", request, /*every=*/1);
  table.updates = WeightUpdates::kEachMicroBatch;
  return table;
}

// PipeDream-2BW: PipeDream with one update for every k >= p - 1 micro-batches (k = p unless given),
// so that two versions of the weights are enough: micro-batch b uses those that exist after
// max(b / k - 1, 0) updates (p = 3, k = 3, m = 6, B = 2 F; u is an update):
//
//   rank 0  0 1 2 . . . .[0 ]3[1 ]4[2 ]u 5[3 ] .[4 ] .[5 ]u
//   rank 1  . 0 1 . .[0 ]2[1 ]3[2 ]u 4[3 ]5[4 ] .[5 ]u
//   rank 2  . . 0[0 ]1[1 ]2[2 ]u 3[3 ]4[4 ]5[5 ]u
//
// Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, ICML 2021, section 3.1. The
// last update includes what is left.
absl::StatusOr<Timetable> GeneratePipeDream2Bw(const ScheduleRequest& request) {
  if (absl::Status ok = RequireChunks("pipedream-2bw", 1, request); !ok.ok()) return ok;
  const int every = request.update_every == 0 ? request.ranks : request.update_every;
  if (every < request.ranks - 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule pipedream-2bw needs an update for every ", request.ranks - 1,
        " or more micro-batches on ", request.ranks, " ranks, not every ", every,
        ": with fewer a third version of the weights would be in flight; pipedream keeps as many "
        "as it needs"));
  }
  Timetable table = OneFOneBWithUpdates("pipedream-2bw", request, every);
  table.updates = WeightUpdates::kDoubleBuffered;
  table.update_every = every;
  return table;
}

}  // namespace sluice
