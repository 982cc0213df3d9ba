#ifndef SLUICE_TOOLS_SELF_TEST_SELF_TEST_H_
#define SLUICE_TOOLS_SELF_TEST_SELF_TEST_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice {

// One way to train the same small model on the same data.
struct TrainingWay {
  std::string name;                    // "2 stages, 1f1b"
  std::string kind;                    // "processor" or "GPU": ways of one kind give the same bits
  std::vector<std::string> arguments;  // of sluice, but for what all ways have
};

// How a way ended.
struct WayResult {
  TrainingWay way;
  std::vector<std::string> losses;  // the bits of each step's, "0x40b16bff"
  double last_loss = 0;
  std::string weights_hash;
  double seconds = 0;     // of the whole process
  std::string reference;  // the name of the way that it was compared with; empty: it was the first
  // "" where the bits are the same; otherwise what differs first, in words.
  std::string difference;
};

// The ways that this machine has: GPUs only where there are some.
std::vector<TrainingWay> WaysOfThisMachine();

// Trains in each way with `program`, a file of sluice, and calls `done` after each. An error of a way has its exit code, and names it.
absl::StatusOr<std::vector<WayResult>> TrainInWays(
    const std::string& program, const std::vector<TrainingWay>& ways,
    const std::function<void(const WayResult&)>& done);

// What differs first between the two, in words; "" where nothing does.
std::string FirstDifference(const WayResult& first, const WayResult& other);

}  // namespace sluice

#endif  // SLUICE_TOOLS_SELF_TEST_SELF_TEST_H_
