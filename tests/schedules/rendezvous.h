#ifndef SLUICE_TESTS_SCHEDULES_RENDEZVOUS_H_
#define SLUICE_TESTS_SCHEDULES_RENDEZVOUS_H_

#include <string>

#include "random_timetable.h"

namespace sluice {

// Executes a lowered table as a machine with blocking rendezvous would: every rank runs its row in
// order; a send waits until the other rank has reached the next receive of that channel, whatever
// it is, and hands over what it names. Which rank moves next is drawn from `random`, or it is
// always the one that has come furthest (`greedy`). Empty when every rank reaches its end, every
// message is what its receiver takes it for, and data are there when used; else what went wrong.
std::string RunWithRendezvous(const Timetable& lowered, Random& random, bool greedy);

}  // namespace sluice

#endif  // SLUICE_TESTS_SCHEDULES_RENDEZVOUS_H_
