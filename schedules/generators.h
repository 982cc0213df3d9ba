#ifndef SLUICE_SCHEDULES_GENERATORS_H_
#define SLUICE_SCHEDULES_GENERATORS_H_

#include "absl/status/statusor.h"
#include "schedules/catalogue.h"
#include "schedules/timetable.h"

// One generator a file. Each requires positive counts (GenerateSchedule checks them) and returns a
// compute-only table without idle cells; InvalidArgument says what the schedule needs.
namespace sluice {

absl::StatusOr<Timetable> GenerateGPipe(const ScheduleRequest& request);
absl::StatusOr<Timetable> GenerateOneFOneB(const ScheduleRequest& request);
absl::StatusOr<Timetable> GenerateInterleaved(const ScheduleRequest& request);
absl::StatusOr<Timetable> GenerateZbH1(const ScheduleRequest& request);

// For the generators: InvalidArgument unless the request asks for one stage per rank.
absl::Status RequireOneChunk(const char* name, const ScheduleRequest& request);
// An empty table of `request` on `placement`: a row per rank.
Timetable EmptyTimetable(const char* name, const ScheduleRequest& request, Placement placement);
Action ComputeAction(Op op, int stage, int micro_batch);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_GENERATORS_H_
