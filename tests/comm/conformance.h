#ifndef SLUICE_TESTS_COMM_CONFORMANCE_H_
#define SLUICE_TESTS_COMM_CONFORMANCE_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>

#include "absl/time/time.h"
#include "comm/communicator.h"
#include "models/device/instant.h"

namespace sluice {

// A group of ranks over some transport; each rank is a thread or a process.
class Ranks {
 public:
  virtual ~Ranks() = default;
  // Runs `body` on every rank, or on the rank that this process is.
  virtual void Run(const std::function<void(Communicator&)>& body) = 0;
};

struct Transport {
  const char* name;
  std::unique_ptr<Ranks> (*make)(int ranks, size_t capacity);
  bool checks_sizes = true;  // if false, ranks must have agreed on the sizes before
  // Messages in the longest stream of the suite: what the transport carries in a second or two. Over
  // a wire, more than a counter of 16 bits can count.
  int stream_messages = 1'000'000;
};

inline void PrintTo(const Transport& transport, std::ostream* out) { *out << transport.name; }
inline std::string TransportName(const testing::TestParamInfo<Transport>& transport) {
  return transport.param.name;
}

// The contract of every transport: conformance_*.cc have the tests, for groups of at most five ranks.
// INSTANTIATE_TEST_SUITE_P names the transports.
class Conformance : public testing::TestWithParam<Transport> {
 protected:
  static std::unique_ptr<Ranks> Make(int ranks, size_t capacity = 64) {
    return GetParam().make(ranks, capacity);
  }
  // Machines under load are slow, and sanitizers slower; no test waits so long but where it fails.
  static Instant Soon() { return Instant::Now() + absl::Seconds(60); }
};

}  // namespace sluice

#endif  // SLUICE_TESTS_COMM_CONFORMANCE_H_
