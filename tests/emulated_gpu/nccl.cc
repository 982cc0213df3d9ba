// NCCL's functions as comm/nccl/nccl_library.cc uses them, as libnccl.so.2: communicators of two
// ranks, whose messages go through a socket of this machine, whatever processes the ranks are in.
// Streams and memory are those of the program that loads it.
#include <nccl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "tests/emulated_gpu/state.h"

namespace sluice::emulation {
namespace {

constexpr std::chrono::milliseconds kRetry{2};

// One end; work that is queued holds on to it.
class End {
 public:
  End(std::string name, int rank) : name_(std::move(name)), rank_(rank) {}
  ~End() {
    const int fd = fd_;
    if (fd >= 0) close(fd);
  }

  ncclResult_t state() const { return state_; }

  // Rank 0 waits for rank 1 in a socket without a file.
  void Meet() {
    const int fd = rank_ == 0 ? Accept() : Connect();
    fd_ = fd;
    state_ = fd < 0 ? ncclSystemError : ncclSuccess;
  }

  void Write(const void* data, size_t bytes) {
    const auto size = static_cast<uint64_t>(bytes);
    if (!WriteAll(&size, sizeof(size)) || !WriteAll(data, bytes)) state_ = ncclRemoteError;
  }
  // Another size than was sent is undefined in NCCL.
  void Read(void* data, size_t bytes) {
    uint64_t size = 0;
    const bool told = ReadAll(&size, sizeof(size));
    if (told && size != bytes) {
      std::fprintf(stderr, "emulated NCCL: %zu bytes are received of %zu\n", bytes, size_t{size});
      std::abort();
    }
    if (!told || !ReadAll(data, bytes)) state_ = ncclRemoteError;
  }

  // Once both do it.
  void Part() {
    char word = 0;
    const bool done = WriteAll(&word, 1) && ReadAll(&word, 1);
    state_ = done ? ncclSuccess : ncclRemoteError;
  }
  void Begin() { state_ = ncclInProgress; }
  void Abort() {
    aborted_ = true;
    const int fd = fd_;
    if (fd >= 0) shutdown(fd, SHUT_RDWR);
  }

 private:
  sockaddr_un Address(socklen_t* bytes) const {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name_.data(), name_.size());  // abstract
    *bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
    return address;
  }

  int Accept() const {
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t bytes = 0;
    const sockaddr_un address = Address(&bytes);
    int fd = -1;
    if (bind(listener, reinterpret_cast<const sockaddr*>(&address), bytes) == 0 &&
        listen(listener, 1) == 0) {
      while (!aborted_ && (fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)) < 0) {
        std::this_thread::sleep_for(kRetry);
      }
    }
    close(listener);
    return fd;
  }

  int Connect() const {
    socklen_t bytes = 0;
    const sockaddr_un address = Address(&bytes);
    while (!aborted_) {
      const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      if (connect(fd, reinterpret_cast<const sockaddr*>(&address), bytes) == 0) return fd;
      close(fd);
      std::this_thread::sleep_for(kRetry);
    }
    return -1;
  }

  bool WriteAll(const void* data, size_t bytes) const {
    const auto* from = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t sent = send(fd_, from, bytes, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      from += sent;
      bytes -= static_cast<size_t>(sent);
    }
    return true;
  }
  bool ReadAll(void* data, size_t bytes) const {
    auto* to = static_cast<char*>(data);
    while (bytes > 0) {
      const ssize_t came = recv(fd_, to, bytes, 0);
      if (came <= 0) return false;
      to += came;
      bytes -= static_cast<size_t>(came);
    }
    return true;
  }

  const std::string name_;
  const int rank_;
  std::atomic<int> fd_ = -1;
  std::atomic<bool> aborted_ = false;
  std::atomic<ncclResult_t> state_ = ncclInProgress;
};

// A ncclComm_t.
struct Handle {
  std::shared_ptr<End> end;
};
std::shared_ptr<End> EndOf(ncclComm_t comm) { return reinterpret_cast<Handle*>(comm)->end; }

}  // namespace
}  // namespace sluice::emulation

using namespace sluice::emulation;  // NOLINT(google-build-using-namespace): NCCL's are C functions

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::random_device random;
  std::snprintf(id->internal, sizeof(id->internal), "sluice-emulated-nccl-%08x%08x%08x", random(),
                random(), random());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (ranks != 2 || config->blocking != 0) return ncclInvalidArgument;
  auto end = std::make_shared<End>(id.internal, rank);
  *comm = reinterpret_cast<ncclComm_t>(new Handle{end});
  std::thread([end] { end->Meet(); }).detach();
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  *error = EndOf(comm)->state();
  return ncclSuccess;
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t, int, ncclComm_t comm,
                      cudaStream_t stream) {
  Enqueue(StateOf(stream), [end = EndOf(comm), data, count] { end->Write(data, count); });
  return ncclSuccess;
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t, int, ncclComm_t comm,
                      cudaStream_t stream) {
  Enqueue(StateOf(stream), [end = EndOf(comm), data, count] { end->Read(data, count); });
  return ncclSuccess;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void*, size_t, void** handle) {
  *handle = comm;
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void* handle) {
  return handle == comm ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const auto end = EndOf(comm);
  end->Begin();
  std::thread([end] { end->Part(); }).detach();
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete reinterpret_cast<Handle*>(comm);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  EndOf(comm)->Abort();
  return ncclCommDestroy(comm);
}

const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void* memory) {
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
