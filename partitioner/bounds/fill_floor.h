#ifndef SLUICE_PARTITIONER_BOUNDS_FILL_FLOOR_H_
#define SLUICE_PARTITIONER_BOUNDS_FILL_FLOOR_H_

#include "partitioner/workload.h"

namespace sluice {

// No plan of `workload`, whose machines limit memory, takes fewer seconds per step, in whatever order: the
// fullest rank waits at both ends of a step, since its memory bounds what it can do meanwhile.
//
// Before the first micro-batch has gone through all forwards (`down` seconds at least) no gradient
// exists: a rank can only do F, and what these keep must fit. After the last micro-batch has, its
// gradient goes through all layers (`up` seconds at least), and a rank can only do the I and W of
// what it holds then. With any prices a, b >= 0 of a byte (in seconds; the dual of what fits), a
// rank of layers S with these policies and of memory M ends at or after
//   down + up - (a + b) M + sum over S of [(a + b) parameters + m (F + I + R + W
//     - max(0, F - a saved) - max(0, I + R + W - b saved, W - b weight_grad_bytes))]
// whose terms are at least 0, R and saved being the policy's. One of the two waits alone counts
// with the other's terms left out; without the second, each layer adds its tail. Prices that suit
// the rank's policies are best, so ranks are told apart by the choice (layer and policy) of theirs
// that does most F per byte; a rank whose best is a given one has paid for its R once at least.
// Some rank has k + 1 of the k * devices + 1 layers that work longest.
double FillFloor(const Workload& workload);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_BOUNDS_FILL_FLOOR_H_
