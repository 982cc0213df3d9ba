#ifndef SLUICE_COMM_MEMBERSHIP_MEMBER_H_
#define SLUICE_COMM_MEMBERSHIP_MEMBER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "comm/communicator.h"
#include "comm/launch.h"
#include "comm/lying_rank.h"
#include "comm/membership/message.h"
#include "comm/tcp/tcp.h"

namespace sluice {

// This process's place in a group of processes.
struct GroupPlace {
  int64_t generation = 0;
  int rank = 0;
  int size = 0;
  int givers = 0;      // the last ranks of the group, which leave once they have given their state
  bool first = true;   // no other group has been before it
  int last_size = 0;   // ranks of the group before it
  bool saved = false;  // the run has told of a checkpoint
  // As a rank 0 has told of the directory of checkpoints (TellTook); nothing: none has.
  std::optional<std::string> found = {};
  int64_t lost_at = 0;      // MemberMessage::lost_at
  int port = 0;             // of rank 0
  std::string secret = {};  // of the group
  bool replans = true;      // AskToReplan is heard
  std::string work = {};    // as given to AskToReplan; "": nobody has, of these processes
  // The last step for which audits vouch (TellVouched); -1: nobody has told.
  int64_t vouched_step = -1;
  // Found by an earlier group. Until TellRewound, what this process holds is not to be used, unless
  // lie.others_hold_right, nor are checkpoints after lie.good_step.
  LyingRank lie = {};
  CoreSet left_out = {};  // cores that have computed wrong, which no rank may use
};

// What a process says of itself when it wants a place in a group.
struct Candidate {
  int held_rank = -1;  // of the state that it has; -1: it has none
  int missing = -1;    // the rank of the last group that it waited for in vain; -1: none
  bool spare = false;  // the last group goes on, and had no work for it
  absl::Duration timeout = absl::Seconds(30);  // how long a rank may take to answer
};

// One of the processes that a supervisor on the same machine has started, and brings together in
// groups, one after the other. A thread listens to the supervisor.
class Member {
 public:
  // Null where this process was started by nobody who speaks of groups. `leave`: set by whoever wants
  // this process to leave its group, from a signal handler maybe. `stop`: set where the run should end
  // after its step, or where the supervisor is gone. Both must outlive this object.
  static absl::StatusOr<std::unique_ptr<Member>> Open(const Environment& environment,
                                                      const std::atomic<bool>* leave,
                                                      std::atomic<bool>* stop);
  ~Member();

  // Waits for a place in the next group, while a port is open at which its ranks can meet.
  // Cancelled where there will be no group, Unavailable where the supervisor is gone; where no port
  // can be had, errors are ListenOn's.
  absl::StatusOr<GroupPlace> Join(const Candidate& candidate);
  // Waits until all of the group are as ready as this process. `cores`: those that it will have to
  // itself; none: it shares cores with others. Aborted where one was lost before.
  absl::Status Prepared(const CoreSet& cores = {});
  // Connects all of the group (Prepared), or its first `size` ranks once they have become fewer;
  // not after TellBegan. Errors are OpenTcp's.
  absl::StatusOr<std::unique_ptr<Communicator>> Meet(const GroupPlace& place, int size,
                                                     TcpOptions options);

  // The pipe to the supervisor, who prints what a process hands over there; -1: there is none.
  int output() const { return output_.get(); }

  // Of this process among those that are there, for what each must have to itself: from 0 on. No
  // other one has it until this process has ended.
  int place() const { return place_; }

  // Whether the group should end after its step.
  const std::atomic<bool>& regroup() const { return regroup_; }

  // What a rank 0 before this one has handed over by TellLocked, once; of rank 0 whose place Join
  // has told. Not valid where there is none.
  Descriptor TakeLock();
  // Of rank 0: `lock` is a descriptor of the lock of the directory of checkpoints. The supervisor
  // keeps a copy for as long as the run goes on.
  void TellLocked(int lock);

  // Of rank 0: the directory of checkpoints is the run's from now on, which has saved none yet.
  // `found` tells the one that was there, if any, from those that will be.
  void TellTook(absl::string_view found);
  // The run has saved a checkpoint.
  void TellSaved();
  // Of rank 0: audits vouch for what ranks hold and save of the steps up to `step`.
  void TellVouched(int64_t step);
  // This group has ended, since `lie` was found. `text`: the whole error.
  void TellLied(const LyingRank& lie, absl::string_view text);
  // Of rank 0: nothing is left of what GroupPlace::lie has spoilt. `saved`: the run still has a
  // checkpoint of its own.
  void TellRewound(bool saved);
  // Asks for an end of the group after its step, and for the next one to be told `work`, if it has
  // the same processes. `order`: [rank of the next group] its rank in this one; empty: all keep
  // theirs. InvalidArgument where one of the two is too long.
  absl::Status AskToReplan(absl::string_view work, const std::vector<int>& order);
  // Rank 0's: its group trains, after so many steps, in so many stages with these layers; `why` they
  // are not those of the group before. Nobody meets it any more: its port closes.
  void TellBegan(int64_t step, int stages, int replicas, absl::string_view partition,
                 absl::string_view why);
  // Rank 0's: the run is done, with weights of this hash.
  void TellResult(uint64_t weights_hash);
  // The last word of a process that ends on purpose. False where nobody hears it.
  bool End(int exit_code, absl::string_view text);

 private:
  Member(int socket, const std::atomic<bool>* leave, std::atomic<bool>* stop)
      : socket_(socket), leave_(*leave), stop_(*stop) {}

  void Listen();
  void Take(const MemberMessage& message, Descriptor lock);
  absl::Status Tell(const MemberMessage& message);
  // The next of kGroup, kMeet, kBack and kOver.
  absl::StatusOr<MemberMessage> Await();

  const Descriptor socket_;
  Descriptor output_;
  const std::atomic<bool>& leave_;
  std::atomic<bool>& stop_;
  // Where others meet this process if it is rank 0. The thread that listens to the supervisor does
  // not use it.
  Descriptor listener_;
  int place_ = 0;
  std::atomic<bool> regroup_{false};
  std::atomic<bool> ends_{false};
  std::mutex mutex_;  // guards what follows but the thread
  std::condition_variable changed_;
  std::deque<MemberMessage> answers_;
  Descriptor lock_;
  bool gone_ = false;       // the supervisor
  int64_t generation_ = 0;  // of the group that this process is in; 0: of none
  std::thread thread_;
};

}  // namespace sluice

#endif  // SLUICE_COMM_MEMBERSHIP_MEMBER_H_
