#include "schedules/round_robin.h"

namespace sluice {

bool IsRoundRobin(const Placement& placement) {
  bool dealt = placement.copies() == 1 && placement.stages() % placement.ranks() == 0;
  for (int stage = 0; stage < placement.stages(); ++stage) {
    dealt = dealt && placement.rank(stage) == stage % placement.ranks();
  }
  return dealt;
}

}  // namespace sluice
