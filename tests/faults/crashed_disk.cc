#include "tests/faults/crashed_disk.h"

#include <algorithm>
#include <set>

#include "tests/models/data/files.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

using Kind = DiskChange::Kind;

}  // namespace

CrashedDisk::CrashedDisk(const DiskRecord& record, size_t count, const DiskHabits& habits,
                         std::mt19937& random)
    : record_(record), habits_(habits), random_(random) {
  folders_[DiskRecord::kRoot] = {};
  for (size_t i = 0; i < count; ++i) {
    if (i + habits.unwritten == count) WriteBack();
    Apply(record.changes()[i], i);
  }
  if (habits.unwritten == 0) WriteBack();
  LoseNames(count);
  for (auto& [node, file] : files_) LoseBytes(&file);
}

void CrashedDisk::Apply(const DiskChange& change, size_t number) {
  const auto set = [&](const DiskName& at, int node) {
    folders_[at.folder].pending.push_back({.change = number, .name = at.name, .node = node});
    now_[at.folder][at.name] = node;
  };
  switch (change.kind) {
    case Kind::kMake:
      set(change.at, change.node);
      return;
    case Kind::kRemove:
      set(change.at, -1);
      return;
    case Kind::kRename:
      set(change.at, -1);
      set(change.to, change.node);
      return;
    case Kind::kExchange: {
      const int other = now_[change.to.folder][change.to.name];
      set(change.at, other);
      set(change.to, change.node);
      return;
    }
    case Kind::kWrite:
      files_[change.node].pending.push_back(
          {.sets_length = false, .offset = change.offset, .bytes = change.bytes});
      return;
    case Kind::kReserve:
      // A byte that is there already is not changed by an empty write behind it.
      files_[change.node].pending.push_back(
          {.sets_length = false, .offset = change.offset, .bytes = ""});
      return;
    case Kind::kTruncate:
      files_[change.node].pending.push_back(
          {.sets_length = true, .offset = change.offset, .bytes = ""});
      return;
    case Kind::kSync:
      Sync(change.node);
      return;
  }
}

void CrashedDisk::ApplyNames(Folder* folder, size_t end) {
  size_t done = 0;
  for (; done < folder->pending.size() && folder->pending[done].change < end; ++done) {
    const NameChange& change = folder->pending[done];
    if (change.node < 0) {
      folder->content.erase(change.name);
    } else {
      folder->content[change.name] = change.node;
    }
  }
  folder->pending.erase(folder->pending.begin(),
                        folder->pending.begin() + static_cast<std::ptrdiff_t>(done));
}

void CrashedDisk::Sync(int node) {
  const bool is_folder = record_.nodes()[static_cast<size_t>(node)].kind == DiskNode::Kind::kFolder;
  if (is_folder ? !habits_.syncs_folders : !habits_.syncs_files) return;
  if (habits_.journal) {
    for (auto& [number, folder] : folders_) ApplyNames(&folder, SIZE_MAX);
  } else if (is_folder) {
    ApplyNames(&folders_[node], SIZE_MAX);
  }
  if (!is_folder) ApplyBytes(&files_[node]);
}

void CrashedDisk::ApplyBytes(File* file) {
  for (const FileChange& change : file->pending) {
    const uint64_t end = change.offset + change.bytes.size();
    if (change.sets_length || file->content.size() < end) file->content.resize(end);
    file->content.replace(change.offset, change.bytes.size(), change.bytes);
  }
  file->pending.clear();
}

void CrashedDisk::WriteBack() {
  for (auto& [node, folder] : folders_) ApplyNames(&folder, SIZE_MAX);
  for (auto& [node, file] : files_) ApplyBytes(&file);
}

void CrashedDisk::LoseNames(size_t count) {
  if (habits_.journal) {
    const size_t end = Below(count + 1);
    for (auto& [node, folder] : folders_) ApplyNames(&folder, end);
    return;
  }
  // Now nearly all is lost, now nearly nothing.
  const uint64_t kept_of_ten = 1 + Below(9);
  for (auto& [node, folder] : folders_) {
    std::set<size_t> lost;  // a rename within one folder is lost as a whole
    for (const NameChange& change : folder.pending) {
      if (Below(10) >= kept_of_ten) lost.insert(change.change);
    }
    std::erase_if(folder.pending, [&](const NameChange& c) { return lost.contains(c.change); });
    ApplyNames(&folder, SIZE_MAX);
  }
}

void CrashedDisk::LoseBytes(File* file) {
  const uint64_t sector = Below(2) == 0 ? 512 : 4096;
  const uint64_t shortest = file->content.size();
  const uint64_t kept_of_ten = Below(11);
  bool truncated = false;
  for (const FileChange& change : file->pending) {
    const uint64_t end = change.offset + change.bytes.size();
    truncated |= change.sets_length;
    if (change.sets_length && Below(10) >= kept_of_ten) continue;
    if (change.sets_length || file->content.size() < end) file->content.resize(end);
    for (uint64_t at = change.offset; at < end;) {
      const uint64_t next = std::min(end, (at / sector + 1) * sector);
      const uint64_t luck = Below(10);
      if (luck < kept_of_ten) {
        file->content.replace(at, next - at, change.bytes.substr(at - change.offset, next - at));
      } else if (luck % 2 == 0) {
        file->content.replace(at, next - at, next - at, '\0');
      }
      at = next;
    }
  }
  const uint64_t longest = file->content.size();
  if (!truncated && longest > shortest && Below(3) == 0)
    file->content.resize(shortest + Below(longest - shortest + 1));
  file->pending.clear();
}

void CrashedDisk::WriteTo(const fs::path& folder) const {
  const auto write = [this](const auto& self, int number, const fs::path& path) -> void {
    const DiskNode& node = record_.nodes()[static_cast<size_t>(number)];
    if (node.kind == DiskNode::Kind::kLink) return fs::create_symlink(node.target, path);
    if (node.kind == DiskNode::Kind::kFile) {
      const auto file = files_.find(number);
      return WriteBytes(path.string(), file == files_.end() ? "" : file->second.content);
    }
    fs::create_directory(path);
    const auto names = folders_.find(number);
    if (names == folders_.end()) return;
    for (const auto& [name, inside] : names->second.content) self(self, inside, path / name);
  };
  write(write, DiskRecord::kRoot, folder);
}

}  // namespace sluice
