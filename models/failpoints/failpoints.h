#ifndef SLUICE_MODELS_FAILPOINTS_FAILPOINTS_H_
#define SLUICE_MODELS_FAILPOINTS_FAILPOINTS_H_

#include <cerrno>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// Places of the program that tests can make go wrong, each by its group and name ("disk.write",
// "message.send"). They exist in builds with SLUICE_FAILPOINTS, which those that people run have
// not: there HitFailpoint is a constant, and nothing of this is left.
namespace sluice {

enum class FaultKind {
  kFail,    // nothing is done, and the place reports an error
  kTear,    // as kFail, but a write does the first half of its work
  kDelay,   // the work is done, but late
  kVanish,  // as kTear, and every later one of its group fails too: a disk that is gone
  kKill,    // as kTear, and the process ends at once, as by `kill -9`
};

// "fail", "tear", "delay", "vanish", "kill".
absl::string_view FaultKindName(FaultKind kind);

// One thing that goes wrong.
struct Fault {
  std::string point = {};  // "GROUP.NAME"; empty: any
  int64_t hit = 1;         // from 1: at which time that the program comes by it
  FaultKind kind = FaultKind::kFail;
  int error = EIO;  // of those that report one
  absl::Duration delay = absl::Milliseconds(50);
};

// What a failpoint is to do.
struct FaultAnswer {
  int error = 0;      // an errno; 0: its work
  bool torn = false;  // with an error: after half of its work
  bool kill = false;  // then end the process, by DieOfFault
};

// Reads "POINT:HIT:KIND", as "disk.write:7:tear"; "*" is any point. InvalidArgument says what is
// wrong.
absl::StatusOr<Fault> ParseFault(absl::string_view text);

#ifdef SLUICE_FAILPOINTS

inline constexpr bool kHasFailpoints = true;

// Comes by the failpoint "GROUP.NAME". Callable from any thread. In a process where no test has
// armed anything, the environment's SLUICE_FAILPOINT (as for ParseFault) is what goes wrong; where
// the environment has SLUICE_FAILPOINT_ONCE, in the one process that comes to it first, which makes
// the file of that name.
FaultAnswer HitFailpoint(absl::string_view group, absl::string_view name);
[[noreturn]] void DieOfFault();

// Arms `fault`, or nothing, and begins to count anew.
void ArmFault(std::optional<Fault> fault);
// How often the program has come by each failpoint since then, by "GROUP.NAME".
std::map<std::string, int64_t> FailpointHits();
// Whether it has come by the one that is armed.
bool FaultHappened();

#else

inline constexpr bool kHasFailpoints = false;
constexpr FaultAnswer HitFailpoint(absl::string_view /*group*/, absl::string_view /*name*/) {
  return {};
}
inline void DieOfFault() {}

#endif

}  // namespace sluice

#endif  // SLUICE_MODELS_FAILPOINTS_FAILPOINTS_H_
