#include "comm/membership/member.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "models/device/out_of_memory.h"

namespace sluice {
namespace {

// Between two looks at the flag that a signal handler sets.
constexpr int kPollMilliseconds = 50;

absl::Status GoneStatus() {
  return absl::UnavailableError("the supervisor (sluice launch) of this process is gone");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Member>> Member::Open(const Environment& environment,
                                                     const std::atomic<bool>* leave,
                                                     std::atomic<bool>* stop) {
  const std::optional<std::string> number = environment(kMemberVariable);
  if (!number) return std::unique_ptr<Member>();
  int socket = -1;
  int type = 0;
  socklen_t length = sizeof(type);
  if (!absl::SimpleAtoi(*number, &socket) ||
      getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &length) != 0 || type != SOCK_SEQPACKET) {
    return absl::InvalidArgumentError(absl::StrCat(
        kMemberVariable, "=", *number, " is not the socket of a supervisor; only 'sluice launch' ",
        "sets this variable: unset it"));
  }
  (void)fcntl(socket, F_SETFD, FD_CLOEXEC);
  std::unique_ptr<Member> member(new Member(socket, leave, stop));
  const std::optional<std::string> output = environment(kOutputVariable);
  if (int pipe = -1; output && absl::SimpleAtoi(*output, &pipe)) {
    (void)fcntl(pipe, F_SETFD, FD_CLOEXEC);
    member->output_ = Descriptor(pipe);
  }
  const std::optional<std::string> place = environment(kPlaceVariable);
  if (place && (!absl::SimpleAtoi(*place, &member->place_) || member->place_ < 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        kPlaceVariable, "=", *place, " is not the place of a process; only 'sluice launch' sets ",
        "this variable: unset it"));
  }
  absl::Status started = StartThread(
      "starting the one that listens to the supervisor", [m = member.get()] { m->Listen(); },
      &member->thread_);
  if (!started.ok()) return started;
  return member;
}

Member::~Member() {
  ends_.store(true);
  if (thread_.joinable()) thread_.join();
}

void Member::Listen() {
  bool told = false;
  while (!ends_.load()) {
    pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    const int ready = poll(&waiting, 1, kPollMilliseconds);
    if (leave_.load() && !std::exchange(told, true)) {
      (void)Tell({.kind = MemberMessage::Kind::kLeaving});
    }
    if (ready <= 0) continue;
    std::optional<MemberMessage> message;
    Descriptor lock;
    if (!ReceiveMessage(socket_.get(), &message, &lock).ok()) break;
    if (message && message->kind == MemberMessage::Kind::kAsk) {
      // Whatever the rank does, or waits for: a process that stands still as a whole says nothing.
      (void)Tell({.kind = MemberMessage::Kind::kHere});
    } else if (message) {
      Take(*message, std::move(lock));
    }
  }
  if (ends_.load()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  gone_ = true;
  stop_.store(true);  // nobody would replace a rank any more
  changed_.notify_all();
}

void Member::Take(const MemberMessage& message, Descriptor lock) {
  const std::lock_guard<std::mutex> guard(mutex_);
  // What was meant for an earlier group is of no use.
  const bool to_group = message.kind == MemberMessage::Kind::kRegroup ||
                        message.kind == MemberMessage::Kind::kBack ||
                        message.kind == MemberMessage::Kind::kMeet;
  if (to_group && message.generation != generation_) return;
  switch (message.kind) {
    case MemberMessage::Kind::kRegroup:
      regroup_.store(true);
      return;
    case MemberMessage::Kind::kStop:
      stop_.store(true);
      return;
    case MemberMessage::Kind::kGroup:
      generation_ = message.generation;
      lock_ = std::move(lock);
      break;
    default:
      break;
  }
  answers_.push_back(message);
  changed_.notify_all();
}

absl::Status Member::Tell(const MemberMessage& message) {
  return SendMessage(socket_.get(), message);
}

absl::StatusOr<MemberMessage> Member::Await() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return !answers_.empty() || gone_; });
  if (answers_.empty()) return GoneStatus();
  const MemberMessage answer = answers_.front();
  answers_.pop_front();
  return answer;
}

