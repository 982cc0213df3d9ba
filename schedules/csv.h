#ifndef SLUICE_SCHEDULES_CSV_H_
#define SLUICE_SCHEDULES_CSV_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "schedules/timetable.h"

namespace sluice {

// Reads PyTorch's pipeline CSV: one row per rank, one cell per action ("2F0", "", "1SEND_F3",
// "(0F7;7B3)OVERLAP_F_B"). The placement and the number of micro-batches are found from the
// actions, and so are the changes of weights where OPTIMIZER_STEPs name micro-batches
// ("0OPTIMIZER_STEP3"). UNSHARD, RESHARD and the WAITs of PyTorch's runtime are kept, and nothing
// is done there. A byte order mark and quotes around cells, which spreadsheets write, say nothing.
// `name` stands for the file in errors, which give line and column, counted from 1, and the
// cell. A table that parses may still be unsound: see ValidateTimetable.
absl::StatusOr<Timetable> ParseTimetableCsv(absl::string_view text, absl::string_view name);

// How the lines of a file end. Python's csv module, and so PyTorch, writes CR LF.
enum class LineEnd { kLf, kCrLf };
LineEnd LineEndOf(absl::string_view text);

// Writes the same format. A table that was read from one of PyTorch's files and is written with the
// line ends of that file gives the same file, byte for byte.
std::string FormatTimetableCsv(const Timetable& timetable, LineEnd line_end = LineEnd::kLf);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_CSV_H_
