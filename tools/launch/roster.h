#ifndef SLUICE_TOOLS_LAUNCH_ROSTER_H_
#define SLUICE_TOOLS_LAUNCH_ROSTER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "comm/membership/message.h"
#include "tools/command.h"

namespace sluice {

struct RosterOptions {
  int processes = 1;
  int min_ranks = 1;        // with fewer processes the run ends
  int max_restarts = 0;     // processes that may be started in place of lost ones
  bool replans = true;      // ranks may ask for other work
  std::string secret = {};  // part of every group's
  CoreSet cores = {};       // that processes may run on; none: nobody knows
  // How long those that are there wait for one that has been started in place of another.
  absl::Duration join_patience = absl::Seconds(2);
};

// How a process has ended.
struct ProcessEnd {
  bool by_signal = false;
  int code = 0;  // exit code, or number of the signal
};

// Decides which processes form a group, when, and what happens where one is lost. It starts, sends and
// kills nothing itself: what happens goes in, with the time, and orders come out. Processes are known
// by numbers that are given in the order in which they are started.
class Roster {
 public:
  struct Order {
    enum class Kind : uint8_t { kStart, kSend, kKill };
    Kind kind = Kind::kStart;
    int process = 0;
    MemberMessage message = {};  // to send
  };
  // For people and scripts.
  struct Event {
    // kLeftOut: one that was lost before has computed wrong (lie), on cores that are left out now.
    enum class Kind : uint8_t { kLost, kJoined, kLeft, kLeftOut };
    Kind kind = Kind::kLost;
    int process = 0;
    int rank = -1;  // in the last group; -1: it was in none
    ProcessEnd end = {};
    int restarts_left = 0;
    bool hung = false;      // it was ended since it did not answer
    LyingRank lie = {};     // likewise, since it computes wrong
    CoreSet left_out = {};  // then: the cores that it had to itself, which are used no more
    bool no_core = false;   // likewise: none is replaced, since no other core is free
    // Of one that could not begin, which the run does not need: why.
    std::string text = {};
  };

  explicit Roster(const RosterOptions& options);

  // What happened. `now`: since any beginning.
  void Take(int process, const MemberMessage& message, absl::Duration now);
  void Ended(int process, const ProcessEnd& end, absl::Duration now);
  // A process has shown how the run ends: whatever becomes of the processes now, that counts.
  void Done(int process, int exit_code, absl::Duration now);
  // One process more is wanted, or one less: the last rank then leaves after the step. False where too
  // few would be left, and none leaves.
  void Grow();
  bool Shrink();
  // The run should end after the step.
  void Stop(absl::Duration now);

  // It should end now; all processes are being killed.
  void Abandon(absl::Duration now) { Over(kExitInterrupted, "", now); }

  // What is to be done now; to be called after every event, and when NextDeadline comes.
  std::vector<Order> Orders(absl::Duration now);
  absl::Duration NextDeadline(absl::Duration now) const;  // InfiniteDuration: none
  std::vector<Event> TakeEvents();
  // Cores that have computed wrong: no process is to run there.
  const CoreSet& left_out() const { return left_out_; }

  // All processes have ended, and no other one is wanted.
  bool done() const;
  // Then: the run's exit code, and what is to be said of it ("": nothing, or it has been said).
  int exit_code() const { return exit_code_; }
  const std::string& text() const { return text_; }

 private:
  // How often processes are asked whether they are still there.
  static constexpr absl::Duration kLook = absl::Seconds(1);

  enum class State : uint8_t {
    kStarting,
    kWaiting,    // for a place in a group
    kSpare,      // likewise, but the present group does not end for it
    kPreparing,  // has a place
    kPrepared,
    kInGroup,
    kEnding,  // has said its last word
    kEnded,
  };
  struct Process {
    State state = State::kStarting;
    bool was_ready = false;
    bool leaving = false;
    bool outside = false;  // the present group goes on without it
    bool told_to_stop = false;
    bool sent_away = false;  // told to leave the group, or that there is none any more
    bool killed = false;     // since it did not answer, or computes wrong
    bool lies = false;       // it computes wrong; whatever it says is not heard
    bool asked = false;      // whether it is still there, since it said something
    int looks = 0;           // how often it had not answered then
    int rank = -1;           // in the last group
    int held_rank = -1;
    int port = 0;
    CoreSet cores = {};            // that it has to itself; none: it shares cores with others
    CoreSet bad_cores = {};        // of these, since it computes wrong
    std::optional<int> exit_code;  // that it has told or shown
    absl::Duration ends_since = absl::InfiniteDuration();  // when that was
  };

