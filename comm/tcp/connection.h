#ifndef SLUICE_COMM_TCP_CONNECTION_H_
#define SLUICE_COMM_TCP_CONNECTION_H_

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "comm/tcp/tcp_socket.h"

namespace sluice {

// A connection between two ranks that have met, encrypted or not. Its calls never block.
class Connection {
 public:
  // Of one connection alone (greeting_proof.h).
  using Key = std::array<uint8_t, 32>;
  enum class Side { kCaller, kAccepted };
  // Keys are changed long before AES-GCM's limit of 2^24.5 records (RFC 8446, section 5.5).
  static constexpr uint64_t kRecordsOfAKey = uint64_t{1} << 22U;

  Connection();
  explicit Connection(Descriptor socket);
  // TLS 1.3 with `key` as its pre-shared key, and fresh keys of a Diffie-Hellman exchange. Returns
  // once the other side has proven that it has the same key. Unavailable where it hangs up.
  static absl::StatusOr<Connection> Encrypt(Descriptor socket, Side side, const Key& key,
                                            Instant deadline,
                                            uint64_t records_of_a_key = kRecordsOfAKey);
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&& other) noexcept;
  ~Connection();

  // As sendmsg and recv: a number of bytes, 0 at the end of what the other side sends, or -1 and
  // errno; EAGAIN where the socket must be awaited, EBADMSG where bytes were changed on the way.
  // After EAGAIN the next Send begins with the same bytes.
  ssize_t Send(const iovec* parts, int count);
  ssize_t Receive(char* bytes, size_t most);
  // Whether bytes are here that the socket no longer has, so that nobody would be woken for them.
  bool has_more() const;
  // This side sends no more.
  void FinishSending();
  void Close();

  const Descriptor& socket() const { return socket_; }
  bool valid() const { return socket_.valid(); }
  bool encrypted() const { return tls_ != nullptr; }

 private:
  struct Tls;

  Descriptor socket_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace sluice

#endif  // SLUICE_COMM_TCP_CONNECTION_H_
