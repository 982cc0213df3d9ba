#ifndef SLUICE_SCHEDULES_GENERATORS_INTERLEAVED_ORDER_H_
#define SLUICE_SCHEDULES_GENERATORS_INTERLEAVED_ORDER_H_

#include <vector>

#include "schedules/generators/catalogue.h"

// The order in which a rank visits its chunks, which all interleaved schedules share.
namespace sluice {

struct ChunkSlot {
  int chunk;
  int micro_batch;
};

// A group of micro-batches goes through chunk 0, the same group through chunk 1, ..., then the next
// group; backwards visit the chunks downwards. Every group takes at least as many slots as there
// are ranks, since a micro-batch returns to a rank only after visiting all of them; where a group
// is smaller, its last slots stay empty: their micro_batch is at least the request's, and they are
// to be left out of the table.
struct InterleavedOrder {
  std::vector<ChunkSlot> forwards;
  std::vector<ChunkSlot> backwards;
  int largest_group = 0;  // in slots
};

// The sizes of the groups: `request.group` micro-batches each, where a remainder smaller than the
// number of ranks joins the last group; by default the largest number of groups of at least `ranks`
// micro-batches, as even as possible.
std::vector<int> InterleavedGroups(const ScheduleRequest& request);
InterleavedOrder VisitInterleaved(const ScheduleRequest& request);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_GENERATORS_INTERLEAVED_ORDER_H_
