#ifndef SLUICE_COMM_LOCAL_IN_PROCESS_H_
#define SLUICE_COMM_LOCAL_IN_PROCESS_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "comm/communicator.h"

namespace sluice {

// The ranks of one process: threads that hand messages to each other through memory. A message is
// copied once, from the sender's arena into the receiver's, by whichever of the two posts last; so
// no thread is needed to make progress, and the memory of a rank is the same as under any other
// transport.
class InProcessGroup {
 public:
  // `capacity`: messages that may be outstanding on one edge. A wait spins for `spin` before it
  // sleeps (worth while when every rank has a core of its own).
  explicit InProcessGroup(int ranks, size_t capacity = 1024,
                          absl::Duration spin = absl::Microseconds(50));
  ~InProcessGroup();
  InProcessGroup(const InProcessGroup&) = delete;
  InProcessGroup& operator=(const InProcessGroup&) = delete;

  Communicator& communicator(int rank);

 private:
  struct Shared;
  std::unique_ptr<Shared> shared_, shared_background_;
  std::vector<std::unique_ptr<Communicator>> background_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

}  // namespace sluice

#endif  // SLUICE_COMM_LOCAL_IN_PROCESS_H_
