#include "comm/tcp/tcp_peer.h"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "comm/where.h"
#include "models/device/instant.h"

namespace sluice {
namespace {

constexpr size_t kStagingBytes = 16 << 10;
// What one call may move before the other peers have their turn.
constexpr size_t kTurnBytes = 1 << 20;
// Channels, the first to be served first: collectives are short, and the background has time.
constexpr int kByUrgency[kChannels] = {kCollectiveChannel, kBackgroundCollectiveChannel,
                                       kProgramChannel, kBackgroundChannel};
constexpr size_t kMostMessageBytes = 4096;
constexpr size_t kMostAbortBytes = kMostMessageBytes + kLongestWhere;
constexpr uint64_t kMostMilliseconds = 0xffffffff;

int64_t NowNanoseconds() { return absl::ToInt64Nanoseconds(Instant::Now() - Instant()); }

bool TryAgain(int error) { return error == EAGAIN || error == EINTR; }

// Why a connection ended, in the words of which a person needs to know one.
std::string ClosedBecause(ssize_t got, int error) {
  if (got == 0 || error == ECONNRESET || error == EPIPE) return "connection closed";
  if (error == EBADMSG) return "its bytes were changed on the way";
  return ErrnoText(error);
}

}  // namespace

TcpPeer::TcpPeer(MessageQueue* queue, int rank, TcpLink link)
    : queue_(queue), rank_(rank), link_(std::move(link)), staging_(kStagingBytes) {
  Heard();
}

void TcpPeer::Heard() { last_heard_ns_.store(NowNanoseconds(), std::memory_order_relaxed); }

RankHealth TcpPeer::health() const {
  const uint64_t heartbeat = last_heartbeat_.load(std::memory_order_relaxed);
  return {.silence =
              absl::Nanoseconds(NowNanoseconds() - last_heard_ns_.load(std::memory_order_relaxed)),
          .awaits = static_cast<int>(heartbeat >> 32U) - 1,
          .awaited_silence = absl::Milliseconds(heartbeat & kMostMilliseconds)};
}

void TcpPeer::Take(const Post& post) {
  if (failed_) return;
  Channel& channel = channels_[post.channel];
  if (post.direction == Direction::kSend) {
    channel.sends.push_back(post);
  } else {
    channel.receives.push_back(post);
    QueueControl({.kind = FrameKind::kReady,
                  .channel = static_cast<uint8_t>(post.channel),
                  .ticket = post.ticket,
                  .bytes = post.bytes});
  }
  CheckNothingIsMissing();
}

void TcpPeer::QueueControl(const Frame& frame, absl::string_view body) {
  if (!control_open_) return;
  // A frame whose body finds no memory must not be sent: what follows would be taken for its body.
  control_out_.reserve(control_out_.size() + sizeof(frame) + body.size());
  control_out_.append(reinterpret_cast<const char*>(&frame), sizeof(frame));
  absl::StrAppend(&control_out_, body);
}

void TcpPeer::ReadControl() {
  char buffer[4096];
  while (control_open_) {
    const ssize_t got = link_.control.Receive(buffer, sizeof(buffer));
    if (got <= 0) {
      if (got == 0 || !TryAgain(errno)) ControlClosed(ClosedBecause(got, errno));
      return;
    }
    Heard();
    control_in_.append(buffer, static_cast<size_t>(got));
    ParseControl();
    if (static_cast<size_t>(got) < sizeof(buffer)) return;
  }
}

void TcpPeer::ParseControl() {
  absl::string_view rest = control_in_;
  while (rest.size() >= sizeof(Frame)) {
    Frame frame;
    std::memcpy(&frame, rest.data(), sizeof(frame));
    const size_t body = frame.kind == FrameKind::kAbort ? frame.bytes : 0;
    if (!MakesSense(frame)) return ControlClosed("it sent bytes that make no sense");
    if (rest.size() < sizeof(Frame) + body) break;
    HandleControl(frame, rest.substr(sizeof(Frame), body));
    rest.remove_prefix(sizeof(Frame) + body);
  }
  control_in_.erase(0, control_in_.size() - rest.size());
}

// Whether a rank sends such a frame on a control connection.
bool TcpPeer::MakesSense(const Frame& frame) const {
  if (frame.kind < FrameKind::kReady || frame.kind > FrameKind::kShutdownHeard) return false;
  if (frame.kind == FrameKind::kAbort && frame.bytes > kMostAbortBytes) return false;
  const auto ranks = static_cast<uint64_t>(queue_->size());
  if (frame.kind == FrameKind::kHeartbeat && frame.ticket > ranks) return false;
  return frame.channel < kChannels;
}

void TcpPeer::HandleControl(const Frame& frame, absl::string_view body) {
  switch (frame.kind) {
    case FrameKind::kReady:
      channels_[frame.channel].ready.push_back(frame);
      return;
    case FrameKind::kAbort:
      // Of one that had left, only the transport still answers.
      word_.store(peer_shut_down_ ? Word::kNone : Word::kKnows, std::memory_order_release);
      queue_->Fail(DecodeError(frame.ticket, body));
      return;
    case FrameKind::kShutdown:
      peer_shut_down_ = true;
      if (!data_open_) QueueControl({.kind = FrameKind::kShutdownHeard});
      CheckNothingIsMissing();
      return;
    case FrameKind::kShutdownHeard:
      peer_heard_shutdown_ = true;
      return;
    case FrameKind::kHeartbeat:
      last_heartbeat_.store(frame.ticket << 32U | std::min(frame.bytes, kMostMilliseconds),
                            std::memory_order_relaxed);
      return;
    default:
      return;
  }
}

void TcpPeer::ControlClosed(const std::string& why) {
  control_open_ = false;
  Word awaited = Word::kAwaited;
  word_.compare_exchange_strong(awaited, Word::kNone, std::memory_order_acq_rel);
  control_out_.clear();
  if (!peer_shut_down_) {
    queue_->Fail(WithPeer(
        absl::UnavailableError(absl::StrCat("rank ", rank_, " is gone (", why, ")")), rank_));
  }
  CheckNothingIsMissing();
}

// Fails where messages are posted for a peer that has shut down: they will never be exchanged.
void TcpPeer::CheckNothingIsMissing() {
  if (!peer_shut_down_ || failed_) return;
  bool expected = sending_;
  for (const Channel& channel : channels_) {
    expected = expected || !channel.sends.empty() || (!data_open_ && !channel.receives.empty());
  }
  if (!expected) return;
  queue_->Fail(WithPeer(
      absl::UnavailableError(absl::StrCat("rank ", rank_, " has left, though rank ", queue_->rank(),
                                          " has messages to exchange with it")),
      rank_));
}

bool TcpPeer::StartSending() {
  for (const int c : kByUrgency) {
    Channel& channel = channels_[c];
    if (channel.sends.empty() || channel.ready.empty()) continue;
    out_post_ = channel.sends.front();
    const Frame ready = channel.ready.front();
    if (ready.bytes != out_post_.bytes || ready.ticket != out_post_.ticket) {
      queue_->Fail(
          DifferentSizes(out_post_.ticket, queue_->rank(), rank_, out_post_.bytes, ready.bytes));
      return false;
    }
    channel.sends.pop_front();
    channel.ready.pop_front();
    out_frame_ = {.kind = FrameKind::kData,
                  .channel = static_cast<uint8_t>(c),
                  .ticket = out_post_.ticket,
                  .bytes = out_post_.bytes};
    out_done_ = 0;
    return true;
  }
  return false;
}

void TcpPeer::Write() {
  WriteControl();
  if (failed_ || queue_->failed()) return;
  WriteData();
  if (shutting_down_ && !sending_ && data_writable_) {
    data_writable_ = false;
    link_.data.FinishSending();
  }
}

void TcpPeer::WriteControl() {
  while (wants_to_write_control()) {
    const iovec all{.iov_base = control_out_.data(), .iov_len = control_out_.size()};
    const ssize_t sent = link_.control.Send(&all, 1);
    if (sent < 0 && TryAgain(errno)) return;
    if (sent <= 0) {
      control_out_.clear();  // reading will say what happened
      return;
    }
    control_out_.erase(0, static_cast<size_t>(sent));
  }
}

void TcpPeer::WriteData() {
  size_t moved = 0;
  while (data_writable_) {
    if (!sending_ && !(sending_ = StartSending())) return;
    if (moved >= kTurnBytes) return;  // the next poll sees that there is more
    const size_t header = sizeof(Frame) - std::min(out_done_, sizeof(Frame));
    const size_t body_done = out_done_ - std::min(out_done_, sizeof(Frame));
    iovec parts[2] = {{.iov_base = reinterpret_cast<char*>(&out_frame_) + (sizeof(Frame) - header),
                       .iov_len = header},
                      {.iov_base = out_post_.data + body_done,
                       .iov_len = std::min(out_post_.bytes - body_done, kTurnBytes)}};
    const ssize_t sent = link_.data.Send(parts, out_post_.bytes > body_done ? 2 : 1);
    if (sent < 0 && TryAgain(errno)) return;
    if (sent <= 0) {
      data_writable_ = false;  // the control connection will say what happened
      return;
    }
    out_done_ += static_cast<size_t>(sent);
    moved += static_cast<size_t>(sent);
    if (out_done_ < sizeof(Frame) + out_post_.bytes) continue;
    sending_ = false;
    queue_->Complete(Direction::kSend, out_post_.channel, rank_);
  }
}

void TcpPeer::ReadData() {
  size_t moved = 0;
  while (data_open_ && !failed_ && !queue_->failed() &&
         (moved < kTurnBytes || link_.data.has_more())) {
    // The rest of a long message goes straight to its place; short ones come many at a time.
    const bool in_message = in_header_ == sizeof(Frame);
    const size_t missing = in_message ? in_frame_.bytes - in_body_ : 0;
    const bool straight = missing >= kStagingBytes;
    char* target =
        straight ? channels_[in_frame_.channel].receives.front().data + in_body_ : staging_.data();
    const size_t most = straight ? std::min(missing, kTurnBytes) : kStagingBytes;
    const ssize_t got = link_.data.Receive(target, most);
    if (got <= 0) {
      if (got < 0 && errno == EBADMSG) return DataChanged();
      if (got == 0 || !TryAgain(errno)) DataClosed();
      return;
    }
    Heard();
    moved += static_cast<size_t>(got);
    if (straight) {
      in_body_ += static_cast<size_t>(got);
      if (in_body_ == in_frame_.bytes) FinishReceiving();
      continue;
    }
    size_t used = 0;
    while (used < static_cast<size_t>(got)) {
      const size_t consumed = Consume(target + used, static_cast<size_t>(got) - used);
      if (consumed == 0) return;
      used += consumed;
    }
    if (static_cast<size_t>(got) < most) return;
  }
}

// A part of a header or of a body; 0 after an error.
size_t TcpPeer::Consume(const char* bytes, size_t size) {
  if (in_header_ < sizeof(Frame)) {
    const size_t part = std::min(size, sizeof(Frame) - in_header_);
    std::memcpy(reinterpret_cast<char*>(&in_frame_) + in_header_, bytes, part);
    in_header_ += part;
    if (in_header_ == sizeof(Frame) && !StartReceiving()) return 0;
    return part;
  }
  const size_t part = std::min(size, in_frame_.bytes - in_body_);
  std::memcpy(channels_[in_frame_.channel].receives.front().data + in_body_, bytes, part);
  in_body_ += part;
  if (in_body_ == in_frame_.bytes) FinishReceiving();
  return part;
}

bool TcpPeer::StartReceiving() {
  in_body_ = 0;
  const bool known = in_frame_.kind == FrameKind::kData && in_frame_.channel < kChannels &&
                     !channels_[in_frame_.channel].receives.empty();
  if (known) {
    const Post& post = channels_[in_frame_.channel].receives.front();
    if (post.ticket == in_frame_.ticket && post.bytes == in_frame_.bytes) {
      if (post.bytes == 0) FinishReceiving();
      return true;
    }
  }
  queue_->Fail(absl::InternalError(absl::StrCat(
      "rank ", rank_, " sent bytes that no receive of rank ", queue_->rank(), " has asked for")));
  return false;
}

void TcpPeer::FinishReceiving() {
  in_header_ = 0;
  channels_[in_frame_.channel].receives.pop_front();
  queue_->Complete(Direction::kReceive, in_frame_.channel, rank_);
}

void TcpPeer::DataChanged() {
  data_open_ = false;
  queue_->Fail(WithPeer(
      absl::UnavailableError(absl::StrCat("bytes of rank ", rank_, " were changed on the way")),
      rank_));
}

// The control connection tells whether the peer has shut down or is lost, maybe later.
void TcpPeer::DataClosed() {
  data_open_ = false;
  if (peer_shut_down_) QueueControl({.kind = FrameKind::kShutdownHeard});
  CheckNothingIsMissing();
}

void TcpPeer::Fail(const absl::Status& status) {
  failed_ = true;
  for (Channel& channel : channels_) channel = Channel();
  sending_ = false;
  const std::string error = EncodeError(status, kMostMessageBytes);
  QueueControl({.kind = FrameKind::kAbort,
                .ticket = static_cast<uint64_t>(status.code()),
                .bytes = error.size()},
               error);
}

void TcpPeer::SendHeartbeat(int awaits, absl::Duration silence) {
  if (!control_out_.empty()) return;
  QueueControl({.kind = FrameKind::kHeartbeat,
                .ticket = static_cast<uint64_t>(awaits + 1),
                .bytes = static_cast<uint64_t>(absl::ToInt64Milliseconds(silence))});
}

void TcpPeer::StartShutdown() {
  shutting_down_ = true;
  if (!failed_) QueueControl({.kind = FrameKind::kShutdown});
}

bool TcpPeer::HasShutDown() const {
  return !control_open_ || (failed_ ? word_of_failure() != Word::kAwaited && control_out_.empty()
                                    : peer_heard_shutdown_);
}

}  // namespace sluice
