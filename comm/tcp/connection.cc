#include "comm/tcp/connection.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;
// TLS_AES_128_GCM_SHA256, whose hash is that of the pre-shared key; the suite that is used may be
// another one with the same hash.
constexpr unsigned char kSuiteOfKey[] = {0x13, 0x01};
constexpr char kSuites[] = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
constexpr char kIdentity[] = "sluice";

// A socket as OpenSSL reads and writes one: its own would raise SIGPIPE when the other side is gone.
int FileOf(BIO* bio) { return *static_cast<const int*>(BIO_get_data(bio)); }

int WriteSocket(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t sent = send(FileOf(bio), bytes, static_cast<size_t>(size), MSG_NOSIGNAL);
  if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

int ReadSocket(BIO* bio, char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t got = recv(FileOf(bio), bytes, static_cast<size_t>(size), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
  if (got == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(got);
}

long ControlSocket(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

const BIO_METHOD* SocketMethod() {
  static const BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    if (made == nullptr) return made;
    BIO_meth_set_write(made, WriteSocket);
    BIO_meth_set_read(made, ReadSocket);
    BIO_meth_set_ctrl(made, ControlSocket);
    return made;
  }();
  return method;
}

const Connection::Key& KeyOf(SSL* ssl) {
  return *static_cast<const Connection::Key*>(SSL_get_app_data(ssl));
}

// What both sides use in place of certificates; null where OpenSSL has no memory for it.
SSL_SESSION* SessionOf(SSL* ssl) {
  const Connection::Key& key = KeyOf(ssl);
  SSL_SESSION* session = SSL_SESSION_new();
  const SSL_CIPHER* suite = SSL_CIPHER_find(ssl, kSuiteOfKey);
  if (session != nullptr && suite != nullptr &&
      SSL_SESSION_set1_master_key(session, key.data(), key.size()) == 1 &&
      SSL_SESSION_set_cipher(session, suite) == 1 &&
      SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1) {
    return session;
  }
  SSL_SESSION_free(session);
  return nullptr;
}

int OfferKey(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* length,
             SSL_SESSION** session) {
  *session = SessionOf(ssl);
  *identity = reinterpret_cast<const unsigned char*>(kIdentity);
  *length = std::strlen(kIdentity);
  return *session == nullptr ? 0 : 1;
}

int FindKey(SSL* ssl, const unsigned char* identity, size_t length, SSL_SESSION** session) {
  const bool known =
      length == std::strlen(kIdentity) && std::memcmp(identity, kIdentity, length) == 0;
  *session = known ? SessionOf(ssl) : nullptr;
  return !known || *session != nullptr ? 1 : 0;
}

std::string ReasonText() {
  const char* reason = ERR_reason_error_string(ERR_peek_last_error());
  return reason == nullptr ? "unknown error" : reason;
}

using Context = std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)>;

Context NewContext() {
  Context context(SSL_CTX_new(TLS_method()), SSL_CTX_free);
  if (context == nullptr) return context;
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  SSL_CTX_set_max_proto_version(context.get(), TLS1_3_VERSION);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_num_tickets(context.get(), 0);
  SSL_CTX_set_psk_use_session_callback(context.get(), OfferKey);
  SSL_CTX_set_psk_find_session_callback(context.get(), FindKey);
  SSL_CTX_set_mode(context.get(),
                   SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (SSL_CTX_set_ciphersuites(context.get(), kSuites) != 1) context.reset();
  return context;
}

}  // namespace

struct Connection::Tls {
  int file = -1;  // the socket; it outlives `ssl`, which reads it
  std::unique_ptr<SSL, void (*)(SSL*)> ssl{nullptr, SSL_free};
  Key key{};
  uint64_t records_of_a_key = 0;
  uint64_t records = 0;  // sent under the present key

  // What a call of OpenSSL that returned `result` means to a caller of recv or send.
  ssize_t Result(int result) {
    if (result > 0) return result;
    const int error = errno;
    switch (SSL_get_error(ssl.get(), result)) {
      case SSL_ERROR_WANT_READ:
      case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return -1;
      case SSL_ERROR_ZERO_RETURN:
        return 0;
      case SSL_ERROR_SYSCALL:
        errno = error == 0 ? ECONNRESET : error;
        return -1;
      default:
        // An end of the connection that TLS did not announce is an end all the same: a rank says by
        // a frame that it leaves.
        errno = EBADMSG;
        return ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING ? 0 : -1;
    }
  }

  ssize_t Write(const char* bytes, size_t size) {
    ERR_clear_error();
    const ssize_t sent =
        Result(SSL_write(ssl.get(), bytes, static_cast<int>(std::min(size, kRecordBytes))));
    if (sent > 0 && ++records >= records_of_a_key) {
      records = 0;
      SSL_key_update(ssl.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    }
    return sent;
  }

  absl::Status Handshake(const Descriptor& socket, Instant deadline) {
    while (true) {
      ERR_clear_error();
      const int result = SSL_do_handshake(ssl.get());
      if (result == 1) break;
      const int wants = SSL_get_error(ssl.get(), result);
      if (wants == SSL_ERROR_WANT_READ || wants == SSL_ERROR_WANT_WRITE) {
        const short events = wants == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
        if (absl::Status status = AwaitEvents(socket, events, deadline); !status.ok()) {
          return status;
        }
      } else if (Result(result) == 0 || errno != EBADMSG) {
        return absl::UnavailableError("connection closed");
      } else {
        return absl::InvalidArgumentError(
            absl::StrCat("no encrypted connection (", ReasonText(),
                         "); the secrets (SLUICE_SECRET) may differ"));
      }
    }
    if (SSL_session_reused(ssl.get()) == 1) return absl::OkStatus();
    return absl::InvalidArgumentError("the encrypted connection does not use the secret");
  }
};

Connection::Connection() = default;
Connection::Connection(Descriptor socket) : socket_(std::move(socket)) {}
Connection::Connection(Connection&& other) noexcept = default;
Connection& Connection::operator=(Connection&& other) noexcept = default;
Connection::~Connection() = default;

absl::StatusOr<Connection> Connection::Encrypt(Descriptor socket, Side side, const Key& key,
                                               Instant deadline, uint64_t records_of_a_key) {
  const Context context = NewContext();
  const BIO_METHOD* method = SocketMethod();
  BIO* bio = method == nullptr ? nullptr : BIO_new(method);
  auto tls = std::make_unique<Tls>();
  if (context != nullptr) tls->ssl.reset(SSL_new(context.get()));
  if (bio == nullptr || tls->ssl == nullptr) {
    BIO_free(bio);
    return absl::InternalError("OpenSSL offers no TLS 1.3");
  }
  tls->file = socket.get();
  BIO_set_data(bio, &tls->file);
  BIO_set_init(bio, 1);
  SSL_set_bio(tls->ssl.get(), bio, bio);  // owns it now
  tls->key = key;
  tls->records_of_a_key = records_of_a_key;
  SSL_set_app_data(tls->ssl.get(), &tls->key);
  if (side == Side::kCaller) {
    // No certificate is as good as the key: any that is shown is refused.
    SSL_set_verify(tls->ssl.get(), SSL_VERIFY_PEER, nullptr);
    SSL_set_connect_state(tls->ssl.get());
  } else {
    SSL_set_accept_state(tls->ssl.get());
  }
  if (absl::Status status = tls->Handshake(socket, deadline); !status.ok()) return status;
  Connection connection(std::move(socket));
  connection.tls_ = std::move(tls);
  return connection;
}

ssize_t Connection::Send(const iovec* parts, int count) {
  while (count > 0 && parts->iov_len == 0) {
    ++parts;
    --count;
  }
  if (tls_ == nullptr) {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts);
    message.msg_iovlen = static_cast<size_t>(count);
    return sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
  }
  if (count == 0) return 0;
  if (count == 1) return tls_->Write(static_cast<const char*>(parts->iov_base), parts->iov_len);
  // A header and the beginning of its body are one record.
  char record[kRecordBytes];
  size_t filled = 0;
  for (int i = 0; i < count; ++i) {
    const size_t part = std::min(parts[i].iov_len, sizeof(record) - filled);
    std::memcpy(record + filled, parts[i].iov_base, part);
    filled += part;
  }
  return tls_->Write(record, filled);
}

ssize_t Connection::Receive(char* bytes, size_t most) {
  if (tls_ == nullptr) return recv(socket_.get(), bytes, most, 0);
  ERR_clear_error();
  constexpr size_t kMost = 1U << 30U;
  return tls_->Result(SSL_read(tls_->ssl.get(), bytes, static_cast<int>(std::min(most, kMost))));
}

bool Connection::has_more() const { return tls_ != nullptr && SSL_pending(tls_->ssl.get()) > 0; }

void Connection::FinishSending() {
  if (tls_ != nullptr) {
    ERR_clear_error();
    (void)SSL_shutdown(tls_->ssl.get());
  }
  (void)shutdown(socket_.get(), SHUT_WR);
}

void Connection::Close() {
  tls_.reset();
  socket_.Close();
}

}  // namespace sluice
