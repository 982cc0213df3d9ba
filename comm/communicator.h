#ifndef SLUICE_COMM_COMMUNICATOR_H_
#define SLUICE_COMM_COMMUNICATOR_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "models/device/instant.h"

namespace sluice {

// Number of a message on one directed edge, from 0, in the order in which it was posted.
using Ticket = uint64_t;

class Progress;

// One rank's end of a group of ranks. Every ordered pair of ranks is one FIFO edge: the k-th
// message posted by the sender meets the k-th receive posted by the receiver, and their sizes must
// agree. Memory stays the caller's until the ticket has been waited for without an error; after
// one, until Abort has returned. Used by one thread (the rank's), except Abort, which any thread
// may call. `background` is for a second thread.
//
// A rank that gets an error is expected to Abort with it (saying what it was doing), so that all
// the others stop too.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Neither blocks. Up to the capacity the group was made with may be outstanding on an edge; one
  // more is ResourceExhausted.
  virtual absl::Status PostSend(int to, const void* data, size_t bytes, Ticket* ticket) = 0;
  virtual absl::Status PostReceive(int from, void* data, size_t bytes, Ticket* ticket) = 0;

  // Blocks until the message has left (WaitSend) or arrived (WaitReceive). DeadlineExceeded names
  // both ranks and the message.
  virtual absl::Status WaitSend(int to, Ticket ticket, Instant deadline) = 0;
  virtual absl::Status WaitReceive(int from, Ticket ticket, Instant deadline) = 0;

  // Every rank contributes mine.size() values (the same number on each); all[r * mine.size() ..]
  // are rank r's.
  virtual absl::Status AllGather(absl::Span<const double> mine, absl::Span<double> all,
                                 Instant deadline) = 0;
  // Returns once every rank has called it.
  virtual absl::Status Barrier(Instant deadline) = 0;

  // Another communicator of the same ranks, with edges of its own, for another thread of this rank to
  // use at the same time; null where the transport has none. What ends one of the two, a loss or an
  // Abort, ends both.
  virtual Communicator* background() { return nullptr; }

  // Where the thread that uses this notes its progress (progress.h); null where nobody watches it.
  virtual Progress* progress() { return nullptr; }

  // Makes every pending and later call on every rank return `status` (not OK). The first one wins.
  virtual void Abort(const absl::Status& status) = 0;
  // What every call returns since an Abort or a loss, on any rank, as far as this one knows; else
  // OK. Any thread may ask.
  virtual absl::Status failure() const = 0;
  // After a failure(): whether rank `peer` has said that it knows of it, and so lives to report it.
  // Waits for its word until `deadline`. False for a rank that is lost, silent, or has left before;
  // true where the transport cannot tell.
  virtual bool KnowsOfFailure(int peer, Instant deadline) const {
    static_cast<void>(peer), static_cast<void>(deadline);
    return true;
  }
};

}  // namespace sluice

#endif  // SLUICE_COMM_COMMUNICATOR_H_
