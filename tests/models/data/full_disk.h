#ifndef SLUICE_TESTS_MODELS_DATA_FULL_DISK_H_
#define SLUICE_TESTS_MODELS_DATA_FULL_DISK_H_

#include <sys/mount.h>
#include <sys/resource.h>

#include <csignal>
#include <string>

namespace sluice {

// While it lives, no file of this process grows beyond `bytes`: what a full disk looks like to one
// file.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_ = {};
  void (*handler_)(int);
};

// A file system of `size` ("64k") at `path`, where that may be mounted (mounted() says so; it needs
// root).
class TinyDisk {
 public:
  TinyDisk(const std::string& path, const std::string& size)
      : path_(path),
        mounted_(mount("tmpfs", path.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0) {}
  ~TinyDisk() {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  TinyDisk(const TinyDisk&) = delete;
  TinyDisk& operator=(const TinyDisk&) = delete;

  bool mounted() const { return mounted_; }

 private:
  std::string path_;
  bool mounted_;
};

}  // namespace sluice

#endif  // SLUICE_TESTS_MODELS_DATA_FULL_DISK_H_
