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

// A fake NCCL on a FakeDevice's streams: a message blocks the streams of both ranks until both
// halves have come. Calls are late at random, and uses that NCCL forbids fail the test. An abort
// waits for the messages of all other communicators on its GPU, as freeing memory does.
class FakeNccl : public NcclApi {
 public:
  struct Options {
    uint64_t seed = 1;
    int late_one_in = 3;  // one in this many calls needs several polls to end; 0: none
    bool has_memory = true;
  };
  FakeNccl() : FakeNccl(Options()) {}
  explicit FakeNccl(const Options& options);
  ~FakeNccl() override;

  // Makes the next polls on the edge "0>1", at both ends, return `result`.
  void Fail(const std::string& edge, NcclResult result);
  // After so many messages none arrives any more: each waits until it is aborted, and its edge has
  // failed.
  void LoseAfter(int64_t messages);
  // Messages so far.
  int64_t sent() const;
  // The edge never connects, at either end.
  void Hang(const std::string& edge);
  // Communicators that have been neither destroyed nor aborted.
  int open() const;
  int aborted() const;
  // The blocks of the GPU that communicators may occupy: the largest number that was asked for.
  int max_ctas() const;
  // The number of registrations so far; bytes that are allocated now.
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
  struct Wire;  // shared by the two ends of a communicator
  struct End;

  NcclResult Begin(End* end, std::function<void()> work);
  NcclResult Queue(NcclComm comm, int rank, void* data, size_t bytes, Stream stream);
  End* Use(NcclComm comm);
  // "0>1", the edge on which a message waits on the GPU; empty where none does.
  std::string Waiting(int ordinal) const;

  const Options options_;
  mutable std::mutex mutex_;  // guards the members below, and the ends
  std::mt19937_64 random_;
  uint64_t ids_ = 0;
  std::map<uint64_t, std::shared_ptr<Wire>> wires_;
  // Ends are kept until this object is destroyed, since late polls use them.
  std::set<std::unique_ptr<End>> ends_;
  std::map<std::string, NcclResult> failures_;
  std::set<std::string> hanging_;
  int64_t sent_ = 0;
  int64_t arriving_ = INT64_MAX;  // messages
  int open_ = 0;
  int aborted_ = 0;
  int max_ctas_ = 0;
  std::deque<char> handles_;  // one per registration so far: its address is the handle
  std::map<void*, std::vector<std::byte>> memory_;
};

}  // namespace sluice

#endif  // SLUICE_TESTS_COMM_NCCL_FAKE_NCCL_H_
