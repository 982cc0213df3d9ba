#ifndef SLUICE_PIPELINE_COMPILE_PROGRAM_COMPILE_RANK_H_
#define SLUICE_PIPELINE_COMPILE_PROGRAM_COMPILE_RANK_H_

#include "absl/status/statusor.h"
#include "pipeline/compile/plan/program.h"
#include "pipeline/compile/program/program_request.h"
#include "schedules/timetable.h"

namespace sluice {

// The errors of CheckRequest.
absl::StatusOr<RankProgram> CompileRank(const ProgramRequest& request, int rank,
                                        const MessageWindow& window);

// What evaluation runs: the forwards of the first `micro_batches` of a lowered timetable and their
// messages, in the same order.
Timetable ForwardOnly(const Timetable& lowered, int micro_batches);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_PROGRAM_COMPILE_RANK_H_
