#include "tools/launch/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <iterator>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "comm/tcp/tcp_socket.h"
#include "comm/where.h"
#include "models/spec/json_text.h"
#include "tools/command.h"
#include "tools/launch/picture/history_recorder.h"
#include "tools/output_frames.h"
#include "tools/text_writer.h"

extern char** environ;

namespace sluice {
namespace {

bool IsIgnored(int signal) {
  struct sigaction action = {};
  sigaction(signal, nullptr, &action);
  return action.sa_handler == SIG_IGN;
}

// Without those for the end of the run that this process was started to ignore (`&` in a script,
// nohup): a signal that is blocked arrives though it is ignored.
sigset_t HandledSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGUSR1, SIGUSR2}) sigaddset(&signals, signal);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    if (!IsIgnored(signal)) sigaddset(&signals, signal);
  }
  return signals;
}

// "computes wrong, as the audit of step 10 (stage 1, micro-batch 3) has found, and was ended; ...".
std::string DescribeLie(const LyingRank& lie) {
  std::string place;
  if (lie.stage >= 0) absl::StrAppend(&place, " (stage ", lie.stage);
  if (lie.stage >= 0 && lie.micro_batch >= 0)
    absl::StrAppend(&place, ", micro-batch ", lie.micro_batch);
  if (!place.empty()) place += ")";
  return absl::StrCat("computes wrong, as the audit of step ", lie.step, place,
                      " has found, and was ended; what was computed after step ", lie.good_step,
                      " is not used; test the processor and the memory of this machine");
}

// What becomes of the core of a rank that computes wrong: "; core 3 is left out from now on".
std::string DescribeCores(const Roster::Event& lost) {
  if (!lost.lie.found()) return "";
  if (lost.lie.others_hold_right)
    return "; its core stays in use, since memory that lost a bit is that of all cores";
  if (lost.left_out.none())
    return "; it had no core to itself, so which one computed wrong is not known, and all stay in "
           "use";
  const bool one = lost.left_out.count() == 1;
  return absl::StrCat("; ", CoreNames(lost.left_out), one ? " is" : " are", " left out from now on",
                      lost.no_core ? ", and none is free for another rank: one less goes on" : "");
}

std::string HowItEnded(const Roster::Event& lost) {
  if (lost.lie.found()) return DescribeLie(lost.lie);
  if (lost.hung) return "did not answer, and was ended";
  if (!lost.text.empty()) return absl::StrCat("could not begin: ", lost.text);
  if (!lost.end.by_signal) return absl::StrCat("ended with exit code ", lost.end.code);
  return absl::StrCat("was ended by signal ", lost.end.code, " (", sigdescr_np(lost.end.code), ")");
}

// What a new process needs that may not be allocated between fork and exec.
class Command {
 public:
  // `cores`: that it may run on; none: on all that the supervisor may.
  Command(const std::vector<std::string>& arguments, int socket, int output, int place,
          const CoreSet& cores)
      : keeps_to_cores_(cores.any()),
        cores_(CpuSetOf(cores)),
        arguments_(arguments),
        member_(absl::StrCat(kMemberVariable, "=", socket)),
        output_(absl::StrCat(kOutputVariable, "=", output)),
        place_(absl::StrCat(kPlaceVariable, "=", place)),
        inherited_({socket, output}) {
    for (std::string& argument : arguments_) argv_.push_back(argument.data());
    argv_.push_back(nullptr);
    std::string* const own[] = {&member_, &output_, &place_};
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const bool is_own = std::any_of(std::begin(own), std::end(own), [&](const std::string* one) {
        return absl::StartsWith(*variable, one->substr(0, one->find('=') + 1));
      });
      if (!is_own) variables_.push_back(*variable);
    }
    for (std::string* one : own) variables_.push_back(one->data());
    variables_.push_back(nullptr);
  }

  // In the new process; does not return.
  void Run(pid_t parent, const sigset_t& signals) const {
    // Where the supervisor dies, nobody would bring the processes together any more.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(kExitPeerLost);
    if (keeps_to_cores_) sched_setaffinity(0, sizeof(cores_), &cores_);
    for (const int fd : inherited_) fcntl(fd, F_SETFD, 0);
    sigprocmask(SIG_SETMASK, &signals, nullptr);
    execve("/proc/self/exe", argv_.data(), variables_.data());
    constexpr absl::string_view kWhy =
        "sluice: cannot start a process: /proc/self/exe, which is this program, cannot be run; is "
        "/proc mounted?\n";
    (void)!write(STDERR_FILENO, kWhy.data(), kWhy.size());
    _exit(kExitBadInput);
  }

 private:
  const bool keeps_to_cores_;
  const cpu_set_t cores_;
  std::vector<std::string> arguments_;
  std::string member_, output_, place_;
  std::vector<int> inherited_;
  std::vector<char*> argv_, variables_;
};

