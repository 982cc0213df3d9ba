#ifndef SLUICE_PYTHON_BINDINGS_TIMETABLE_STATE_H_
#define SLUICE_PYTHON_BINDINGS_TIMETABLE_STATE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "python/bindings/ask.h"

// A timetable as a text that other processes make the same one of (pickle): its rows, its costs and
// what was found for them, since a CSV says neither costs, nor bounds, nor which ranks share a
// stage.
namespace sluice::python {

// Of a timetable without a measured run.
std::string TimetableState(const AskedTimetable& asked);

// The reverse. InvalidArgument where `state` is not from TimetableState of this version; what is in
// it is not checked further, as for all that is pickled.
absl::StatusOr<AskedTimetable> TimetableOfState(absl::string_view state);

}  // namespace sluice::python

#endif  // SLUICE_PYTHON_BINDINGS_TIMETABLE_STATE_H_
