#include "comm/machine_process.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// The name space that process numbers are of; containers of one machine may have one each.
std::string NameSpace() {
  std::array<char, 64> text{};
  const ssize_t length = readlink("/proc/self/ns/pid", text.data(), text.size());
  return length <= 0 ? "" : std::string(text.data(), static_cast<size_t>(length));
}

}  // namespace

MachineProcess ThisMachineProcess() {
  MachineProcess self{.machine = 0, .process = getpid()};
  std::string boot;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  const std::string name_space = NameSpace();
  // FNV-1a: std::hash may differ from program to program.
  if (!std::getline(file, boot) || boot.empty() || name_space.empty()) return self;
  self.machine = 0xcbf29ce484222325;
  for (const char c : boot + name_space) {
    self.machine = (self.machine ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return self;
}

bool SameMachine(const MachineProcess& self, const MachineProcess& other) {
  return self.machine != 0 && self.machine == other.machine;
}

bool HasEnded(const MachineProcess& process) {
  return kill(static_cast<pid_t>(process.process), 0) != 0 && errno == ESRCH;
}

bool IsStopped(const MachineProcess& process) {
  std::ifstream file(absl::StrCat("/proc/", process.process, "/stat"));
  std::string stat;
  std::getline(file, stat);
  // "1234 (name) T ...": the name may hold anything, and ends at the last parenthesis.
  const size_t name_end = stat.rfind(") ");
  if (name_end == std::string::npos || name_end + 2 >= stat.size()) return false;
  const char state = stat[name_end + 2];
  return state == 'T' || state == 't';
}

}  // namespace sluice
