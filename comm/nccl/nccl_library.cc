// The only file that knows NCCL. Its header gives types and numbers; the library is found at run
// time.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "comm/nccl/nccl_api.h"
#include "models/device/cuda_libraries.h"

namespace sluice {
namespace {

static_assert(NCCL_UNIQUE_ID_BYTES == sizeof(NcclId::bytes));
static_assert(static_cast<int>(NcclResult::kInProgress) == ncclInProgress);
static_assert(static_cast<int>(NcclResult::kRemoteError) == ncclRemoteError);
static_assert(sizeof(ncclUniqueId) == sizeof(NcclId));

// Non-blocking communicators that can be aborted while they are made, and registered buffers.
constexpr int kLeastVersion = NCCL_VERSION(2, 19, 0);

NcclResult Result(ncclResult_t result) { return static_cast<NcclResult>(result); }
ncclComm_t CommOf(NcclComm comm) { return static_cast<ncclComm_t>(comm.handle); }
cudaStream_t StreamOf(Stream stream) { return static_cast<cudaStream_t>(stream.handle); }

// decltype of the header's declarations, so that a wrong argument is an error.
struct Functions {
  decltype(ncclGetVersion)* get_version = nullptr;
  decltype(ncclGetUniqueId)* get_unique_id = nullptr;
  decltype(ncclCommInitRankConfig)* init = nullptr;
  decltype(ncclCommGetAsyncError)* async_error = nullptr;
  decltype(ncclSend)* send = nullptr;
  decltype(ncclRecv)* receive = nullptr;
  decltype(ncclCommRegister)* register_buffer = nullptr;
  decltype(ncclCommDeregister)* deregister_buffer = nullptr;
  decltype(ncclCommFinalize)* finalize = nullptr;
  decltype(ncclCommDestroy)* destroy = nullptr;
  decltype(ncclCommAbort)* abort = nullptr;
  decltype(ncclGetLastError)* last_error = nullptr;
  decltype(ncclMemAlloc)* allocate = nullptr;  // these two may be missing
  decltype(ncclMemFree)* free = nullptr;

  absl::Status Find(const CudaLibrary& library) {
    absl::Status status = library.Find("ncclGetVersion", &get_version);
    const auto find = [&](const char* symbol, auto** function) {
      if (status.ok()) status = library.Find(symbol, function);
    };
    find("ncclGetUniqueId", &get_unique_id);
    find("ncclCommInitRankConfig", &init);
    find("ncclCommGetAsyncError", &async_error);
    find("ncclSend", &send);
    find("ncclRecv", &receive);
    find("ncclCommRegister", &register_buffer);
    find("ncclCommDeregister", &deregister_buffer);
    find("ncclCommFinalize", &finalize);
    find("ncclCommDestroy", &destroy);
    find("ncclCommAbort", &abort);
    find("ncclGetLastError", &last_error);
    const bool has_memory =
        library.Find("ncclMemAlloc", &allocate).ok() && library.Find("ncclMemFree", &free).ok();
    if (!has_memory) allocate = nullptr;
    return status;
  }
};

class NcclLibrary : public NcclApi {
 public:
  NcclLibrary(const Functions& functions, std::string version)
      : nccl_(functions), version_(std::move(version)) {}

  std::string version() const override { return version_; }

  std::string GpuName(int ordinal) override {
    std::array<char, 64> id = {};
    if (cudaDeviceGetPCIBusId(id.data(), id.size(), ordinal) != cudaSuccess) {
      cudaGetLastError();
      return absl::StrCat("number ", ordinal);
    }
    return id.data();
  }

  NcclResult NewId(NcclId* id) override {
    ncclUniqueId unique;
    const ncclResult_t result = nccl_.get_unique_id(&unique);
    std::memcpy(id->bytes.data(), unique.internal, sizeof(unique.internal));
    return Result(result);
  }

  NcclResult Init(int ordinal, const NcclId& id, int rank, const NcclConfig& config,
                  NcclComm* comm) override {
    // NCCL takes the calling thread's device for the communicator's.
    if (cudaSetDevice(ordinal) != cudaSuccess) {
      cudaGetLastError();
      return NcclResult::kCudaError;
    }
    ncclUniqueId unique;
    std::memcpy(unique.internal, id.bytes.data(), sizeof(unique.internal));
    ncclConfig_t options = NCCL_CONFIG_INITIALIZER;
    options.blocking = 0;
    options.minCTAs = 1;
    options.maxCTAs = config.max_ctas;
    options.commName = config.name.c_str();
    ncclComm_t made = nullptr;
    const ncclResult_t result = nccl_.init(&made, 2, unique, rank, &options);
    comm->handle = made;
    return Result(result);
  }

  NcclResult AsyncError(NcclComm comm) override {
    ncclResult_t error = ncclSuccess;
    const ncclResult_t result = nccl_.async_error(CommOf(comm), &error);
    return Result(result == ncclSuccess ? error : result);
  }
  NcclResult Send(NcclComm comm, const void* data, size_t bytes, Stream stream) override {
    return Result(nccl_.send(data, bytes, ncclUint8, 1, CommOf(comm), StreamOf(stream)));
  }
  NcclResult Receive(NcclComm comm, void* data, size_t bytes, Stream stream) override {
    return Result(nccl_.receive(data, bytes, ncclUint8, 0, CommOf(comm), StreamOf(stream)));
  }
  NcclResult Allocate(size_t bytes, void** memory) override {
    if (nccl_.allocate == nullptr) return NcclResult::kInvalidUsage;
    const ncclResult_t result = nccl_.allocate(memory, bytes);
    if (result != ncclSuccess) cudaGetLastError();  // whoever asks takes other memory
    return Result(result);
  }
  void Free(void* memory) override { nccl_.free(memory); }
  NcclResult Register(NcclComm comm, void* data, size_t bytes, void** handle) override {
    return Result(nccl_.register_buffer(CommOf(comm), data, bytes, handle));
  }
  NcclResult Deregister(NcclComm comm, void* handle) override {
    return Result(nccl_.deregister_buffer(CommOf(comm), handle));
  }
  NcclResult Finalize(NcclComm comm) override { return Result(nccl_.finalize(CommOf(comm))); }
  void Destroy(NcclComm comm) override { nccl_.destroy(CommOf(comm)); }
  void Abort(NcclComm comm) override { nccl_.abort(CommOf(comm)); }
  std::string LastError(NcclComm comm) override {
    const char* words = nccl_.last_error(CommOf(comm));
    return words == nullptr ? "" : words;
  }

 private:
  const Functions nccl_;
  const std::string version_;
};

absl::StatusOr<NcclApi*> Load() {
  const absl::StatusOr<CudaLibrary> library = CudaLibrary::Open("NCCL", {"libnccl.so.2"});
  if (!library.ok()) return library.status();
  Functions functions;
  if (absl::Status status = functions.Find(*library); !status.ok()) return status;
  int version = 0;
  functions.get_version(&version);
  if (version < kLeastVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("NCCL ", LibraryVersionName(version), " (", library->path(), ") is too old; ",
                     LibraryVersionName(kLeastVersion), " is the least that is served"));
  }
  // For the rest of the process, as the library itself.
  return new NcclLibrary(functions,
                         absl::StrCat(LibraryVersionName(version), " (", library->path(), ")"));
}

}  // namespace

absl::StatusOr<NcclApi*> LoadNccl() {
  static const absl::StatusOr<NcclApi*> loaded = Load();
  return loaded;
}

}  // namespace sluice