  bool Lives(const Process& process) const { return process.state != State::kEnded; }
  static bool IsFree(const Process& process) {
    return process.state == State::kWaiting || process.state == State::kSpare;
  }
  static bool IsBusy(const Process& process) {
    return process.state == State::kPreparing || process.state == State::kPrepared ||
           process.state == State::kInGroup;
  }
  int Count(bool (*is)(const Process&)) const;
  int LivingRanks() const;
  bool AllHaveEnded() const;
  std::string TooFew() const;
  bool Starts() const;
  void Replan(const Process& from, const MemberMessage& message);
  void Lied(const Process& from, const MemberMessage& message, absl::Duration now);
  void LeaveOut(Process& process);
  bool LacksCores() const;
  bool HasCoresForOneMore(const Process& lost) const;
  void Lost(int id, Process& process, const ProcessEnd& end, absl::Duration now);
  void Over(int exit_code, std::string text, absl::Duration now);
  bool NobodyIsLeft() const;
  void Began(const MemberMessage& message);
  void EndTooFew(absl::Duration now);
  void TellToStop(std::vector<Order>* orders);
  void LetGo(absl::Duration now, std::vector<Order>* orders);
  void EndLate(absl::Duration now, std::vector<Order>* orders);
  void WindUp(absl::Duration now, std::vector<Order>* orders);
  void AskAround(absl::Duration now, std::vector<Order>* orders);
  static bool MayBeAsked(const Process& process);
  void StartProcesses(std::vector<Order>* orders);
  void NoticeBroken(absl::Duration now);
  void EndBrokenGroup(absl::Duration now, std::vector<Order>* orders);
  void AskToRegroup(std::vector<Order>* orders);
  static std::vector<std::pair<int, Process*>> KeepRanks(
      const std::vector<std::pair<int, Process*>>& ranks);
  bool Reorder(std::vector<std::pair<int, Process*>>* ranks);
  bool MayForm(absl::Duration now) const;
  void Form(std::vector<Order>* orders);
  void LetMeet(std::vector<Order>* orders);
  MemberMessage Message(MemberMessage::Kind kind) const;
  void Send(int id, MemberMessage::Kind kind, std::vector<Order>* orders) const;
  void Kill(int id, Process& process, std::vector<Order>* orders);

  const RosterOptions options_;
  std::map<int, Process> processes_;
  int next_ = 0;
  int to_start_;  // of these, those that have not been started
  int restarts_ = 0;
  int64_t generation_ = 0;
  int size_ = 0;  // ranks of the last group that trained
  // What the directory of checkpoints had when the run took it; nothing: it has not yet.
  std::optional<std::string> found_;
  bool saved_ = false;           // the run has told of a checkpoint
  bool broken_ = false;          // the present group has lost a process, or ends
  bool asked_ = false;           // the present group to end after its step
  bool replan_ = false;          // it is to go on with other work
  std::vector<int> order_ = {};  // of that one: [rank] its rank in the present one; empty: the same
  std::string work_;             // what the work of the last group's ranks is made for
  int missing_ = -1;             // a rank of it that did not answer
  int64_t vouched_step_ = -1;
  LyingRank lie_;         // found, and what it has spoilt may be still there
  int64_t lied_in_ = 0;   // the generation that found it; 0: none has
  std::string lie_text_;  // the whole error
  CoreSet left_out_;
  absl::Duration broken_at_ = absl::InfiniteDuration();
  absl::Duration waits_since_ = absl::InfiniteDuration();  // whoever has waited longest for a group
  absl::Duration timeout_ = absl::Seconds(30);
  absl::Duration next_look_ = absl::ZeroDuration();  // at who answers
  int64_t lost_at_ = 0;
  bool stop_asked_ = false;
  std::optional<int> code_once_stopped_;
  std::string text_once_stopped_;
  bool ends_ = false;  // ranks have ended as those do that have nothing more to do
  bool over_ = false;
  absl::Duration over_at_ = absl::InfiniteDuration();
  int exit_code_ = 0;
  std::string text_;
  std::vector<Event> events_;
};

}  // namespace sluice

#endif  // SLUICE_TOOLS_LAUNCH_ROSTER_H_
