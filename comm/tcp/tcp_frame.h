#ifndef SLUICE_COMM_TCP_TCP_FRAME_H_
#define SLUICE_COMM_TCP_TCP_FRAME_H_

#include <bit>
#include <cstdint>

namespace sluice {

// What ranks send each other over TCP once they have met: headers, each followed by `bytes` bytes
// where its kind has a body. All ranks of a group run the same build (the program checks that
// they run the same plan), so a header is sent as it lies in memory.
//
// A message travels in two steps: the receiver says kReady when its receive is posted, then the
// sender sends kData. So a message never waits in the middle of a connection for a receiver that is
// not ready, is always read straight into its place, and costs no memory but the two arenas'; and
// both sides see when their sizes differ.
enum class FrameKind : uint8_t {
  kData = 1,  // the message, on the data connection; all others go on the control connection
  kReady,     // receive `ticket` on this channel awaits `bytes` bytes; no body
  kAbort,     // `ticket` is the status' code, the body what EncodeError makes of the rest
  // A sign of life. `ticket` is 0 where the sender waits for no rank, else 1 more than the rank it
  // waits for; `bytes` are the milliseconds for which it has heard nothing of that rank. No body.
  kHeartbeat,
  kShutdown,       // this rank sends no more, and closes once the peer has heard so
  kShutdownHeard,  // everything up to kShutdown, and the end of the data connection has been read
};

struct Frame {
  FrameKind kind = FrameKind::kHeartbeat;
  uint8_t channel = 0;
  uint8_t unused[6] = {};
  uint64_t ticket = 0;
  uint64_t bytes = 0;
};
static_assert(sizeof(Frame) == 24 && std::endian::native == std::endian::little);

}  // namespace sluice

#endif  // SLUICE_COMM_TCP_TCP_FRAME_H_
