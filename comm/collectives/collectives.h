#ifndef SLUICE_COMM_COLLECTIVES_COLLECTIVES_H_
#define SLUICE_COMM_COLLECTIVES_COLLECTIVES_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "comm/communicator.h"

// Collectives over any communicator, made of its point-to-point messages. All ranks of the group
// must call the same ones in the same order, with the same sizes. Each allocates at most a few
// words per rank; larger work memory is the caller's.
//
// A sum is ((r0 + r1) + r2) + ..., by rank in the group and element by element, so its bits depend
// on nothing but the values: not on the wire, on timing or on who owns which slice.
//
// `timeout`: how long each message may take to come; all of them take as long as they need, since
// arrays may be large and a wire slow.
//
// Errors are the communicator's; after one the contents of all arrays are undefined, and the caller
// is expected to Abort.
namespace sluice {

// An array that every rank has in full: rank r's slice of it are the elements from bounds[r] up to
// bounds[r + 1]. A slice may be empty.
struct SlicedBytes {
  void* data = nullptr;
  absl::Span<const int64_t> bounds;
  int64_t element_bytes = 1;
};

// Fills every rank's arrays with the slices of their owners.
absl::Status AllGatherSlices(Communicator& group, absl::Span<const SlicedBytes> arrays,
                             absl::Duration timeout);

// Summands of one array: every rank has all of its own, and rank r owns the sum's elements from
// bounds[r] up to bounds[r + 1].
struct SlicedSum {
  const float* data = nullptr;
  // Where the sum of the own slice goes; without `add` this may be the slice itself within `data`.
  float* sum = nullptr;
  // The sum goes on from what `sum` holds, as if a rank before rank 0 had brought it.
  bool add = false;
  absl::Span<const int64_t> bounds;
};

// y[0..n) = x, or y + x with `add`: how to add where a group's memory is a device's, queued behind
// the messages that have been waited for. Where it is empty, the calling thread adds.
using AddFunction = std::function<void(int64_t n, const float* x, float* y, bool add)>;

// Sums every array over the ranks, each slice on its owner. Elements of `data` outside of the own
// slice stay as they are. `work`: at least one element for every other rank, the same size on all
// ranks; slices go through it piece by piece. ReduceScatterWorkBytes (reduce_scatter_work.h) is best.
absl::Status ReduceScatter(Communicator& group, absl::Span<const SlicedSum> arrays,
                           absl::Span<float> work, absl::Duration timeout,
                           const AddFunction& add = {});

}  // namespace sluice

#endif  // SLUICE_COMM_COLLECTIVES_COLLECTIVES_H_
