#ifndef SLUICE_MODELS_FILES_DISK_H_
#define SLUICE_MODELS_FILES_DISK_H_

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

#include "absl/strings/string_view.h"
#include "models/failpoints/failpoints.h"

// The system calls by which files are saved, and opened to look at what is there: each does what
// the one that it names does, returns the same and sets errno. In builds with failpoints each is
// one of the group "disk", by the name that it gives to Through, and a test can watch all of them.
// What is to survive a crash goes through here, so that tests/faults sees it.
namespace sluice::disk {

// A call, for whoever watches.
struct Call {
  absl::string_view name;
  absl::string_view path = {};  // where there is no descriptor; of a rename what is renamed
  absl::string_view to = {};    // the new name, or what a link leads to
  int fd = -1;                  // of "open" it is the result
  uint64_t offset = 0;
  const void* data = nullptr;
  size_t size = 0;         // of a write
  uint64_t length = 0;     // of "reserve" and "truncate"
  unsigned int flags = 0;  // of "open" and "exchange"
};

#ifdef SLUICE_FAILPOINTS

class Observer {
 public:
  virtual ~Observer() = default;
  // After a call that did something: of a write `size` bytes, which may be less than was asked for.
  // Calls come one at a time, in the order in which they were made.
  virtual void OnCall(const Call& call) = 0;
};

// Has `observer` (null: nobody) watch every call of this process. Only while no other thread makes
// one.
void Observe(Observer* observer);

// A call that is being made: calls are made one at a time while somebody watches.
class Turn {
 public:
  Turn();
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  void Done(Call call, int64_t result) const;

 private:
  Observer* const observer_;
};

// Makes the call `what`, which is call(n), of which n counts where it writes n bytes; or fails as a
// test wants.
template <typename Function>
auto Through(const Call& what, const Function& call) -> decltype(call(size_t{})) {
  const FaultAnswer answer = HitFailpoint("disk", what.name);
  const Turn turn;
  const bool half = answer.torn && what.size > 1;
  if (answer.error == 0 || half) {
    const auto result = call(half ? what.size / 2 : what.size);
    if (result >= 0) turn.Done(what, result);
    if (answer.error == 0) return result;
  }
  if (answer.kill) DieOfFault();
  errno = answer.error;
  return -1;
}

#else

template <typename Function>
auto Through(const Call& what, const Function& call) -> decltype(call(size_t{})) {
  return call(what.size);
}

#endif

inline int Open(const std::string& path, int flags, mode_t mode = 0) {
  return Through({.name = "open", .path = path, .flags = static_cast<unsigned int>(flags)},
                 [&](size_t) { return open(path.c_str(), flags, mode); });
}

inline ssize_t Write(int fd, const void* data, size_t size) {
  return Through({.name = "write", .fd = fd, .offset = UINT64_MAX, .data = data, .size = size},
                 [&](size_t some) { return write(fd, data, some); });
}

inline ssize_t WriteAt(int fd, const void* data, size_t size, off_t at) {
  return Through(
      {.name = "write", .fd = fd, .offset = static_cast<uint64_t>(at), .data = data, .size = size},
      [&](size_t some) { return pwrite(fd, data, some, at); });
}

// fallocate from the beginning.
inline int Reserve(int fd, off_t length) {
  return Through({.name = "reserve", .fd = fd, .length = static_cast<uint64_t>(length)},
                 [&](size_t) { return fallocate(fd, 0, 0, length); });
}

inline int Truncate(int fd, off_t length) {
  return Through({.name = "truncate", .fd = fd, .length = static_cast<uint64_t>(length)},
                 [&](size_t) { return ftruncate(fd, length); });
}

inline int Sync(int fd) {
  return Through({.name = "sync", .fd = fd}, [&](size_t) { return fsync(fd); });
}

inline int Rename(const std::string& from, const std::string& to) {
  return Through({.name = "rename", .path = from, .to = to},
                 [&](size_t) { return std::rename(from.c_str(), to.c_str()); });
}

// renameat2 with RENAME_NOREPLACE.
inline int RenameToFree(const std::string& from, const std::string& to) {
  return Through({.name = "rename", .path = from, .to = to}, [&](size_t) {
    return renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
  });
}

// renameat2 with RENAME_EXCHANGE.
inline int Exchange(const std::string& one, const std::string& other) {
  return Through({.name = "exchange", .path = one, .to = other}, [&](size_t) {
    return renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE);
  });
}

inline int Symlink(const std::string& target, const std::string& path) {
  return Through({.name = "symlink", .path = path, .to = target},
                 [&](size_t) { return symlink(target.c_str(), path.c_str()); });
}

inline int MakeFolder(const std::string& path) {
  return Through({.name = "mkdir", .path = path},
                 [&](size_t) { return mkdir(path.c_str(), 0777); });
}

// A file, a link or an empty folder.
inline int Remove(const std::string& path) {
  return Through({.name = "remove", .path = path},
                 [&](size_t) { return std::remove(path.c_str()); });
}

// Removes `path` and, where it is a folder, everything in it; links are not followed. What cannot
// be removed stays.
void RemoveAll(const std::string& path);

}  // namespace sluice::disk

#endif  // SLUICE_MODELS_FILES_DISK_H_
