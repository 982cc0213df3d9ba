#ifndef SLUICE_SCHEDULES_OPTIMISE_PROBLEM_SCHEDULE_H_
#define SLUICE_SCHEDULES_OPTIMISE_PROBLEM_SCHEDULE_H_

#include <limits>

#include "schedules/optimise/problem/problem.h"

namespace sluice::optimise {

// A time that never comes; the value where no order was found.
constexpr double kNever = std::numeric_limits<double>::infinity();

// An order, and how good it is.
struct Schedule {
  Order order;
  double value = kNever;  // max over ranks of end - grace
};

}  // namespace sluice::optimise

#endif  // SLUICE_SCHEDULES_OPTIMISE_PROBLEM_SCHEDULE_H_
