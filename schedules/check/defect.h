#ifndef SLUICE_SCHEDULES_CHECK_DEFECT_H_
#define SLUICE_SCHEDULES_CHECK_DEFECT_H_

#include <string>

namespace sluice {

// One thing that is wrong with a timetable, and where.
struct Defect {
  int rank = -1;
  int position = -1;  // index into rows[rank]; -1 where an action is absent
  std::string action;
  std::string message;  // whole sentence: what was found, what was expected
};

// "rank 2, position 7, 2B3: <message>".
std::string ToString(const Defect& defect);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_CHECK_DEFECT_H_
