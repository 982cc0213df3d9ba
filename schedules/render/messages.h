#ifndef SLUICE_SCHEDULES_RENDER_MESSAGES_H_
#define SLUICE_SCHEDULES_RENDER_MESSAGES_H_

#include <cstddef>
#include <vector>

#include "schedules/simulate/simulation.h"
#include "schedules/timetable.h"

namespace sluice {

// A result that an action of another rank uses. The actions are those of the simulation.
struct DrawnMessage {
  size_t from_rank;
  const TimedAction* from;
  size_t to_rank;
  const TimedAction* to;
};

// All of them, by the rank and the time at which they are used. Linear in the number of actions.
std::vector<DrawnMessage> MessagesOf(const Simulation& run, const Timetable& timetable);

// A time in which a rank does nothing, since what it needs has been computed, but has not arrived.
struct MessageWait {
  double start, end;
  const TimedAction* from;
};

// [rank]: in order of time. Two that are for the halves of an overlapped pair may overlap.
std::vector<std::vector<MessageWait>> MessageWaitsOf(const Simulation& run,
                                                     const Timetable& timetable);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_RENDER_MESSAGES_H_