absl::StatusOr<GroupPlace> Member::Join(const Candidate& candidate) {
  absl::StatusOr<Descriptor> listener = ListenOn(Endpoint::Loopback(0));
  if (!listener.ok()) return listener.status();
  const absl::StatusOr<Endpoint> here = LocalEndpoint(*listener);
  if (!here.ok()) return here.status();
  listener_ = *std::move(listener);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    generation_ = 0;
    answers_.clear();
    regroup_.store(false);
  }
  absl::Status told = Tell({.kind = MemberMessage::Kind::kWaiting,
                            .port = here->port,
                            .held_rank = candidate.held_rank,
                            .missing = candidate.missing,
                            .spare = candidate.spare ? 1 : 0,
                            .timeout_ms = static_cast<int32_t>(std::min<int64_t>(
                                absl::ToInt64Milliseconds(candidate.timeout), INT32_MAX))});
  if (!told.ok()) return GoneStatus();
  const absl::StatusOr<MemberMessage> answer = Await();
  if (!answer.ok()) return answer.status();
  if (answer->kind == MemberMessage::Kind::kOver) {
    return absl::CancelledError("the run is over: its supervisor (sluice launch) has ended it");
  }
  if (answer->rank != 0) listener_.Close();
  return GroupPlace{
      .generation = answer->generation,
      .rank = answer->rank,
      .size = answer->size,
      .givers = answer->givers,
      .first = answer->generation == 1,
      .last_size = answer->last_size,
      .saved = answer->saved != 0,
      .found = answer->took == 0 ? std::nullopt : std::optional<std::string>(answer->found.data()),
      .lost_at = answer->lost_at,
      .port = answer->port,
      .secret = answer->secret.data(),
      .replans = answer->replans != 0,
      .work = answer->text.data(),
      .vouched_step = answer->vouched_step,
      .lie = answer->lie,
      .left_out = answer->cores};
}

absl::Status Member::Prepared(const CoreSet& cores) {
  if (!Tell({.kind = MemberMessage::Kind::kPrepared, .cores = cores}).ok()) return GoneStatus();
  const absl::StatusOr<MemberMessage> answer = Await();
  if (!answer.ok()) return answer.status();
  switch (answer->kind) {
    case MemberMessage::Kind::kMeet:
      return absl::OkStatus();
    case MemberMessage::Kind::kOver:
      return absl::CancelledError("the run is over: its supervisor (sluice launch) has ended it");
    default:
      return absl::AbortedError("a process of the group was lost before its ranks had met");
  }
}

absl::StatusOr<std::unique_ptr<Communicator>> Member::Meet(const GroupPlace& place, int size,
                                                           TcpOptions options) {
  Descriptor listener;
  if (place.rank == 0) {
    listener = Descriptor(fcntl(listener_.get(), F_DUPFD_CLOEXEC, 0));
    if (!listener.valid()) return absl::ResourceExhaustedError(ErrnoText(errno));
  }
  // Ranks of another group that come here late do not know the secret.
  options.secret = absl::StrCat(place.secret, "-", size);
  const Launch launch = {.rank = place.rank,
                         .size = size,
                         .local_rank = place.rank,
                         .address = "127.0.0.1",
                         .port = place.port,
                         .source = LaunchSource::kSupervisor};
  return OpenTcp(launch, options, std::move(listener));
}

Descriptor Member::TakeLock() {
  const std::lock_guard<std::mutex> guard(mutex_);
  return std::move(lock_);
}

void Member::TellLocked(int lock) {
  (void)SendMessage(socket_.get(), {.kind = MemberMessage::Kind::kLocked}, lock);
}

void Member::TellTook(absl::string_view found) {
  MemberMessage message{.kind = MemberMessage::Kind::kTook};
  message.SetFound(found);
  (void)Tell(message);
}

void Member::TellSaved() { (void)Tell({.kind = MemberMessage::Kind::kSaved}); }

void Member::TellBegan(int64_t step, int stages, int replicas, absl::string_view partition,
                       absl::string_view why) {
  MemberMessage message{.kind = MemberMessage::Kind::kBegan};
  message.step = step;
  message.stages = stages;
  message.replicas = replicas;
  message.SetText(absl::StrCat(partition, "\n", why));
  (void)Tell(message);
  listener_.Close();
}

void Member::TellResult(uint64_t weights_hash) {
  MemberMessage message{.kind = MemberMessage::Kind::kResult};
  message.weights_hash = weights_hash;
  (void)Tell(message);
}

void Member::TellVouched(int64_t step) {
  (void)Tell({.kind = MemberMessage::Kind::kVouched, .vouched_step = step});
}

void Member::TellLied(const LyingRank& lie, absl::string_view text) {
  MemberMessage message{.kind = MemberMessage::Kind::kLied, .lie = lie};
  message.SetText(text);
  (void)Tell(message);
}

void Member::TellRewound(bool saved) {
  (void)Tell({.kind = MemberMessage::Kind::kRewound, .saved = saved ? 1 : 0});
}

absl::Status Member::AskToReplan(absl::string_view work, const std::vector<int>& order) {
  MemberMessage message{.kind = MemberMessage::Kind::kReplan};
  if (absl::Status status = message.SetOrder(order); !status.ok()) return status;
  if (work.size() >= message.text.size()) {
    return absl::InvalidArgumentError(absl::StrCat("what the work is made for takes ", work.size(),
                                                   " bytes; a message has ",
                                                   message.text.size() - 1));
  }
  message.SetText(work);
  return Tell(message);
}

bool Member::End(int exit_code, absl::string_view text) {
  MemberMessage message{.kind = MemberMessage::Kind::kEnding, .exit_code = exit_code};
  message.SetText(text);
  return Tell(message).ok();
}

}  // namespace sluice