class Supervisor {
 public:
  explicit Supervisor(const SuperviseRequest& request)
      : request_(request), roster_(request.roster), out_(STDOUT_FILENO, OnFailure) {}

  // The signals of `handled` are blocked, and were as `before`.
  absl::Status Run(const sigset_t& handled, const sigset_t& before) {
    before_ = before;
    signals_ = Descriptor(signalfd(-1, &handled, SFD_NONBLOCK | SFD_CLOEXEC));
    if (!signals_.valid()) return absl::ResourceExhaustedError(ErrnoText(errno));
    while (!roster_.done()) {
      for (const Roster::Order& order : roster_.Orders(MachineTime())) Obey(order);
      for (const Roster::Event& event : roster_.TakeEvents()) Show(event);
      if (!roster_.done()) Wait();
    }
    lock_.Close();  // whoever reads what is left to print may take long
    return absl::OkStatus();
  }

  LaunchHistory History() const { return recorder_.History(MachineTime()); }

  int Finish() {
    if (!roster_.text().empty()) PrintError(absl::UnknownError(roster_.text()));
    // A reader that pauses: signals can still end this, as they do while the run goes on.
    while (out_.waiting_bytes() > 0 && !abandoned_) {
      pollfd signals = {.fd = signals_.get(), .events = POLLIN, .revents = 0};
      if (poll(&signals, 1, static_cast<int>(absl::ToInt64Milliseconds(kUnreadPause))) > 0) {
        TakeSignals();
      }
    }
    const absl::Status printed =
        out_.Finish(abandoned_ ? kReaderPatience : absl::InfiniteDuration());
    return printed.ok() || roster_.exit_code() != kExitDone ? roster_.exit_code() : Fail(printed);
  }

 private:
  struct Child {
    pid_t pid = 0;
    int place = 0;
    Descriptor socket;
    Descriptor output;  // in frames
    FrameReader frames = {};
  };

  static std::atomic<bool>& ReaderLeft() {
    static std::atomic<bool> left{false};
    return left;
  }

  // On the writer's thread.
  static void OnFailure(int error) {
    if (error == EPIPE) {
      PrintNotice("the reader of standard output is gone; the run ends after its step");
      ReaderLeft().store(true);
      kill(getpid(),
           SIGCHLD);  // wakes the supervisor, whatever it ignores; TakeSignals does the rest
      return;
    }
    PrintNotice(absl::StrCat("standard output cannot be written: ", ErrnoText(error),
                             "; the run goes on, and the rest of its output is lost"));
  }

  void Obey(const Roster::Order& order) {
    if (order.kind == Roster::Order::Kind::kStart) {
      const absl::Status started = Start(order.process);
      if (!started.ok()) CannotStart(order.process, started);
      return;
    }
    const auto child = children_.find(order.process);
    if (child == children_.end()) return;
    if (order.kind == Roster::Order::Kind::kKill) {
      kill(child->second.pid, SIGKILL);
    } else {
      recorder_.Sent(order.process, order.message, MachineTime());
      const bool saves =
          order.message.kind == MemberMessage::Kind::kGroup && order.message.rank == 0;
      // One that does not read is one that hangs; the roster will miss it.
      SendMessage(child->second.socket.get(), order.message, saves ? lock_.get() : -1)
          .IgnoreError();
    }
  }

  // As one that has begun, and has said that it cannot go on: the roster knows whether it is needed.
  void CannotStart(int process, const absl::Status& why) {
    MemberMessage last_word{.kind = MemberMessage::Kind::kEnding, .exit_code = ExitCodeOf(why)};
    last_word.SetText(DescribeError(why));
    roster_.Take(process, last_word, MachineTime());
    roster_.Ended(process, {.by_signal = false, .code = last_word.exit_code}, MachineTime());
  }

