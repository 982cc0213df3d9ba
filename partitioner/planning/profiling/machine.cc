#include "partitioner/planning/profiling/machine.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sluice {
namespace {

constexpr int64_t kKiB = 1024;

std::string ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// "key   : value" as in /proc/cpuinfo.
std::pair<std::string, std::string> SplitField(const std::string& line) {
  std::pair<std::string, std::string> field = absl::StrSplit(line, absl::MaxSplits(':', 1));
  absl::StripAsciiWhitespace(&field.first);
  absl::StripAsciiWhitespace(&field.second);
  return field;
}

int ToInt(const std::string& text) {
  int value = 0;
  return absl::SimpleAtoi(text, &value) ? value : 0;
}

// "32K" or "8M", as /sys writes a cache's size.
int64_t ParseCacheSize(const std::string& text) {
  const int64_t number = ToInt(text.substr(0, text.find_first_not_of("0123456789")));
  if (absl::EndsWith(text, "K")) return number * kKiB;
  if (absl::EndsWith(text, "M")) return number * kKiB * kKiB;
  return number;
}

// The number of cores in a list like "0-3,8".
int CountCores(const std::string& list) {
  int count = 0;
  for (const std::string& range :
       std::vector<std::string>(absl::StrSplit(list, ',', absl::SkipEmpty()))) {
    const std::vector<std::string> ends = absl::StrSplit(range, '-');
    count += ToInt(ends.back()) - ToInt(ends.front()) + 1;
  }
  return count;
}

std::vector<Cache> ReadCaches(const std::string& root) {
  std::vector<Cache> caches;
  for (int index = 0;; ++index) {
    const std::string folder =
        absl::StrCat(root, "/sys/devices/system/cpu/cpu0/cache/index", index, "/");
    if (!std::filesystem::exists(folder)) break;
    caches.push_back({ToInt(ReadLine(folder + "level")), ReadLine(folder + "type"),
                      ParseCacheSize(ReadLine(folder + "size")),
                      std::max(1, CountCores(ReadLine(folder + "shared_cpu_list")))});
  }
  std::stable_sort(caches.begin(), caches.end(),
                   [](const Cache& a, const Cache& b) { return a.level < b.level; });
  return caches;
}

}  // namespace

bool Processor::Has(const std::string& flag) const {
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

Processor ReadProcessor(const std::string& root) {
  Processor processor;
  std::set<std::pair<std::string, std::string>> cores;  // (socket, core in it)
  std::string socket;
  std::ifstream file(root + "/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto [key, value] = SplitField(line);
    if (key == "processor") ++processor.logical_cores;
    if (key == "model name") processor.model = value;
    if (key == "physical id") socket = value;
    if (key == "core id") cores.emplace(socket, value);
    if (key == "flags" && processor.flags.empty()) {
      processor.flags = absl::StrSplit(value, ' ', absl::SkipEmpty());
    }
  }
  processor.physical_cores =
      cores.empty() ? processor.logical_cores : static_cast<int>(cores.size());
  processor.caches = ReadCaches(root);
  return processor;
}

std::string FindProgram(const std::string& program, const std::string& search_path) {
  for (const std::string& folder : std::vector<std::string>(absl::StrSplit(search_path, ':'))) {
    std::string path = absl::StrCat(folder.empty() ? "." : folder, "/", program);
    if (access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

}  // namespace sluice
