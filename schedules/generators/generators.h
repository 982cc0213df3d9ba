#ifndef SLUICE_SCHEDULES_GENERATORS_GENERATORS_H_
#define SLUICE_SCHEDULES_GENERATORS_GENERATORS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "schedules/generators/catalogue.h"
#include "schedules/timetable.h"

// One generator per file. Each requires positive counts (GenerateSchedule checks them) and returns a
// compute-only table without idle cells; InvalidArgument says what the schedule needs.
namespace sluice {

absl::StatusOr<Timetable> GenerateGPipe(const ScheduleRequest& request);
absl::StatusOr<Timetable> GenerateOneFOneB(const ScheduleRequest& request);
absl::StatusOr<Timetable> GenerateEagerOneFOneB(const ScheduleRequest& request);
absl::StatusOr<Timetable> GenerateInterleaved(const ScheduleRequest& request);
absl::StatusOr<Timetable> GenerateInterleavedZb(const ScheduleRequest& request);
absl::StatusOr<Timetable> GenerateBreadthFirst(const ScheduleRequest& request);
absl::StatusOr<Timetable> GenerateZbH1(const ScheduleRequest& request);
absl::StatusOr<Timetable> GenerateZbH2(const ScheduleRequest& request);
absl::StatusOr<Timetable> GenerateZb2p(const ScheduleRequest& request);
absl::StatusOr<Timetable> GenerateZbV(const ScheduleRequest& request);
absl::StatusOr<Timetable> GenerateVHalf(const ScheduleRequest& request);
absl::StatusOr<Timetable> GenerateVMin(const ScheduleRequest& request);
absl::StatusOr<Timetable> GenerateDualPipeV(const ScheduleRequest& request);
absl::StatusOr<Timetable> GenerateChimera(const ScheduleRequest& request);
absl::StatusOr<Timetable> GenerateHanayo(const ScheduleRequest& request);
absl::StatusOr<Timetable> GeneratePipeDream(const ScheduleRequest& request);
absl::StatusOr<Timetable> GeneratePipeDream2Bw(const ScheduleRequest& request);

// For the generators: InvalidArgument unless the request asks for `chunks` stages per rank.
absl::Status RequireChunks(const char* name, int chunks, const ScheduleRequest& request);
// A table for `request` on `placement` with one empty row per rank.
Timetable EmptyTimetable(const char* name, const ScheduleRequest& request, Placement placement);
Action ComputeAction(Op op, int stage, int micro_batch);
// Appends m micro-batches of `stage` to `row`: `warm_up` forwards, then forwards and backwards
// alternately, then the remaining backwards.
void AppendOneFOneB(int stage, int micro_batches, int warm_up, std::vector<Action>& row);
// The same with the backward split: each I is followed by the W of the micro-batch `lag` before it;
// the remaining W come last.
void AppendOneFOneBOneW(int stage, int micro_batches, int warm_up, int lag,
                        std::vector<Action>& row);
// Leaves out the micro-batches of a row from number `micro_batches` on. Where all rows of a sound
// table do so it stays sound: leaving whole micro-batches out only removes constraints.
void KeepMicroBatches(int micro_batches, std::vector<Action>& row);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_GENERATORS_GENERATORS_H_
