#ifndef SLUICE_TESTS_COMM_NCCL_FAKE_NCCL_H_
#define SLUICE_TESTS_COMM_NCCL_FAKE_NCCL_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "comm/nccl/nccl_api.h"

namespace sluice {

// NCCL as a FakeDevice's streams can do it: a message holds up both its streams until it has met
// the other half. Calls are late at random, and what NCCL forbids fails the test. An abort waits
// for the messages of all other communicators on its GPU, as giving memory back does.
class FakeNccl : public NcclApi {
 public:
  struct Options {
    uint64_t seed = 1;
    int late_one_in = 3;  // so many calls are in progress for some polls; 0: none
    bool has_memory = true;
  };
  FakeNccl() : FakeNccl(Options()) {}
  explicit FakeNccl(const Options& options);
  ~FakeNccl() override;

  // What goes wrong on the edge "0>1": its next polls, at both ends, say `result`.
  void Fail(const std::string& edge, NcclResult result);
  // The edge is never connected, at either end.
  void Hang(const std::string& edge);
  // Communicators that have been neither destroyed nor aborted.
  int open() const;
  int aborted() const;
  // Blocks that communicators may occupy, the most that any asked for.
  int max_ctas() const;
  // How often memory was registered, and bytes that are allocated.
  int registered() const;
  size_t allocated() const;

  std::string version() const override { return "fake"; }
  std::string GpuName(int ordinal) override { return "gpu " + std::to_string(ordinal); }
  NcclResult NewId(NcclId* id) override;
  NcclResult Init(int ordinal, const NcclId& id, int rank, const NcclConfig& config,
                  NcclComm* comm) override;
  NcclResult AsyncError(NcclComm comm) override;
  NcclResult Send(NcclComm comm, const void* data, size_t bytes, Stream stream) override;
  NcclResult Receive(NcclComm comm, void* data, size_t bytes, Stream stream) override;
  NcclResult Allocate(size_t bytes, void** memory) override;
  void Free(void* memory) override;
  NcclResult Register(NcclComm comm, void* data, size_t bytes, void** handle) override;
  NcclResult Deregister(NcclComm comm, void* handle) override;
  NcclResult Finalize(NcclComm comm) override;
  void Destroy(NcclComm comm) override;
  void Abort(NcclComm comm) override;
  std::string LastError(NcclComm comm) override;

 private:
  struct Wire;  // what both ends of a communicator share
  struct End;

  NcclResult Begin(End* end, std::function<void()> work);
  NcclResult Queue(NcclComm comm, int rank, void* data, size_t bytes, Stream stream);
  End* Use(NcclComm comm);
  // "0>1", where a message waits on the GPU; empty where none does.
  std::string Waiting(int ordinal) const;

  const Options options_;
  mutable std::mutex mutex_;  // guards what follows, ends too
  std::mt19937_64 random_;
  uint64_t ids_ = 0;
  std::map<uint64_t, std::shared_ptr<Wire>> wires_;
  std::set<std::unique_ptr<End>> ends_;  // until this goes: late polls find them
  std::map<std::string, NcclResult> failures_;
  std::set<std::string> hanging_;
  int open_ = 0;
  int aborted_ = 0;
  int max_ctas_ = 0;
  std::deque<char> handles_;  // one for each registration so far: its address
  std::map<void*, std::vector<std::byte>> memory_;
};

}  // namespace sluice

#endif  // SLUICE_TESTS_COMM_NCCL_FAKE_NCCL_H_
