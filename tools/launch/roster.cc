#include "tools/launch/roster.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "schedules/counted.h"

namespace sluice {

using Kind = MemberMessage::Kind;

Roster::Roster(const RosterOptions& options) : options_(options), to_start_(options.processes) {}

int Roster::Count(bool (*is)(const Process&)) const {
  return static_cast<int>(std::count_if(processes_.begin(), processes_.end(),
                                        [is](const auto& entry) { return is(entry.second); }));
}

int Roster::LivingRanks() const {
  return Count([](const Process& p) { return p.state != State::kEnded && !p.leaving; });
}

bool Roster::Starts() const {
  return Count([](const Process& p) { return p.state == State::kStarting; }) > 0;
}

void Roster::Take(int process, const MemberMessage& message, absl::Duration now) {
  const auto entry = processes_.find(process);
  if (entry == processes_.end() || entry->second.state == State::kEnded) return;
  Process& from = entry->second;
  if (from.lies) return;
  from.asked = false;
  from.looks = 0;
  const bool leads = from.state == State::kInGroup && from.rank == 0;
  switch (message.kind) {
    case Kind::kWaiting:
      if (!from.was_ready) events_.push_back({.kind = Event::Kind::kJoined, .process = process});
      from.was_ready = true;
      from.sent_away = false;
      from.state = message.spare != 0 ? State::kSpare : State::kWaiting;
      from.outside = from.outside || message.spare != 0;
      from.port = message.port;
      from.held_rank = message.held_rank;
      timeout_ = absl::Milliseconds(std::max(message.timeout_ms, 1));
      if (message.missing >= 0) missing_ = message.missing;
      if (from.state == State::kWaiting) waits_since_ = std::min(waits_since_, now);
      return;
    case Kind::kPrepared:
      if (from.state != State::kPreparing) return;
      from.state = State::kPrepared;
      from.cores = message.cores;
      return;
    case Kind::kLeaving:
      from.leaving = from.leaving || !stop_asked_;  // a run that ends has nobody to give to
      return;
    case Kind::kBegan:
      if (leads) Began(message);
      return;
    case Kind::kTook:
      if (leads && !found_) found_ = message.found.data();
      return;
    case Kind::kSaved:
      saved_ = true;
      return;
    case Kind::kReplan:
      return Replan(from, message);
    case Kind::kVouched:
      if (leads) vouched_step_ = message.vouched_step;
      return;
    case Kind::kLied:
      return Lied(from, message, now);
    case Kind::kRewound:
      if (!leads || lied_in_ == generation_) return;
      lie_ = {};
      saved_ = message.saved != 0;
      return;
    case Kind::kEnding:
      from.state = State::kEnding;
      from.ends_since = std::min(from.ends_since, now);
      from.exit_code = message.exit_code;
      if (message.exit_code != kExitDone && text_.empty() && !over_) text_ = message.text.data();
      return;
    default:
      return;  // only a supervisor says such things
  }
}

// Those behind the ranks that train have given what they held, if anything.
void Roster::Began(const MemberMessage& message) {
  for (auto& [id, process] : processes_) {
    if (process.rank >= message.stages * message.replicas) process.outside = true;
  }
}

// Only rank 0 of the present group knows what its ranks take.
void Roster::Replan(const Process& from, const MemberMessage& message) {
  if (from.state != State::kInGroup || from.rank != 0 || broken_) return;
  replan_ = true;
  const auto count = std::clamp<size_t>(static_cast<size_t>(std::max(message.ordered, 0)), 0,
                                        message.order.size());
  order_.assign(message.order.begin(), message.order.begin() + static_cast<ptrdiff_t>(count));
  work_ = message.text.data();
}

// All of the group say the same, but for those that were lost meanwhile; the first one counts. Whether
// or not the rank is still there, what all of them hold is not to be used.
void Roster::Lied(const Process& from, const MemberMessage& message, absl::Duration now) {
  if (from.state != State::kInGroup || lied_in_ == generation_ || !message.lie.found()) return;
  lied_in_ = generation_;
  lie_ = message.lie;
  lie_text_ = message.text.data();
  // A bit that memory has lost says nothing of audits that came before.
  vouched_step_ = vouched_step_ < 0 ? lie_.good_step : std::min(vouched_step_, lie_.good_step);
  broken_ = true;
  broken_at_ = std::min(broken_at_, now);
  for (auto& [id, process] : processes_) {
    if (process.rank != lie_.rank) continue;
    LeaveOut(process);
    if (Lives(process)) {
      process.lies = true;
      process.state = State::kEnding;
    } else if (process.bad_cores.any()) {
      events_.push_back({.kind = Event::Kind::kLeftOut,
                         .process = id,
                         .rank = process.rank,
                         .lie = lie_,
                         .left_out = process.bad_cores});
    }
  }
}

// The core that has computed wrong would do so again, whichever process it runs. Memory that has lost a
// bit is that of all cores.
void Roster::LeaveOut(Process& process) {
  if (lie_.others_hold_right) return;
  process.bad_cores = process.cores;
  left_out_ |= process.cores;
}

// All cores have computed wrong, and whoever did is gone.
bool Roster::LacksCores() const {
  return options_.cores.any() && (options_.cores & ~left_out_).none() &&
         Count([](const Process& p) { return p.lies && p.state != State::kEnded; }) == 0;
}

// Whether another process would have to share the cores of one that is left, or would have none.
bool Roster::HasCoresForOneMore(const Process& lost) const {
  if (options_.cores.none() || lost.bad_cores.none()) return true;
  const auto sound = static_cast<int>((options_.cores & ~left_out_).count());
  const auto of_rank = static_cast<int>(lost.bad_cores.count());
  return sound >= (LivingRanks() + to_start_ + 1) * of_rank;
}

void Roster::Ended(int id, const ProcessEnd& end, absl::Duration now) {
  const auto entry = processes_.find(id);
  if (entry == processes_.end() || entry->second.state == State::kEnded) return;
  Process& process = entry->second;
  const bool was_busy = IsBusy(process) || process.state == State::kEnding;
  const bool leads = was_busy && process.rank == 0 && !process.leaving;
  process.state = State::kEnded;
  if (over_) return;
  if (process.lies) return Lost(id, process, end, now);
  if (process.exit_code) {
    const int code = *process.exit_code;
    // One more that cannot begin, since the machine has no room for it maybe.
    const bool needed =
        process.was_ready || generation_ == 0 || LivingRanks() + to_start_ < options_.min_ranks;
    if (!needed && code != kExitDone && code != kExitInterrupted) {
      events_.push_back({.kind = Event::Kind::kLost,
                         .process = id,
                         .end = end,
                         .restarts_left = options_.max_restarts - restarts_,
                         .text = std::exchange(text_, "")});
      return;
    }
    if (leads || (code != kExitDone && code != kExitInterrupted)) {
      if (code == kExitInterrupted && code_once_stopped_) {
        return Over(*code_once_stopped_, text_once_stopped_, now);
      }
      return Over(code, std::exchange(text_, ""), now);
    }
    if (process.leaving) {
      events_.push_back({.kind = Event::Kind::kLeft, .process = id, .rank = process.rank});
    } else {
      ends_ = true;  // as the others soon will
    }
    return;
  }
  // A program that ends by itself without a word has said on stderr what is wrong; another would find
  // the same. One that hangs ends itself as one that has lost a peer.
  if (!end.by_signal && !(process.was_ready && end.code == kExitPeerLost)) {
    return Over(end.code == kExitDone ? kExitBadInput : end.code,
                end.code == kExitDone ? "a process ended before the run was done" : "", now);
  }
  Lost(id, process, end, now);
}

void Roster::Done(int process, int exit_code, absl::Duration now) {
  const auto entry = processes_.find(process);
  if (over_ || entry == processes_.end() || !Lives(entry->second)) return;
  // One that could not write a file says why when it ends.
  if (exit_code == kExitDone || exit_code == kExitInterrupted) return Over(exit_code, "", now);
  entry->second.exit_code = exit_code;
}

void Roster::Lost(int id, Process& process, const ProcessEnd& end, absl::Duration now) {
  lost_at_ = absl::ToInt64Nanoseconds(now);
  const bool may_be_replaced = !process.leaving && !ends_ && restarts_ < options_.max_restarts;
  const bool enough = LivingRanks() + to_start_ >= options_.min_ranks;
  const bool no_core = may_be_replaced && enough && !HasCoresForOneMore(process);
  if (may_be_replaced && !no_core) {
    ++restarts_;
    ++to_start_;
  }
  events_.push_back({.kind = Event::Kind::kLost,
                     .process = id,
                     .rank = process.rank,
                     .end = end,
                     .restarts_left = options_.max_restarts - restarts_,
                     .hung = process.killed && !process.lies,
                     .lie = process.lies ? lie_ : LyingRank(),
                     .left_out = process.bad_cores,
                     .no_core = no_core});
}

void Roster::Grow() { ++to_start_; }

bool Roster::Shrink() {
  if (LivingRanks() + to_start_ <= options_.min_ranks) return false;
  Process* last = nullptr;
  for (auto& [id, process] : processes_) {
    const bool may = Lives(process) && !process.leaving && process.state != State::kEnding;
    if (may && (last == nullptr || process.rank >= last->rank)) last = &process;
  }
  if (last != nullptr) last->leaving = true;
  return last != nullptr;
}

// Batch systems send the signal to the processes, too, before this or after it. They then end with
// the run, as those do that were not asked to leave.
void Roster::Stop(absl::Duration now) {
  stop_asked_ = true;
  code_once_stopped_.reset();
  for (auto& [id, process] : processes_) {
    const bool has_gone = process.outside && process.state == State::kEnding;
    const bool gives = process.rank >= size_;
    if (!has_gone && !gives) process.leaving = false;
  }
  if (generation_ == 0) Over(kExitInterrupted, "", now);
}

void Roster::Over(int exit_code, std::string text, absl::Duration now) {
  over_ = true;
  over_at_ = now;
  exit_code_ = exit_code;
  text_ = std::move(text);
  to_start_ = 0;
}

bool Roster::AllHaveEnded() const {
  return Count([](const Process& p) { return p.state != State::kEnded; }) == 0;
}

bool Roster::done() const { return over_ && AllHaveEnded(); }

std::string Roster::TooFew() const {
  const int lost = Count([](const Process& p) {
    return p.state == State::kEnded && !p.leaving && (p.lies || !p.exit_code);
  });
  const int leaving = Count([](const Process& p) { return p.leaving; });
  std::string text =
      absl::StrCat(Counted(LivingRanks(), "process"), LivingRanks() == 1 ? " is" : " are",
                   " left; expected at least ", options_.min_ranks, " (--min-ranks)");
  if (lost > 0 && restarts_ >= options_.max_restarts) {
    absl::StrAppend(&text, ", and no more may be started in place of those that were lost ",
                    "(--max-restarts ", options_.max_restarts, ")");
  }
  if (leaving > 0) {
    absl::StrAppend(&text, ", and none is started in place of ",
                    leaving == 1 ? "one that was" : "those that were", " told to leave (SIGTERM)");
  }
  return text;
}

MemberMessage Roster::Message(Kind kind) const {
  return {.kind = kind, .generation = generation_, .lost_at = lost_at_};
}

void Roster::Send(int id, Kind kind, std::vector<Order>* orders) const {
  orders->push_back({.kind = Order::Kind::kSend, .process = id, .message = Message(kind)});
}

void Roster::Kill(int id, Process& process, std::vector<Order>* orders) {
  if (std::exchange(process.killed, true)) return;
  orders->push_back({.kind = Order::Kind::kKill, .process = id});
}

// Nobody trains, or is about to say how the run has ended.
bool Roster::NobodyIsLeft() const {
  return Count(IsBusy) == 0 &&
         Count([](const Process& p) { return p.state == State::kEnding; }) == 0;
}

void Roster::EndTooFew(absl::Duration now) {
  // Nobody has said how the run ends: all were told to leave, or the first rank was lost as the last
  // one.
  const bool none = !processes_.empty() && to_start_ == 0 && AllHaveEnded();
  const bool few = LivingRanks() + to_start_ < options_.min_ranks;
  if (over_ || !(none || few)) return;
  if (ends_ || code_once_stopped_ || none) {
    if (!NobodyIsLeft()) return;  // the run ends as they say
    return Over(code_once_stopped_.value_or(kExitPeerLost),
                code_once_stopped_ ? text_once_stopped_ : TooFew(), now);
  }
  const bool trains = !broken_ &&
                      Count([](const Process& p) { return p.state == State::kInGroup; }) > 0 &&
                      Count(IsFree) == 0;
  if (trains) {  // those that leave are still there: the run can be saved
    if (stop_asked_) return;
    code_once_stopped_ = kExitPeerLost;
    text_once_stopped_ = TooFew();
    stop_asked_ = true;
  } else {
    Over(kExitPeerLost, lie_.found() ? absl::StrCat(lie_text_, "; ", TooFew()) : TooFew(), now);
  }
}

std::vector<Roster::Order> Roster::Orders(absl::Duration now) {
  std::vector<Order> orders;
  NoticeBroken(now);
  EndTooFew(now);
  if (LacksCores() && !over_ && !ends_) {
    Over(kExitPeerLost,
         absl::StrCat(lie_text_, "; it had ", CoreNames(left_out_),
                      ", and there is no core that has not computed wrong"),
         now);
  }
  if (over_) {
    WindUp(now, &orders);
    return orders;
  }
  TellToStop(&orders);
  EndLate(now, &orders);
  AskAround(now, &orders);
  LetGo(now, &orders);
  StartProcesses(&orders);
  EndBrokenGroup(now, &orders);
  AskToRegroup(&orders);
  if (MayForm(now)) Form(&orders);
  LetMeet(&orders);
  return orders;
}

// Also those that were started since.
void Roster::TellToStop(std::vector<Order>* orders) {
  if (!stop_asked_) return;
  for (auto& [id, process] : processes_) {
    if (Lives(process) && !std::exchange(process.told_to_stop, true)) {
      Send(id, Kind::kStop, orders);
    }
  }
}

// Those that compute wrong, and those that have said their last word and do not end.
void Roster::EndLate(absl::Duration now, std::vector<Order>* orders) {
  for (auto& [id, process] : processes_) {
    if (!Lives(process)) continue;
    if (process.lies || now >= process.ends_since + timeout_) Kill(id, process, orders);
  }
}

// Whoever leaves and holds nothing that it could give need not wait for a group.
void Roster::LetGo(absl::Duration now, std::vector<Order>* orders) {
  for (auto& [id, process] : processes_) {
    if (process.state != State::kSpare || !process.leaving) continue;
    process.state = State::kEnding;
    process.ends_since = now;
    Send(id, Kind::kOver, orders);
  }
}

// Those that wait are told at once; those that train end by themselves, or are ended.
void Roster::WindUp(absl::Duration now, std::vector<Order>* orders) {
  for (auto& [id, process] : processes_) {
    if (!Lives(process)) continue;
    const bool waits =
        IsFree(process) || process.state == State::kPreparing || process.state == State::kPrepared;
    if (waits && !std::exchange(process.sent_away, true)) Send(id, Kind::kOver, orders);
    if (now >= over_at_ + timeout_) Kill(id, process, orders);
  }
}

bool Roster::MayBeAsked(const Process& process) {
  return process.was_ready && !process.killed && process.state != State::kEnding &&
         process.state != State::kEnded;
}

// Ends who has not answered for the time-out: of several ranks those that wait for it notice, too, but
// one rank alone, or a spare, has nobody who would. Looks are counted, not time: a pause of the whole
// job, the supervisor included, is one look long.
void Roster::AskAround(absl::Duration now, std::vector<Order>* orders) {
  if (now < next_look_ || Count(MayBeAsked) == 0) return;
  next_look_ = now + kLook;
  for (auto& [id, process] : processes_) {
    if (!MayBeAsked(process)) continue;
    if (!std::exchange(process.asked, true)) {
      Send(id, Kind::kAsk, orders);
    } else if (++process.looks * kLook >= timeout_) {
      Kill(id, process, orders);
    }
  }
}

// The first process alone, until it is ready: so that what is wrong with the flags is said once.
void Roster::StartProcesses(std::vector<Order>* orders) {
  const bool known = Count([](const Process& p) { return p.was_ready; }) > 0;
  if (!known && !processes_.empty() && Starts()) return;
  while (to_start_ > 0) {
    --to_start_;
    orders->push_back({.kind = Order::Kind::kStart, .process = next_});
    processes_[next_++] = {};
    if (!known) return;
  }
}

void Roster::NoticeBroken(absl::Duration now) {
  if (Count(IsBusy) == 0) return;
  for (const auto& [id, process] : processes_) {
    const bool of_group = process.rank >= 0 && generation_ > 0 && !process.outside;
    const bool is_back = process.state == State::kWaiting && process.was_ready && of_group;
    const bool was_lost = process.state == State::kEnded && !process.exit_code && of_group;
    if (is_back || was_lost) broken_ = true;
  }
  if (broken_ && broken_at_ == absl::InfiniteDuration()) broken_at_ = now;
}

void Roster::EndBrokenGroup(absl::Duration now, std::vector<Order>* orders) {
  if (!broken_) return;
  for (auto& [id, process] : processes_) {
    if (!IsBusy(process)) continue;
    const bool prepares = process.state == State::kPreparing || process.state == State::kPrepared;
    if (prepares && !std::exchange(process.sent_away, true)) Send(id, Kind::kBack, orders);
    const bool missed = missing_ >= 0 && process.rank == missing_;
    if (missed || now >= broken_at_ + timeout_) Kill(id, process, orders);
  }
}

// Also where the group is broken: those that do not need the one that was lost would not notice.
void Roster::AskToRegroup(std::vector<Order>* orders) {
  if (asked_ || stop_asked_) return;
  if (Count([](const Process& p) { return p.state == State::kInGroup; }) == 0) return;
  const int waiting = Count([](const Process& p) { return p.state == State::kWaiting; });
  const int leaving =
      Count([](const Process& p) { return p.state == State::kInGroup && p.leaving; });
  if (waiting + leaving == 0 && !replan_ && !broken_) return;
  asked_ = true;
  for (const auto& [id, process] : processes_) {
    if (process.state == State::kInGroup) Send(id, Kind::kRegroup, orders);
  }
}

bool Roster::MayForm(absl::Duration now) const {
  if (Count(IsBusy) > 0 || Count([](const Process& p) { return p.state == State::kEnding; }) > 0) {
    return false;
  }
  const int waiting = Count([](const Process& p) { return p.state == State::kWaiting; });
  const int ranks = Count([](const Process& p) { return IsFree(p) && !p.leaving; });
  if (waiting == 0 || ranks < std::max(options_.min_ranks, 1)) return false;
  const bool all = !Starts() && to_start_ == 0;
  return all || (generation_ > 0 && now >= waits_since_ + options_.join_patience);
}

// Whoever has state keeps its rank; the others take those that are left.
std::vector<std::pair<int, Roster::Process*>> Roster::KeepRanks(
    const std::vector<std::pair<int, Process*>>& ranks) {
  std::vector<std::pair<int, Process*>> placed(ranks.size()), others;
  for (const auto& entry : ranks) {
    const int held = entry.second->held_rank;
    const bool keeps = held >= 0 && held < static_cast<int>(ranks.size()) &&
                       placed[static_cast<size_t>(held)].second == nullptr;
    (keeps ? placed[static_cast<size_t>(held)] : others.emplace_back()) = entry;
  }
  auto next = others.begin();
  for (auto& place : placed) {
    if (place.second == nullptr) place = *next++;
  }
  return placed;
}

// Where the group is that for which other work was asked: gives its ranks the order that was asked for.
// False where it is another one, or nobody has asked.
bool Roster::Reorder(std::vector<std::pair<int, Process*>>* ranks) {
  if (static_cast<int>(ranks->size()) != size_) return false;
  for (size_t rank = 0; rank < ranks->size(); ++rank) {
    if ((*ranks)[rank].second->rank != static_cast<int>(rank)) return false;
  }
  std::vector<int> all(ranks->size());
  std::iota(all.begin(), all.end(), 0);
  if (!replan_ || !std::is_permutation(all.begin(), all.end(), order_.begin(), order_.end()))
    return true;
  const std::vector<std::pair<int, Process*>> before = *ranks;
  for (size_t rank = 0; rank < before.size(); ++rank)
    (*ranks)[rank] = before[static_cast<size_t>(order_[rank])];
  return true;
}

void Roster::Form(std::vector<Order>* orders) {
  std::vector<std::pair<int, Process*>> ranks, givers;
  for (auto& [id, process] : processes_) {
    if (IsFree(process)) (process.leaving ? givers : ranks).emplace_back(id, &process);
  }
  const auto count = static_cast<int>(ranks.size());
  // Whoever has state keeps its rank, or at least its place among the others; without any, the rank of
  // the last group.
  std::stable_sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) {
    const auto key = [](const Process& p) {
      return std::make_tuple(p.held_rank < 0, p.held_rank, p.rank < 0, p.rank);
    };
    return key(*a.second) < key(*b.second);
  });
  if (count == size_) ranks = KeepRanks(ranks);
  if (!Reorder(&ranks)) work_.clear();
  replan_ = false;
  for (auto& [id, process] : processes_) {
    process.rank = -1;
    process.outside = false;
    process.cores.reset();
  }
  const int last_size = std::exchange(size_, count);
  ++generation_;
  broken_ = asked_ = false;
  missing_ = -1;
  broken_at_ = waits_since_ = absl::InfiniteDuration();
  ranks.insert(ranks.end(), givers.begin(), givers.end());
  MemberMessage place = Message(Kind::kGroup);
  place.size = static_cast<int>(ranks.size());
  place.last_size = last_size;
  place.givers = static_cast<int>(givers.size());
  place.saved = saved_ ? 1 : 0;
  place.took = found_ ? 1 : 0;
  place.SetFound(found_.value_or(""));
  place.vouched_step = vouched_step_;
  place.lie = lie_;
  place.cores = left_out_;
  place.port = ranks.front().second->port;
  place.replans = options_.replans ? 1 : 0;
  place.SetText(work_);
  const std::string secret =
      absl::StrCat(options_.secret, generation_).substr(0, place.secret.size() - 1);
  std::copy(secret.begin(), secret.end(), place.secret.begin());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    Process& process = *ranks[rank].second;
    process.state = State::kPreparing;
    process.rank = place.rank = static_cast<int>(rank);
    orders->push_back({.kind = Order::Kind::kSend, .process = ranks[rank].first, .message = place});
  }
  lost_at_ = 0;
}

void Roster::LetMeet(std::vector<Order>* orders) {
  const bool all = !broken_ && Count([](const Process& p) {
                                 return p.state == State::kPrepared;
                               }) == Count(IsBusy);
  if (!all) return;
  for (auto& [id, process] : processes_) {
    if (process.state != State::kPrepared) continue;
    process.state = State::kInGroup;
    Send(id, Kind::kMeet, orders);
  }
}

absl::Duration Roster::NextDeadline(absl::Duration now) const {
  absl::Duration next = absl::InfiniteDuration();
  for (const absl::Duration deadline :
       {over_at_ + timeout_, broken_at_ + timeout_, waits_since_ + options_.join_patience}) {
    if (deadline > now) next = std::min(next, deadline);
  }
  for (const auto& [id, process] : processes_) {
    if (Lives(process) && !process.killed) next = std::min(next, process.ends_since + timeout_);
  }
  if (!over_ && Count(MayBeAsked) > 0) next = std::min(next, std::max(next_look_, now));
  return next;
}

std::vector<Roster::Event> Roster::TakeEvents() { return std::exchange(events_, {}); }

}  // namespace sluice
