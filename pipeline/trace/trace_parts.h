#ifndef SLUICE_PIPELINE_TRACE_TRACE_PARTS_H_
#define SLUICE_PIPELINE_TRACE_TRACE_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pipeline/trace/trace_event.h"
#include "pipeline/trace/trace_group.h"

namespace sluice {

// A trace of more events per rank is no use to a viewer; the first steps are kept.
inline constexpr size_t kMostTraceEvents = 1'000'000;

// The trace of a run whose processes come and go, as it grows: a folder of one file for each rank of
// each group, to which the rank adds what it has done step by step, so that it is there when the rank
// is not, and in nobody's memory. All processes are of one program and one machine, so an event is its
// bytes, and all clocks are one.
class TraceParts {
 public:
  // This process's part in it. In all groups together it keeps at most `most_events`.
  explicit TraceParts(std::string folder, size_t most_events = kMostTraceEvents);
  ~TraceParts();
  TraceParts(const TraceParts&) = delete;
  TraceParts& operator=(const TraceParts&) = delete;

  // What is appended from now on is of this rank in that group, from 1.
  void Begin(int64_t group, int rank);
  // Opens the file with the first events. What cannot be written is left out, and so is what comes
  // after it: status() then says why.
  void Append(absl::Span<const TraceEvent> events);
  // How many events may still be appended; one more may say that others were left out.
  size_t room() const { return most_events_ - kept_; }
  const absl::Status& status() const { return status_; }

  // Of rank 0 of a group: what the group is (TraceGroup, whose events are not written).
  absl::Status Describe(const TraceGroup& group) const;
  // All groups that were described, in order, with what their ranks have appended: of each rank of
  // the world at most as many events as a process keeps, the first ones. DataLoss where a file
  // cannot be read.
  absl::StatusOr<std::vector<TraceGroup>> Read() const;
  // Removes the folder, of all processes, if it is there.
  void Remove() const;

 private:
  std::string FileOf(int64_t group, int rank) const;
  std::string GroupFileOf(int64_t group) const;

  const std::string folder_;
  const size_t most_events_;
  size_t kept_ = 0;
  std::string file_;  // of the present group
  int fd_ = -1;
  absl::Status status_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_TRACE_TRACE_PARTS_H_
