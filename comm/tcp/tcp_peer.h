#ifndef SLUICE_COMM_TCP_TCP_PEER_H_
#define SLUICE_COMM_TCP_TCP_PEER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "comm/message_queue.h"
#include "comm/tcp/diagnosis.h"
#include "comm/tcp/tcp_frame.h"
#include "comm/tcp/tcp_link.h"

namespace sluice {

// The two connections to one peer, and what is under way on them. Used by the transport's thread
// alone, but for health(). Nothing here blocks; what goes wrong is told to the queue, which then
// fails the whole group.
class TcpPeer {
 public:
  TcpPeer(MessageQueue* queue, int rank, TcpLink link);

  // A post for this peer from the queue.
  void Take(const Post& post);
  // Each moves what the sockets take or have, within limits so that no peer waits for another.
  void ReadControl();
  void ReadData();
  void Write();

  // Touches no memory of posts from now on, and tells the peer why.
  void Fail(const absl::Status& status);
  // Tells the peer that this rank lives, which rank it waits for (kNoRank: none), and for how long
  // it has heard nothing of that one.
  void SendHeartbeat(int awaits, absl::Duration silence);
  // Tells the peer that this rank sends no more. HasShutDown once the peer has heard so, or knows
  // of the failure, or is gone.
  void StartShutdown();
  bool HasShutDown() const;

  // Whether the peer has said that it knows of a failure: not yet; yes; or it no longer will, since
  // it is gone or had left before. Any thread may ask.
  enum class Word : uint8_t { kAwaited, kKnows, kNone };
  Word word_of_failure() const { return word_.load(std::memory_order_acquire); }

  // What to wait for on the sockets.
  bool wants_to_write_control() const { return control_open_ && !control_out_.empty(); }
  bool wants_to_write_data() const { return data_writable_ && sending_; }
  bool wants_to_read_control() const { return control_open_; }
  bool wants_to_read_data() const { return data_open_ && !failed_; }
  const TcpLink& link() const { return link_; }
  int rank() const { return rank_; }

  // How long nothing was heard of the peer, and what it said last. Any thread may ask.
  RankHealth health() const;

 private:
  struct Channel {
    std::deque<Post> sends;     // not begun
    std::deque<Post> receives;  // not complete; the peer knows of them
    std::deque<Frame> ready;    // the peer's receives for which nothing has been begun
  };

  void Heard();
  void QueueControl(const Frame& frame, absl::string_view body = "");
  void ParseControl();
  void HandleControl(const Frame& frame, absl::string_view body);
  bool MakesSense(const Frame& frame) const;
  void ControlClosed(const std::string& why);
  void CheckNothingIsMissing();
  bool StartSending();  // false where no message may go
  void WriteControl();
  void WriteData();
  bool StartReceiving();  // at a whole header; false after an error
  void FinishReceiving();
  size_t Consume(const char* bytes, size_t size);
  void DataClosed();
  void DataChanged();

  MessageQueue* const queue_;
  const int rank_;
  TcpLink link_;
  Channel channels_[kChannels];
  std::atomic<int64_t> last_heard_ns_{0};
  // The peer's last heartbeat, in one word that is never half written: 1 more than the rank that it
  // waits for (upper 32 bits), and the milliseconds for which it had heard nothing of that rank.
  std::atomic<uint64_t> last_heartbeat_{0};

  bool control_open_ = true;
  std::string control_in_, control_out_;

  bool data_open_ = true;  // the peer may still send
  bool data_writable_ = true;
  bool sending_ = false;
  Frame out_frame_;
  Post out_post_;
  size_t out_done_ = 0;  // of header and body together
  Frame in_frame_;
  size_t in_header_ = 0;  // bytes of in_frame_ that are here
  size_t in_body_ = 0;    // bytes of the body that are here
  std::vector<char> staging_;

  bool failed_ = false;
  bool peer_shut_down_ = false;       // the peer has said so
  bool peer_heard_shutdown_ = false;  // the peer has heard that this rank shuts down
  bool shutting_down_ = false;        // this rank shuts down
  std::atomic<Word> word_{Word::kAwaited};
};

}  // namespace sluice

#endif  // SLUICE_COMM_TCP_TCP_PEER_H_
