#ifndef SLUICE_COMM_MEMBERSHIP_MESSAGE_H_
#define SLUICE_COMM_MEMBERSHIP_MESSAGE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "comm/lying_rank.h"
#include "comm/membership/core_set.h"
#include "comm/tcp/tcp_socket.h"

namespace sluice {

// What a supervisor and the processes that it has started say to each other over a pair of connected
// sockets (SOCK_SEQPACKET): one program on one machine, so a message is its bytes.
struct MemberMessage {
  enum class Kind : int32_t {
    // A process to its supervisor.
    kWaiting,   // ready for a group: port, held_rank, missing, spare, timeout_ms
    kPrepared,  // ready to meet the others of the group: cores
    kLeaving,   // was asked (SIGTERM) to leave, and wants to give what it holds first
    kLocked,    // rank 0: has the lock of the directory of checkpoints: a descriptor of it
    kTook,      // rank 0: the directory of checkpoints is the run's from now on: found
    kSaved,     // the run has a checkpoint of its own now
    kReplan,    // rank 0: the group should go on with other work: text, order
    kBegan,     // rank 0: its group trains: step, stages, replicas, text
    kResult,    // rank 0: the run is done: weights_hash
    kVouched,   // rank 0: audits vouch for what ranks held and saved up to vouched_step
    kLied,      // the group has ended, since an audit has found who computes wrong: lie, text
    kRewound,   // rank 0: nothing is left of what `lie` of kGroup has spoilt: saved
    kEnding,    // ends on purpose: exit_code, text
    kHere,      // the answer to kAsk
    // A supervisor to a process.
    // generation, rank, size, givers, port, replans, saved, took, found, secret, text, lie,
    // vouched_step, cores; to rank 0 a descriptor of the lock, where one has had it
    kGroup,
    kMeet,     // all of the group are prepared
    kRegroup,  // leave the group after the step
    kBack,     // leave it now: a process of it is lost
    kStop,     // end the run after the step
    kOver,     // there is no group any more: end
    kAsk,      // is the process still there?
  };

  Kind kind = Kind::kWaiting;
  int32_t port = 0;        // at which a process listens; of a group that of rank 0
  int32_t held_rank = -1;  // of the state that a process has; -1: it has none
  int32_t missing = -1;    // a rank of the last group that did not answer in time
  int32_t spare = 0;       // 1: the last group goes on, and had no work for the process
  int32_t timeout_ms = 0;  // how long a rank may take to answer
  int32_t rank = 0;        // in the group: ranks train, ...
  int32_t size = 0;
  int32_t givers = 0;     // ... but the last so many of them only give what they hold, and leave
  int32_t last_size = 0;  // ranks of the group before
  int32_t saved = 0;      // 1: the run has one
  int32_t took = 0;       // 1: a rank 0 has taken the directory of checkpoints
  int32_t replans = 1;    // 0: no group takes other work
  int32_t ordered = 0;    // ranks in `order`; 0: all keep theirs
  int64_t generation = 0;
  int64_t step = 0;  // how many steps had been taken
  int32_t stages = 0, replicas = 0;
  uint64_t weights_hash = 0;
  int64_t lost_at =
      0;  // when the last loss was noticed, in nanoseconds of CLOCK_MONOTONIC; 0: none
  int64_t vouched_step = -1;  // -1: not known
  LyingRank lie = {};
  // Of a process: those that its rank has to itself; none: it shares cores with others. Of a group:
  // those that its processes must leave alone.
  CoreSet cores = {};
  int32_t exit_code = 0;
  std::array<char, 33> secret = {};  // of the group, ends in a zero
  // What tells the checkpoint that was in that directory then from those of the run; ends in a
  // zero.
  std::array<char, 65> found = {};
  // [rank of the next group] its rank in this one.
  std::array<int16_t, 256> order = {};
  // Ends in a zero: an error; what the ranks' work is made for, which only they understand; or the
  // layers of a group's stages, and in a second line why these are not as before.
  std::array<char, 2048> text = {};

  // What does not fit is left out.
  void SetText(absl::string_view words);
  void SetFound(absl::string_view checkpoint);
  // InvalidArgument where there is no room for so many.
  absl::Status SetOrder(const std::vector<int>& ranks);
};

// Sends without waiting. Unavailable where the other side is gone, or has not read for long.
// `descriptor`: of which the other side gets a copy; -1: none.
absl::Status SendMessage(int socket, const MemberMessage& message, int descriptor = -1);
// The next message; nothing where none has come. Unavailable where the other side is gone.
// `descriptor`: for the one that has come with it, if any; null: nobody wants it.
absl::Status ReceiveMessage(int socket, std::optional<MemberMessage>* message,
                            Descriptor* descriptor = nullptr);

// Of CLOCK_MONOTONIC, which all processes of a machine share: what MemberMessage::lost_at is of.
absl::Duration MachineTime();

// The environment variable with the number of a process's end of the pair.
inline constexpr char kMemberVariable[] = "SLUICE_MEMBER_SOCKET";
// And with that of the pipe for what it prints.
inline constexpr char kOutputVariable[] = "SLUICE_MEMBER_OUTPUT";
// And with the process's place among those that are there: the first one that was free, from 0 on.
inline constexpr char kPlaceVariable[] = "SLUICE_MEMBER_PLACE";

}  // namespace sluice

#endif  // SLUICE_COMM_MEMBERSHIP_MESSAGE_H_
