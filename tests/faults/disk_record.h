#ifndef SLUICE_TESTS_FAULTS_DISK_RECORD_H_
#define SLUICE_TESTS_FAULTS_DISK_RECORD_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "models/files/disk.h"

namespace sluice {

// What lies on the disk, by its number in DiskRecord::nodes.
struct DiskNode {
  enum class Kind { kFile, kFolder, kLink };
  Kind kind = Kind::kFile;
  std::string target;  // of a link
};

// A name in a folder.
struct DiskName {
  int folder = -1;
  std::string name;
};

// A change, or a sync, in terms of nodes: whoever replays it needs no paths.
struct DiskChange {
  enum class Kind {
    kMake,      // `at` is `node` now, which is new
    kRemove,    // `at` is gone
    kRename,    // `at` is `to` now, instead of what that was
    kExchange,  // `at` and `to` are each other now
    kWrite,     // `bytes` of the file `node` from `offset` on
    kReserve,   // the file `node` has at least `offset` bytes
    kTruncate,  // the file `node` has `offset` bytes
    kSync,      // the file or folder `node`
  };
  Kind kind;
  int node = -1;
  DiskName at = {};
  DiskName to = {};
  uint64_t offset = 0;
  std::string bytes = {};
};

// Everything that this process changes below a folder, from an empty one on, in order. One thread
// may read it once nothing is saved any more.
class DiskRecord : public disk::Observer {
 public:
  static constexpr int kRoot = 0;

  // Watches until End, at which nothing may be saving.
  explicit DiskRecord(std::string root);
  ~DiskRecord() override { End(); }
  DiskRecord(const DiskRecord&) = delete;
  DiskRecord& operator=(const DiskRecord&) = delete;

  static void End() { disk::Observe(nullptr); }

  void OnCall(const disk::Call& call) override;

  const std::vector<DiskNode>& nodes() const { return nodes_; }
  const std::vector<DiskChange>& changes() const { return changes_; }

 private:
  using Folder = std::map<std::string, int>;

  // The name that a path is, with the folder that it is in; a folder of -1 is elsewhere.
  DiskName Find(absl::string_view path) const;
  int NodeAt(const DiskName& name) const;
  void Make(const DiskName& at, DiskNode node);
  void Opened(const disk::Call& call);
  void Written(const disk::Call& call);
  void Renamed(const disk::Call& call);
  int NodeOf(int fd) const;

  const std::string root_;
  std::vector<DiskNode> nodes_;
  std::map<int, Folder> folders_;  // as they are now
  std::map<int, int> open_;        // by descriptor; those that were closed are opened anew later
  std::map<int, uint64_t> ends_;   // where the next write by that descriptor goes
  std::vector<DiskChange> changes_;
};

}  // namespace sluice

#endif  // SLUICE_TESTS_FAULTS_DISK_RECORD_H_
