#include "comm/membership/message.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "comm/tcp/tcp_socket.h"

namespace sluice {

static_assert(std::is_trivially_copyable_v<MemberMessage>);

namespace {

template <size_t kSize>
void Copy(absl::string_view words, std::array<char, kSize>* to) {
  const size_t length = std::min(words.size(), to->size() - 1);
  std::copy_n(words.begin(), length, to->begin());
  (*to)[length] = '\0';
}

}  // namespace

void MemberMessage::SetText(absl::string_view words) { Copy(words, &text); }

void MemberMessage::SetFound(absl::string_view checkpoint) { Copy(checkpoint, &found); }

absl::Status MemberMessage::SetOrder(const std::vector<int>& ranks) {
  if (ranks.size() > order.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an order of ", ranks.size(), " ranks; a message has room for ", order.size()));
  }
  std::transform(ranks.begin(), ranks.end(), order.begin(),
                 [](int number) { return static_cast<int16_t>(number); });
  ordered = static_cast<int32_t>(ranks.size());
  return absl::OkStatus();
}

absl::Duration MachineTime() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::DurationFromTimespec(now);
}

absl::Status SendMessage(int socket, const MemberMessage& message) {
  ssize_t sent = 0;
  do {
    sent = send(socket, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent == sizeof(message)) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the other side takes no message: ", ErrnoText(sent < 0 ? errno : EMSGSIZE)));
}

absl::Status ReceiveMessage(int socket, std::optional<MemberMessage>* message) {
  message->reset();
  MemberMessage received;
  ssize_t size = 0;
  do {
    size = recv(socket, &received, sizeof(received), MSG_DONTWAIT);
  } while (size < 0 && errno == EINTR);
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return absl::OkStatus();
  if (size != sizeof(received)) return absl::UnavailableError("the other side is gone");
  received.text.back() = '\0';
  received.secret.back() = '\0';
  received.found.back() = '\0';
  *message = received;
  return absl::OkStatus();
}

}  // namespace sluice
