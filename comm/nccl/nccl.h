#ifndef SLUICE_COMM_NCCL_NCCL_H_
#define SLUICE_COMM_NCCL_NCCL_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "comm/communicator.h"
#include "comm/nccl/nccl_api.h"
#include "models/device/device.h"

namespace sluice {

struct NcclOptions {
  NcclApi* nccl = nullptr;  // from LoadNccl
  int ordinal = 0;          // of the rank's GPU, as CUDA counts in this process
  // (from, to): the edges that the program uses; the same list on all ranks, in any order.
  std::vector<std::pair<int, int>> edges = {};
  size_t capacity = 1024;                      // messages that may be outstanding on an edge
  absl::Duration timeout = absl::Seconds(30);  // to connect and to close
  int max_ctas = 4;                            // as in NcclConfig
  std::string host = {};                       // whose ranks share GPUs; empty: ThisHost()
};

// What NCCL takes for a machine: NCCL_HOSTID, or the machine's name and boot.
std::string ThisHost();

// Sets what must be in the environment before CUDA is first used by a process whose ranks are
// joined by NCCL; see comm/README.md. Call before other threads run.
void PrepareEnvironmentForNccl();

// A rank whose messages are of its device's memory, over NCCL.
class NcclCommunicator : public Communicator {
 public:
  // Has NCCL move messages of this memory (the whole arena) without a copy in between; pays where
  // it came from ncclMemAlloc (nccl_memory.h).
  virtual absl::Status Register(void* data, size_t bytes) = 0;
};

// Joins all ranks of `host`; every rank calls it at once, each with a GPU of its own. All edges
// are connected, and have carried a message, when it returns. Messages are ordered on `compute`, as
// with DeviceGroup: a wait returns at once, and what is queued on `compute` from then on is done
// after the message. The deadline of a wait limits how long the compute stream may wait
// there. A message that is late, a rank that is lost and an Abort end all that is queued, on all
// ranks, and every later call fails; so after a pass of queued work, Synchronize and then ask
// failure(). All-gathers and barriers go over `host`.
//
// FailedPrecondition: two ranks on one GPU. DeadlineExceeded and Unavailable name the edge. After
// an error `host` is aborted.
absl::StatusOr<std::unique_ptr<NcclCommunicator>> ConnectNccl(const NcclOptions& options,
                                                              Communicator* host, Device* device,
                                                              Stream compute);

}  // namespace sluice

#endif  // SLUICE_COMM_NCCL_NCCL_H_
