#ifndef SLUICE_TOOLS_LAUNCH_PICTURE_LAUNCH_HISTORY_H_
#define SLUICE_TOOLS_LAUNCH_PICTURE_LAUNCH_HISTORY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

// What came of a run of `sluice launch`. Times are in seconds since its beginning.
struct LaunchHistory {
  enum class End : uint8_t { kDone, kLeft, kLost };
  // In the order in which they were started.
  struct Process {
    int64_t pid = 0;
    double from = 0, until = 0;
    End end = End::kDone;
    std::string how = {};  // it was lost: "signal 9 (Killed)"
  };
  // Ranks that trained together. A group that ended before it took up the run is left out.
  struct Group {
    double from = 0, until = 0;
    int64_t step = 0;            // steps that had been taken before
    std::vector<int> processes;  // [rank] its place among the processes
    int stages = 0, replicas = 0;
    std::string partition;             // "0-2,3-5": the layers of its stages
    std::string why;                   // the work is not that of the group before; "": it is
    std::optional<double> since_loss;  // seconds from the loss of a rank to its first step
    int ranks() const { return stages * replicas; }  // the others wait, or have given their state
  };
  struct Step {
    double at = 0;
    int64_t step = 0;
    float loss = 0;
  };

  double seconds = 0;
  std::vector<Process> processes;
  std::vector<Group> groups;
  std::vector<Step> steps;  // each once, by number
  std::optional<uint64_t> weights_hash;
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_LAUNCH_PICTURE_LAUNCH_HISTORY_H_
