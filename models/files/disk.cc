#include "models/files/disk.h"

#include <filesystem>
#include <mutex>
#include <system_error>
#include <vector>

namespace sluice::disk {

namespace fs = std::filesystem;

void RemoveAll(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(fs::symlink_status(path, ignored))) {
    std::vector<std::string> inside;
    fs::directory_iterator entry(path, ignored);
    for (; !ignored && entry != fs::directory_iterator(); entry.increment(ignored)) {
      inside.push_back(entry->path().string());
    }
    for (const std::string& one : inside) RemoveAll(one);
  }
  Remove(path);
}

#ifdef SLUICE_FAILPOINTS
namespace {

Observer* current = nullptr;

std::mutex& OneAtATime() {
  static auto* const mutex = new std::mutex;
  return *mutex;
}

}  // namespace

void Observe(Observer* observer) { current = observer; }

Turn::Turn() : observer_(current) {
  if (observer_ != nullptr) OneAtATime().lock();
}

Turn::~Turn() {
  if (observer_ != nullptr) OneAtATime().unlock();
}

void Turn::Done(Call call, int64_t result) const {
  if (observer_ == nullptr) return;
  if (call.name == "open") call.fd = static_cast<int>(result);
  if (call.name == "write") call.size = static_cast<size_t>(result);
  observer_->OnCall(call);
}
#endif

}  // namespace sluice::disk
