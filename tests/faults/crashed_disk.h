#ifndef SLUICE_TESTS_FAULTS_CRASHED_DISK_H_
#define SLUICE_TESTS_FAULTS_CRASHED_DISK_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/faults/disk_record.h"

namespace sluice {

// What a disk does with changes that were not synced when the power failed.
struct DiskHabits {
  // Names change in the order of the calls, and a sync of anything makes all earlier changes of
  // names last, as in the journal of ext4 and XFS. Otherwise a sync of a folder makes its own
  // changes last and no others, and any of the rest may be lost, on one side of a rename alone.
  bool journal = true;
  // Whether syncs of files, and of folders, do anything: some disks say so and lie.
  bool syncs_files = true;
  bool syncs_folders = true;
  // Changes before the crash of which any may be lost; earlier ones were written by and by.
  size_t unwritten = SIZE_MAX;
};

// A disk as it may be found after the power failed: what was synced is there; of what was written
// since to a file, each sector is there, or as it was before, or zeros, and its length may be any
// that it had.
class CrashedDisk {
 public:
  // The power fails after the first `count` changes of `record`.
  CrashedDisk(const DiskRecord& record, size_t count, const DiskHabits& habits,
              std::mt19937& random);

  // Makes in `folder`, which is empty, what is on it.
  void WriteTo(const std::filesystem::path& folder) const;

 private:
  struct FileChange {
    bool sets_length = false;
    uint64_t offset = 0;  // or the length
    std::string bytes;
  };
  struct NameChange {
    size_t change = 0;  // its number; both sides of a rename have the same
    std::string name;
    int node = -1;  // -1: the name is gone
  };
  template <typename Content, typename Change>
  struct Synced {
    Content content;
    std::vector<Change> pending;
  };
  using File = Synced<std::string, FileChange>;
  using Folder = Synced<std::map<std::string, int>, NameChange>;

  void Apply(const DiskChange& change, size_t number);
  void Sync(int node);
  static void ApplyBytes(File* file);
  void WriteBack();
  static void ApplyNames(Folder* folder, size_t end);
  void LoseNames(size_t count);
  void LoseBytes(File* file);
  uint64_t Below(uint64_t bound) { return bound == 0 ? 0 : random_() % bound; }

  const DiskRecord& record_;
  const DiskHabits habits_;
  std::mt19937& random_;
  std::map<int, File> files_;
  std::map<int, Folder> folders_;
  std::map<int, std::map<std::string, int>> now_;  // as the process sees the folders
};

}  // namespace sluice

#endif  // SLUICE_TESTS_FAULTS_CRASHED_DISK_H_
