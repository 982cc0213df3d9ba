#ifndef SLUICE_TESTS_SCHEDULES_RENDEZVOUS_H_
#define SLUICE_TESTS_SCHEDULES_RENDEZVOUS_H_

#include <cstdint>
#include <string>

#include "random_timetable.h"

namespace sluice {

// Executes a lowered table like a machine with blocking rendezvous: every rank runs its row in
// order; a send waits until the other rank has reached the next receive of that channel, whatever
// that receive expects, and delivers its data. Which rank moves next is random, or always the one
// that has come furthest (`greedy`). Returns an empty string when every rank reaches its end, every
// message is the one that its receiver expects, and all data exist when they are used; otherwise
// what went wrong.
std::string RunWithRendezvous(const Timetable& lowered, Random& random, bool greedy);

// The same, in every order in which ranks can move: `states` is how many ways there are to have come so
// far, in all. Grows with the product of the rows' lengths.
struct EveryWay {
  std::string wrong;  // as above, of the first order that goes wrong
  int64_t states = 0;
};
EveryWay RunEveryWay(const Timetable& lowered);

}  // namespace sluice

#endif  // SLUICE_TESTS_SCHEDULES_RENDEZVOUS_H_
