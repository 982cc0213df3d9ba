#include "tests/faults/disk_record.h"

#include <fcntl.h>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace sluice {

using Kind = DiskChange::Kind;

DiskRecord::DiskRecord(std::string root) : root_(std::move(root)) {
  nodes_.push_back({.kind = DiskNode::Kind::kFolder, .target = ""});
  folders_[kRoot] = {};
  disk::Observe(this);
}

DiskName DiskRecord::Find(absl::string_view path) const {
  if (!absl::ConsumePrefix(&path, root_)) return {};
  const std::vector<std::string> words = absl::StrSplit(path, '/', absl::SkipEmpty());
  if (words.empty()) return {};
  DiskName found{.folder = kRoot, .name = words.front()};
  for (size_t i = 1; i < words.size(); ++i) found = {.folder = NodeAt(found), .name = words[i]};
  return found;
}

int DiskRecord::NodeAt(const DiskName& name) const {
  const auto folder = folders_.find(name.folder);
  if (folder == folders_.end()) return -1;
  const auto node = folder->second.find(name.name);
  return node == folder->second.end() ? -1 : node->second;
}

int DiskRecord::NodeOf(int fd) const {
  const auto found = open_.find(fd);
  return found == open_.end() ? -1 : found->second;
}

void DiskRecord::Make(const DiskName& at, DiskNode node) {
  const int number = static_cast<int>(nodes_.size());
  if (node.kind == DiskNode::Kind::kFolder) folders_[number] = {};
  nodes_.push_back(std::move(node));
  folders_[at.folder][at.name] = number;
  changes_.push_back({.kind = Kind::kMake, .node = number, .at = at});
}

void DiskRecord::Opened(const disk::Call& call) {
  open_.erase(call.fd);
  ends_[call.fd] = 0;
  if (absl::StripSuffix(call.path, "/") == absl::StripSuffix(root_, "/")) {
    open_[call.fd] = kRoot;
    return;
  }
  const DiskName at = Find(call.path);
  if (at.folder < 0) return;
  if (NodeAt(at) < 0 && (call.flags & O_CREAT) != 0) {
    Make(at, {.kind = DiskNode::Kind::kFile, .target = ""});
  }
  if (NodeAt(at) >= 0) open_[call.fd] = NodeAt(at);
}

void DiskRecord::Written(const disk::Call& call) {
  const int node = NodeOf(call.fd);
  if (node < 0) return;
  const bool at_end = call.offset == UINT64_MAX;
  const uint64_t offset = at_end ? ends_[call.fd] : call.offset;
  if (at_end) ends_[call.fd] += call.size;
  changes_.push_back({.kind = Kind::kWrite,
                      .node = node,
                      .offset = offset,
                      .bytes = {static_cast<const char*>(call.data), call.size}});
}

void DiskRecord::Renamed(const disk::Call& call) {
  const DiskName at = Find(call.path), to = Find(call.to);
  const int node = NodeAt(at), other = NodeAt(to);
  if (node < 0) return;
  folders_[to.folder][to.name] = node;
  const bool exchange = call.name == "exchange";
  if (exchange) {
    folders_[at.folder][at.name] = other;
  } else {
    folders_[at.folder].erase(at.name);
  }
  changes_.push_back(
      {.kind = exchange ? Kind::kExchange : Kind::kRename, .node = node, .at = at, .to = to});
}

void DiskRecord::OnCall(const disk::Call& call) {
  const int node = NodeOf(call.fd);
  if (call.name == "open") return Opened(call);
  if (call.name == "write") return Written(call);
  if (call.name == "rename" || call.name == "exchange") return Renamed(call);
  if (call.name == "reserve" || call.name == "truncate" || call.name == "sync") {
    if (node < 0) return;
    const Kind kind = call.name == "reserve"    ? Kind::kReserve
                      : call.name == "truncate" ? Kind::kTruncate
                                                : Kind::kSync;
    changes_.push_back({.kind = kind, .node = node, .offset = call.length});
    return;
  }
  const DiskName at = Find(call.path);
  if (at.folder < 0) return;
  if (call.name == "mkdir") Make(at, {.kind = DiskNode::Kind::kFolder, .target = ""});
  if (call.name == "symlink")
    Make(at, {.kind = DiskNode::Kind::kLink, .target = std::string(call.to)});
  if (call.name == "remove") {
    folders_[at.folder].erase(at.name);
    changes_.push_back({.kind = Kind::kRemove, .at = at});
  }
}

}  // namespace sluice
