#ifndef SLUICE_COMM_NCCL_NCCL_API_H_
#define SLUICE_COMM_NCCL_NCCL_API_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/device/device.h"

// What is used of NCCL, in types of our own, so that all but one file builds and is tested where
// there is neither NCCL nor a GPU.
namespace sluice {

// ncclResult_t, value for value.
enum class NcclResult : uint8_t {
  kSuccess,
  kCudaError,
  kSystemError,
  kInternalError,
  kInvalidArgument,
  kInvalidUsage,
  kRemoteError,
  kInProgress,
};

// ncclUniqueId: where the two ends of a communicator meet.
struct NcclId {
  std::array<char, 128> bytes = {};
};

// ncclComm_t, always of two ranks.
struct NcclComm {
  void* handle = nullptr;
};

struct NcclConfig {
  int max_ctas = 4;  // blocks of a GPU that a message may occupy while it waits and moves
  std::string name;  // for NCCL's own log; must outlive the communicator
};

// Every communicator is non-blocking: a call that takes time returns kInProgress, and until
// AsyncError says otherwise no call may be made on it but AsyncError and Abort. Calls on one
// communicator must not overlap; those on different ones may.
class NcclApi {
 public:
  virtual ~NcclApi() = default;

  // "2.28.9 (/usr/local/cuda/lib64/libnccl.so.2)"
  virtual std::string version() const = 0;
  // What tells a GPU of this machine from others ("0000:1b:00.0"): NCCL takes each but once.
  virtual std::string GpuName(int ordinal) = 0;

  virtual NcclResult NewId(NcclId* id) = 0;
  // `rank`: 0 sends, 1 receives. Sets *comm at once.
  virtual NcclResult Init(int ordinal, const NcclId& id, int rank, const NcclConfig& config,
                          NcclComm* comm) = 0;
  // kInProgress, or how what was begun last has ended, or what has gone wrong since.
  virtual NcclResult AsyncError(NcclComm comm) = 0;
  // Queued on `stream`. Once in progress no more, all that is queued on
  // `stream` from then on is done after the message has left or arrived.
  virtual NcclResult Send(NcclComm comm, const void* data, size_t bytes, Stream stream) = 0;
  virtual NcclResult Receive(NcclComm comm, void* data, size_t bytes, Stream stream) = 0;
  // Memory of the calling thread's GPU that Register serves best (ncclMemAlloc). Not every library
  // has it.
  virtual NcclResult Allocate(size_t bytes, void** memory) = 0;
  virtual void Free(void* memory) = 0;
  // Registers memory, so that messages from it and into it need no copy in between. `*handle` may
  // be written until no call is in progress any more, and stays null where NCCL has no use for the
  // memory.
  virtual NcclResult Register(NcclComm comm, void* data, size_t bytes, void** handle) = 0;
  virtual NcclResult Deregister(NcclComm comm, void* handle) = 0;
  // Succeeds once both ranks have called it; Destroy then needs no other rank.
  virtual NcclResult Finalize(NcclComm comm) = 0;
  virtual void Destroy(NcclComm comm) = 0;
  // Ends whatever is queued, and destroys; also while in progress.
  virtual void Abort(NcclComm comm) = 0;
  // NCCL's own words about the last error; may be empty.
  virtual std::string LastError(NcclComm comm) = 0;
};

// The library, found when this is first called (see models/device/cuda_libraries.h), for the rest
// of the process. NotFound says where it was looked for; FailedPrecondition: it is too old, or the
// build has no CUDA.
absl::StatusOr<NcclApi*> LoadNccl();

// kSuccess is OK. `what` says what was tried; `said` is NcclApi::LastError. Unavailable where a
// peer, a wire or the device is lost.
absl::Status NcclStatus(NcclResult result, absl::string_view what, absl::string_view said);

}  // namespace sluice

#endif  // SLUICE_COMM_NCCL_NCCL_API_H_
