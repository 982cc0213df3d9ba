#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "schedules/generators.h"
#include "schedules/validate.h"

namespace sluice {
namespace {

struct Slot {
  int chunk;
  int micro_batch;
};

// The order in which a rank visits (chunk, micro-batch) forwards: a group of micro-batches through
// chunk 0, the same group through chunk 1, ..., then the next group. The last group may be smaller.
// Backwards visit chunks downwards.
std::vector<Slot> VisitOrder(const ScheduleRequest& request, int group, bool backward) {
  std::vector<Slot> order;
  for (int first = 0; first < request.micro_batches; first += group) {
    const int end = std::min(request.micro_batches, first + group);
    for (int c = 0; c < request.chunks; ++c) {
      const int chunk = backward ? request.chunks - 1 - c : c;
      for (int b = first; b < end; ++b) order.push_back({chunk, b});
    }
  }
  return order;
}

// Megatron-LM asks for a group of at least p micro-batches, and the same of what is left over for
// the last group: then the table never deadlocks (the tests try all small ones). Smaller groups are
// taken where they happen to work.
absl::Status CheckInterleaving(const Timetable& table, const ScheduleRequest& request, int group) {
  const int rest = request.micro_batches % group;
  if (group >= request.ranks && (rest == 0 || rest >= request.ranks)) return absl::OkStatus();
  if (FindDefects(table, /*limit=*/1).empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "interleaved deadlocks with ", request.ranks, " ranks, ", request.chunks, " chunks and ",
      request.micro_batches, " micro-batches in groups of ", group,
      rest == 0 ? "" : absl::StrCat(" (the last of ", rest, ")"), "; give a group of at least ",
      request.ranks, " and micro-batches that leave 0 or at least ", request.ranks,
      " for the last group"));
}

}  // namespace

// Interleaved 1F1B: rank r holds stages r, r + p, r + 2p, ...; a group of g micro-batches goes
// through a chunk before the next chunk starts, and 1F1B runs over that order (p = 2, m = 4, v = 2,
// g = 2; capitals are the second chunk):
//
//   rank 0 (stages 0, 2)  f0 f1 F0 F1 f2 B0 f3 B1 F2 b0 F3 b1 B2 B3 b2 b3
//   rank 1 (stages 1, 3)  f0 f1 F0 B0 F1 B1 f2 b0 f3 b1 F2 B2 F3 B3 b2 b3
//
// Narayanan et al., SC 2021, section 2.2 and fig. 4 bottom; the group is Megatron-LM's
// microbatch_group_size_per_vp_stage, the warm-up count is the one of its
// forward_backward_pipelining_with_interleaving.
absl::StatusOr<Timetable> GenerateInterleaved(const ScheduleRequest& request) {
  const int ranks = request.ranks;
  const int group = request.group == 0 ? ranks : request.group;
  const std::vector<Slot> forwards = VisitOrder(request, group, /*backward=*/false);
  const std::vector<Slot> backwards = VisitOrder(request, group, /*backward=*/true);
  const int total = static_cast<int>(forwards.size());
  Timetable table =
      EmptyTimetable("interleaved", request, Placement::Looped(ranks, request.chunks));
  for (int rank = 0; rank < ranks; ++rank) {
    auto& row = table.rows[rank];
    const auto append = [&](Op op, const Slot& slot) {
      row.push_back(ComputeAction(op, slot.chunk * ranks + rank, slot.micro_batch));
    };
    const int warm_up = std::min(total, 2 * (ranks - rank - 1) + (request.chunks - 1) * group);
    for (int i = 0; i < warm_up; ++i) append(Op::kForward, forwards[i]);
    for (int i = 0; i < total; ++i) {
      if (i + warm_up < total) append(Op::kForward, forwards[i + warm_up]);
      append(Op::kBackward, backwards[i]);
    }
  }
  if (absl::Status ok = CheckInterleaving(table, request, group); !ok.ok()) return ok;
  return table;
}

}  // namespace sluice
