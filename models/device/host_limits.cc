#include "models/device/host_limits.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace sluice {
namespace {

constexpr int64_t kKiB = 1024;
constexpr double kNoQuota = std::numeric_limits<double>::infinity();

// The folder of a control group.
struct Group {
  std::string folder;
  bool unified = false;  // version 2
};

// A line of /proc/self/mountinfo (proc(5)) that mounts control groups.
struct Mount {
  std::string group;   // which of them is mounted: "/" is the first
  std::string folder;  // where
  bool unified = false;
  std::vector<std::string> controllers;  // of version 1
};

std::vector<Mount> ReadMounts(const std::string& root) {
  std::vector<Mount> mounts;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> fields = absl::StrSplit(line, ' ');
    const auto dash = absl::c_find(fields, "-");
    if (dash - fields.begin() < 6 || fields.end() - dash < 4) continue;
    const bool unified = dash[1] == "cgroup2";
    if (!unified && dash[1] != "cgroup") continue;
    mounts.push_back({fields[3], fields[4], unified, absl::StrSplit(dash[3], ',')});
  }
  return mounts;
}

// The group of this process in the hierarchy of `controller`, or in that of version 2.
std::string OwnGroup(const std::string& root, const std::string& controller, bool unified) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() < 3) continue;
    const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
    if (unified ? fields[0] == "0" : absl::c_linear_search(controllers, controller))
      return fields[2];
  }
  return "/";
}

// The groups whose limits hold for this process: its own, and those above it as far as they can be
// seen.
std::vector<Group> GroupsOf(const std::string& root, const std::string& controller) {
  std::vector<Group> groups;
  for (const Mount& mount : ReadMounts(root)) {
    if (!mount.unified && !absl::c_linear_search(mount.controllers, controller)) continue;
    std::string below = OwnGroup(root, controller, mount.unified);
    // A container sees its own group as the first, or is told the name that the machine knows.
    if (mount.group != "/") {
      const bool is_below = below == mount.group || absl::StartsWith(below, mount.group + "/");
      below = is_below ? below.substr(mount.group.size()) : "";
    }
    if (absl::StrContains(below, "..")) below.clear();
    while (absl::EndsWith(below, "/")) below.pop_back();
    while (true) {
      groups.push_back({absl::StrCat(root, mount.folder, below), mount.unified});
      if (below.empty()) break;
      below.resize(below.rfind('/'));
    }
  }
  return groups;
}

// The numbers of a file's first line. "max", which says that there is no limit, and what is not
// there are nothing.
std::vector<std::optional<int64_t>> ReadNumbers(const std::string& path, size_t count) {
  std::ifstream file(path);
  std::vector<std::optional<int64_t>> numbers(count);
  for (std::optional<int64_t>& number : numbers) {
    std::string word;
    int64_t value = 0;
    if (file >> word && absl::SimpleAtoi(word, &value)) number = value;
  }
  return numbers;
}
std::optional<int64_t> ReadNumber(const std::string& path) { return ReadNumbers(path, 1).front(); }

// Lines like "MemTotal:  24684096 kB" and "active_file 4096".
std::map<std::string, int64_t> ReadTable(const std::string& path) {
  std::map<std::string, int64_t> table;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string key;
    int64_t value = 0;
    if (!(words >> key >> value)) continue;
    if (key.back() == ':') key.pop_back();
    table[key] = value;
  }
  return table;
}

// Memory that a group counts and that Linux takes back before it kills: like what MemAvailable
// counts beside free memory.
int64_t Reclaimable(const Group& group) {
  std::map<std::string, int64_t> table = ReadTable(group.folder + "/memory.stat");
  if (group.unified)
    return table["active_file"] + table["inactive_file"] + table["slab_reclaimable"];
  return table["total_active_file"] + table["total_inactive_file"];
}

}  // namespace

HostMemory ReadHostMemory(const std::string& root) {
  const std::map<std::string, int64_t> machine = ReadTable(root + "/proc/meminfo");
  HostMemory memory;
  if (const auto total = machine.find("MemTotal"); total != machine.end())
    memory.total_bytes = total->second * kKiB;
  if (const auto available = machine.find("MemAvailable"); available != machine.end())
    memory.available_bytes = available->second * kKiB;
  for (const Group& group : GroupsOf(root, "memory")) {
    const auto number = [&group](const char* unified, const char* first_version) {
      return ReadNumber(group.folder + (group.unified ? unified : first_version));
    };
    const std::optional<int64_t> limit = number("/memory.max", "/memory.limit_in_bytes");
    const std::optional<int64_t> used = number("/memory.current", "/memory.usage_in_bytes");
    if (limit.value_or(-1) < 0 || used.value_or(-1) < 0) continue;
    if (memory.total_bytes > 0) memory.total_bytes = std::min(memory.total_bytes, *limit);
    const int64_t kept = std::max<int64_t>(0, *used - Reclaimable(group));
    const int64_t left = std::max<int64_t>(0, *limit - kept);
    if (memory.available_bytes >= 0 && left >= memory.available_bytes) continue;
    memory.available_bytes = left;
    memory.in_group = true;
  }
  return memory;
}

double ReadCoreQuota(const std::string& root) {
  double least = kNoQuota;
  for (const Group& group : GroupsOf(root, "cpu")) {
    std::vector<std::optional<int64_t>> numbers;  // microseconds of all cores, in so many
    if (group.unified) {
      numbers = ReadNumbers(group.folder + "/cpu.max", 2);
    } else {
      numbers = {ReadNumber(group.folder + "/cpu.cfs_quota_us"),
                 ReadNumber(group.folder + "/cpu.cfs_period_us")};
    }
    // Version 1 writes -1 for no limit.
    if (numbers[0].value_or(-1) <= 0 || numbers[1].value_or(0) <= 0) continue;
    least = std::min(least, static_cast<double>(*numbers[0]) / static_cast<double>(*numbers[1]));
  }
  return least;
}

int CoresToUse() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = sched_getaffinity(0, sizeof(set), &set) == 0
                        ? CPU_COUNT(&set)  // else there are more than the set has room for
                        : static_cast<int>(std::thread::hardware_concurrency());
  const double quota = std::ceil(ReadCoreQuota());
  return std::max(1, quota < cores ? static_cast<int>(quota) : cores);
}

}  // namespace sluice
