#ifndef SLUICE_MODELS_FILES_WRITE_ALL_H_
#define SLUICE_MODELS_FILES_WRITE_ALL_H_

#include <poll.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/string_view.h"

namespace sluice {

// Writes all of `bytes` to `fd`, an open file, pipe or terminal, however long that takes. 0, or the
// error; then some of the bytes may have been written.
inline int WriteAllTo(int fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      // Somebody else who has this terminal or pipe made it non-blocking.
      pollfd ready = {fd, POLLOUT, 0};
      poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace sluice

#endif  // SLUICE_MODELS_FILES_WRITE_ALL_H_