  absl::Status Start(int process) {
    int ends[2] = {-1, -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no socket to speak to a new process: ", ErrnoText(errno)));
    }
    Descriptor mine(ends[0]);
    const Descriptor its(ends[1]);
    int pipe[2] = {-1, -1};
    if (pipe2(pipe, O_CLOEXEC) != 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no pipe for what a new process prints: ", ErrnoText(errno)));
    }
    Descriptor output(pipe[0]);
    const Descriptor its_output(pipe[1]);
    fcntl(output.get(), F_SETFL, O_NONBLOCK);
    const CoreSet& left_out = roster_.left_out();
    const int place = FreePlace();
    const Command command(request_.arguments, its.get(), its_output.get(), place,
                          left_out.any() ? request_.roster.cores & ~left_out : CoreSet());
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0) command.Run(parent, before_);
    if (pid < 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("cannot start a process: ", ErrnoText(errno)));
    }
    children_[process] = {
        .pid = pid, .place = place, .socket = std::move(mine), .output = std::move(output)};
    pids_[process] = pid;
    recorder_.Started(process, pid, MachineTime());
    return absl::OkStatus();
  }

  int FreePlace() const {
    int place = 0;
    const auto has_it = [&place](const auto& entry) { return entry.second.place == place; };
    while (std::any_of(children_.begin(), children_.end(), has_it)) ++place;
    return place;
  }

  void Wait() {
    std::vector<pollfd> waiting = {{.fd = signals_.get(), .events = POLLIN, .revents = 0}};
    std::vector<int> processes;
    // A reader that pauses: whoever prints then waits, too.
    const bool full = out_.waiting_bytes() > kMostUnread;
    for (const auto& [process, child] : children_) {
      waiting.push_back({.fd = child.socket.get(), .events = POLLIN, .revents = 0});
      waiting.push_back({.fd = full ? -1 : child.output.get(), .events = POLLIN, .revents = 0});
      processes.push_back(process);
    }
    const absl::Duration left = roster_.NextDeadline(MachineTime()) - MachineTime();
    const absl::Duration most = full ? std::min(left, kUnreadPause) : left;
    const int milliseconds = most == absl::InfiniteDuration()
                                 ? -1
                                 : static_cast<int>(std::clamp<int64_t>(
                                       absl::ToInt64Milliseconds(most) + 1, 0, INT_MAX));
    if (poll(waiting.data(), waiting.size(), milliseconds) <= 0) return;
    for (size_t i = 0; i < processes.size(); ++i) {
      if (waiting[2 * i + 1].revents != 0) Read(processes[i]);
      if (waiting[2 * i + 2].revents != 0) Relay(processes[i]);
    }
    if (waiting[0].revents != 0) TakeSignals();
  }

  // What a process has said, also one that has ended meanwhile.
  void Read(int process) {
    Child& child = children_.at(process);
    std::optional<MemberMessage> message;
    while (child.socket.valid()) {
      Descriptor lock;
      if (!ReceiveMessage(child.socket.get(), &message, &lock).ok()) return child.socket.Close();
      if (!message) return;
      if (lock.valid()) lock_ = std::move(lock);
      recorder_.Took(process, *message, MachineTime());
      roster_.Take(process, *message, MachineTime());
    }
  }

  // Prints what a process has handed over, also one that has ended meanwhile.
  // `all`: however much nobody has read.
  void Relay(int process, bool all = false) {
    Child& child = children_.at(process);
    char block[1 << 16];
    ssize_t count = 0;
    while (child.output.valid() && (count = read(child.output.get(), block, sizeof(block))) > 0) {
      child.frames.Add({block, static_cast<size_t>(count)});
      while (const std::optional<OutputFrame> frame = child.frames.Next()) {
        if (shown_.Take(frame->mark)) out_.Write(frame->text);
        if (frame->mark.exit_code) {
          summary_shown_ = true;
          roster_.Done(process, *frame->mark.exit_code, MachineTime());
        }
        if (frame->mark.rewinds) recorder_.Rewound(frame->mark.step);
        if (frame->mark.loss) recorder_.Shown(frame->mark.step, *frame->mark.loss, MachineTime());
      }
      if (!all && out_.waiting_bytes() > kMostUnread) return;
    }
    if (count == 0) child.output.Close();
  }

  void TakeSignals() {
    signalfd_siginfo info = {};
    while (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
      switch (info.ssi_signo) {
        case SIGCHLD:
          Reap();
          break;
        case SIGUSR1:
          roster_.Grow();
          break;
        case SIGUSR2:
          if (!roster_.Shrink()) {
            PrintNotice(
                "SIGUSR2 lets no process leave: too few would be left for the run (--min-ranks)");
          }
          break;
        default:
          StopOrAbandon();
      }
    }
    if (ReaderLeft().exchange(false)) StopOrAbandon();
  }

  void StopOrAbandon() {
    if (!std::exchange(stopping_, true)) {
      roster_.Stop(MachineTime());
    } else {
      abandoned_ = true;
      roster_.Abandon(MachineTime());
      KillAll();
    }
  }

  void Reap() {
    int status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
      const auto child = std::find_if(children_.begin(), children_.end(),
                                      [pid](const auto& entry) { return entry.second.pid == pid; });
      if (child == children_.end()) continue;
      Read(child->first);
      Relay(child->first, /*all=*/true);
      recorder_.Ended(child->first, LaunchHistory::End::kDone, "", MachineTime());
      const bool by_signal = WIFSIGNALED(status);
      roster_.Ended(child->first, {by_signal, by_signal ? WTERMSIG(status) : WEXITSTATUS(status)},
                    MachineTime());
      children_.erase(child);
    }
  }

  void KillAll() {
    for (const auto& [process, child] : children_) kill(child.pid, SIGKILL);
  }

  void Show(const Roster::Event& event) {
    const auto started = pids_.find(event.process);
    const bool has_pid = started != pids_.end();
    const std::string process =
        has_pid ? absl::StrCat("process ", started->second) : "a process that was to be started";
    const std::string who =
        event.rank < 0 ? process : absl::StrCat("rank ", event.rank, " (", process, ")");
    nlohmann::ordered_json json = {{"event", ""}, {"rank", nullptr}, {"pid", nullptr}};
    if (has_pid) json["pid"] = started->second;
    if (event.rank >= 0) json["rank"] = event.rank;
    switch (event.kind) {
      case Roster::Event::Kind::kJoined:
        if (event.process < request_.roster.processes) return;  // one of the first
        json["event"] = "joined";
        Print(absl::StrCat(process, " joins"), json);
        return;
      case Roster::Event::Kind::kLeft:
        json["event"] = "left";
        recorder_.Ended(event.process, LaunchHistory::End::kLeft, "", MachineTime());
        Print(absl::StrCat(who, " has left"), json);
        return;
      case Roster::Event::Kind::kLeftOut:
        json["event"] = "left_out";
        json["cores_left_out"] = CoreNumbers(event.left_out);
        Print(absl::StrCat(who, ", which is gone, has computed wrong, as step ", event.lie.step,
                           " has shown", DescribeCores(event)),
              json);
        return;
      case Roster::Event::Kind::kLost: {
        json["event"] = "lost";
        recorder_.Ended(event.process, LaunchHistory::End::kLost,
                        event.lie.found() ? "computes wrong" : HowItEnded(event), MachineTime());
        json[event.end.by_signal ? "signal" : "exit_code"] = event.end.code;
        json["hung"] = event.hung;
        json["lied"] = event.lie.found();
        if (event.lie.found()) json["cores_left_out"] = CoreNumbers(event.left_out);
        if (!event.text.empty()) json["error"] = event.text;
        json["restarts_left"] = event.restarts_left;
        Print(absl::StrCat(who, " ", HowItEnded(event), DescribeCores(event), "; ",
                           event.restarts_left, " more may be replaced"),
              json);
        return;
      }
    }
  }

  // The summary is the last line of the run; what comes about meanwhile is only said.
  void Print(const std::string& text, const nlohmann::ordered_json& json) {
    if (request_.json && !summary_shown_) out_.Write(JsonText(json) + "\n");
    out_.WriteTo(STDERR_FILENO, NoticeLine(text));
  }

  // Of output that nobody has read; how long to wait before looking again.
  static constexpr size_t kMostUnread = size_t{1} << 20;
  static constexpr absl::Duration kUnreadPause = absl::Milliseconds(50);
  // Once the run is to end at once.
  static constexpr absl::Duration kReaderPatience = absl::Seconds(1);

  const SuperviseRequest& request_;
  Roster roster_;
  sigset_t before_ = {};
  Descriptor signals_;
  std::map<int, Child> children_;
  std::map<int, pid_t> pids_;  // also of those that have ended
  Descriptor lock_;            // of the directory of checkpoints, once a rank 0 has it
  bool stopping_ = false;
  bool abandoned_ = false;
  bool summary_shown_ = false;
  ShownSteps shown_;
  HistoryRecorder recorder_{MachineTime()};
  TextWriter out_;
};

}  // namespace

int Supervise(const SuperviseRequest& request, LaunchHistory* history) {
  // Before any thread is started, so that none takes them.
  const sigset_t handled = HandledSignals();
  sigset_t before = {};
  pthread_sigmask(SIG_BLOCK, &handled, &before);
  std::signal(SIGPIPE, SIG_IGN);
  Supervisor supervisor(request);
  const absl::Status status = supervisor.Run(handled, before);
  if (history != nullptr) *history = supervisor.History();
  return status.ok() ? supervisor.Finish() : Fail(status);
}

}  // namespace sluice
