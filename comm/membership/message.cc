#include "comm/membership/message.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <type_traits>

#include "absl/strings/str_cat.h"

namespace sluice {

static_assert(std::is_trivially_copyable_v<MemberMessage>);

namespace {

template <size_t kSize>
void Copy(absl::string_view words, std::array<char, kSize>* to) {
  const size_t length = std::min(words.size(), to->size() - 1);
  std::copy_n(words.begin(), length, to->begin());
  (*to)[length] = '\0';
}

// Beside a message: one descriptor.
union Enclosed {
  cmsghdr head;
  std::array<char, CMSG_SPACE(sizeof(int))> bytes;
};

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

absl::Status SendMessage(int socket, const MemberMessage& message, int descriptor) {
  iovec part = {.iov_base = const_cast<MemberMessage*>(&message), .iov_len = sizeof(message)};
  msghdr parcel = {};
  parcel.msg_iov = &part;
  parcel.msg_iovlen = 1;
  Enclosed enclosed = {};
  if (descriptor >= 0) {
    enclosed.head.cmsg_level = SOL_SOCKET;
    enclosed.head.cmsg_type = SCM_RIGHTS;
    enclosed.head.cmsg_len = CMSG_LEN(sizeof(descriptor));
    std::memcpy(CMSG_DATA(&enclosed.head), &descriptor, sizeof(descriptor));
    parcel.msg_control = &enclosed;
    parcel.msg_controllen = CMSG_LEN(sizeof(descriptor));
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &parcel, MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent == sizeof(message)) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the other side takes no message: ", ErrnoText(sent < 0 ? errno : EMSGSIZE)));
}

absl::Status ReceiveMessage(int socket, std::optional<MemberMessage>* message,
                            Descriptor* descriptor) {
  message->reset();
  MemberMessage received;
  iovec part = {.iov_base = &received, .iov_len = sizeof(received)};
  ssize_t size = 0;
  msghdr parcel = {};
  Enclosed enclosed = {};
  do {
    parcel = {};
    parcel.msg_iov = &part;
    parcel.msg_iovlen = 1;
    if (descriptor != nullptr) {
      parcel.msg_control = &enclosed;
      parcel.msg_controllen = CMSG_LEN(sizeof(int));
    }
    size = recvmsg(socket, &parcel, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size >= 0 && parcel.msg_controllen >= CMSG_LEN(sizeof(int)) &&
      enclosed.head.cmsg_type == SCM_RIGHTS) {
    int number = -1;
    std::memcpy(&number, CMSG_DATA(&enclosed.head), sizeof(number));
    *descriptor = Descriptor(number);
  }
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return absl::OkStatus();
  if (size != sizeof(received)) return absl::UnavailableError("the other side is gone");
  received.text.back() = '\0';
  received.secret.back() = '\0';
  received.found.back() = '\0';
  *message = received;
  return absl::OkStatus();
}

}  // namespace sluice
