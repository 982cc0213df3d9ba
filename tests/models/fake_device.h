#ifndef SLUICE_TESTS_MODELS_FAKE_DEVICE_H_
#define SLUICE_TESTS_MODELS_FAKE_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/device/device.h"
#include "models/device/device_allocator.h"
#include "models/device/instant.h"
#include "models/kernels/kernels.h"

namespace sluice {

// A device made of the machine's memory and a thread a stream, which does its work late, and after
// random pauses: what a program forgets to order goes wrong, and the thread sanitizer sees it.
class FakeDevice : public Device {
 public:
  struct Options {
    uint64_t seed = 1;
    absl::Duration longest_pause = absl::ZeroDuration();  // before a piece of work; most have none
    int64_t memory = int64_t{1} << 40;                    // bytes that it has
    int64_t events = int64_t{1} << 40;                    // that it can make
    DeviceAllocator allocator = {};
    bool zeroes = true;    // memory, when it is allocated
    bool records = false;  // Repeat queues what it has kept, without asking again
  };
  FakeDevice() : FakeDevice(Options()) {}
  explicit FakeDevice(const Options& options);
  ~FakeDevice() override;

  std::string name() const override { return "fake"; }
  bool queues() const override { return true; }
  absl::StatusOr<DeviceMemory> Allocate(int64_t bytes) override;
  absl::StatusOr<DeviceMemory> AllocateShared(int64_t bytes) override;
  int64_t AvailableBytes() const override { return options_.memory - allocated(); }
  absl::StatusOr<Stream> NewStream() override;
  absl::StatusOr<Event> NewEvent() override;
  void Record(Event event, Stream stream) override;
  void Wait(Stream stream, Event event) override;
  bool Passed(Event event) override;
  absl::Duration Elapsed(Event from, Event to) override;
  void Copy(Stream stream, void* to, const void* from, size_t bytes) override;
  absl::Status Synchronize(Stream stream, Instant deadline) override;

  void Repeat(Stream stream, Recording* recording, absl::FunctionRef<void()> queue) override;
  // How often Repeat has not asked.
  int replays() const;

  // Has the stream's thread do `work`.
  static void Queue(Stream stream, std::function<void()> work);
  // From now on every Synchronize fails.
  void Lose(absl::Status status);
  // Bytes that are allocated now, without shared ones.
  int64_t allocated() const;

 private:
  class Worker;
  struct Moment;
  struct Mark;
  using Tape = std::vector<std::function<void()>>;

  DeviceMemory Take(std::byte* data, int64_t bytes, std::function<void()> give_back);
  bool Holds(const void* address) const;
  void Drain();
  static void CheckNotKept(Stream stream);

  const Options options_;
  mutable std::mutex mutex_;  // guards what follows
  int64_t allocated_ = 0;
  std::set<std::pair<const std::byte*, int64_t>> ranges_;
  std::vector<std::unique_ptr<Tape>> tapes_;  // before what plays them
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<Mark>> marks_;
  int replays_ = 0;
  absl::Status lost_;
};

// The CPU's kernels, each done when the FakeDevice's stream gets there: the same bits.
const Kernels& FakeKernels(MasterWeights master_weights = MasterWeights::kWhole);

}  // namespace sluice

#endif  // SLUICE_TESTS_MODELS_FAKE_DEVICE_H_
