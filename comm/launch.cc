#include "comm/launch.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sluice {
namespace {

constexpr int kLargestPort = 65535;
constexpr int kMostRanks = 1 << 20;

// Reads variables of one launcher; the first fault is kept.
class Variables {
 public:
  Variables(const Environment& environment, absl::string_view launcher)
      : environment_(environment), launcher_(launcher) {}

  bool Has(absl::string_view name) const { return environment_(name).has_value(); }

  std::string Text(absl::string_view name) {
    const std::optional<std::string> value = environment_(name);
    if (value && !value->empty()) return *value;
    Fail(absl::StrCat(name, value ? " is empty" : " is not set"));
    return "";
  }

  int Number(absl::string_view name, int lowest, int highest) {
    const std::string text = Text(name);
    int value = 0;
    if (!status_.ok()) return 0;
    if (!absl::SimpleAtoi(text, &value)) Fail(absl::StrCat(name, "=", text, " is not a number"));
    if (value < lowest || value > highest) {
      Fail(absl::StrCat(name, "=", text, " is not in ", lowest, "..", highest));
    }
    return value;
  }

  // Rank and size, which must fit each other.
  void World(absl::string_view rank, absl::string_view size, Launch* launch) {
    launch->size = Number(size, 1, kMostRanks);
    launch->rank = Number(rank, 0, kMostRanks);
    if (status_.ok() && launch->rank >= launch->size) {
      Fail(absl::StrCat(rank, "=", launch->rank, " is not below ", size, "=", launch->size));
    }
  }

  void Fail(const std::string& what) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(absl::StrCat(launcher_, ": ", what));
  }
  const absl::Status& status() const { return status_; }

 private:
  const Environment& environment_;
  absl::string_view launcher_;
  absl::Status status_;
};

// The first host of Slurm's "gpu[07-09,12],login1": gpu07.
std::string FirstHost(absl::string_view list) {
  const size_t bracket = list.find('[');
  const size_t comma = list.find(',');
  if (bracket == absl::string_view::npos || comma < bracket) {
    return std::string(list.substr(0, comma));
  }
  const absl::string_view numbers = list.substr(bracket + 1);
  return absl::StrCat(list.substr(0, bracket), numbers.substr(0, numbers.find_first_of("-,]")));
}

// Every job its own port, so that two jobs on one machine do not meet each other; out of the range
// from which Linux takes ports for outgoing connections.
int PortOfSlurmJob(const Environment& environment) {
  constexpr int kFirst = 12000;
  constexpr int kPorts = 20000;
  int job = 0;
  int step = 0;
  (void)absl::SimpleAtoi(environment("SLURM_JOB_ID").value_or(""), &job);
  (void)absl::SimpleAtoi(environment("SLURM_STEP_ID").value_or(""), &step);
  return kFirst +
         static_cast<int>((static_cast<unsigned>(job) * 16U + static_cast<unsigned>(step)) %
                          static_cast<unsigned>(kPorts));
}

absl::StatusOr<Launch> FromTorchrun(const Environment& environment) {
  Variables variables(environment, "torchrun's environment");
  Launch launch;
  launch.source = LaunchSource::kTorchrun;
  variables.World("RANK", "WORLD_SIZE", &launch);
  launch.local_rank = variables.Number("LOCAL_RANK", 0, kMostRanks);
  launch.address = variables.Text("MASTER_ADDR");
  launch.port = variables.Number("MASTER_PORT", 1, kLargestPort);
  if (!variables.status().ok()) return variables.status();
  if (environment("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True") {
    launch.port = launch.port == kLargestPort ? launch.port - 1 : launch.port + 1;
  }
  return launch;
}

absl::StatusOr<Launch> FromOpenMpi(const Environment& environment) {
  Variables variables(environment, "Open MPI's environment");
  Launch launch;
  launch.port = kDefaultMasterPort;
  launch.source = LaunchSource::kOpenMpi;
  variables.World("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", &launch);
  launch.local_rank = variables.Number("OMPI_COMM_WORLD_LOCAL_RANK", 0, kMostRanks);
  if (variables.Has("OMPI_COMM_WORLD_LOCAL_SIZE") &&
      variables.Number("OMPI_COMM_WORLD_LOCAL_SIZE", 1, kMostRanks) == launch.size) {
    launch.address = "127.0.0.1";
  }
  if (!variables.status().ok()) return variables.status();
  return launch;
}

// Only srun sets these; a batch script has SLURM_PROCID=0 too, but no one to meet.
bool UnderSrun(const Environment& environment) {
  return environment("SLURM_PROCID") &&
         (environment("SLURM_STEP_NODELIST") || environment("SLURM_LAUNCH_NODE_IPADDR"));
}

absl::StatusOr<Launch> FromSlurm(const Environment& environment) {
  Variables variables(environment, "Slurm's environment");
  Launch launch;
  launch.port = PortOfSlurmJob(environment);
  launch.source = LaunchSource::kSlurm;
  variables.World("SLURM_PROCID",
                  variables.Has("SLURM_STEP_NUM_TASKS") ? "SLURM_STEP_NUM_TASKS" : "SLURM_NTASKS",
                  &launch);
  launch.local_rank = variables.Number("SLURM_LOCALID", 0, kMostRanks);
  launch.address = variables.Has("SLURM_STEP_NODELIST")
                       ? FirstHost(variables.Text("SLURM_STEP_NODELIST"))
                       : variables.Text("SLURM_LAUNCH_NODE_IPADDR");
  if (!variables.status().ok()) return variables.status();
  return launch;
}

absl::StatusOr<Launch> FromFlags(const LaunchFlags& flags) {
  if (!flags.rank) return absl::InvalidArgumentError("--world-size needs --rank too");
  if (!flags.world_size) return absl::InvalidArgumentError("--rank needs --world-size too");
  if (*flags.world_size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--world-size=", *flags.world_size, " is not positive"));
  }
  if (*flags.rank < 0 || *flags.rank >= *flags.world_size) {
    return absl::InvalidArgumentError(absl::StrCat("--rank=", *flags.rank, " is not in 0..",
                                                   *flags.world_size - 1,
                                                   " (--world-size=", *flags.world_size, ")"));
  }
  if (*flags.world_size > 1 && flags.master_addr.empty()) {
    return absl::InvalidArgumentError("--rank needs --master-addr, the machine of rank 0, too");
  }
  Launch launch;
  launch.rank = *flags.rank;
  launch.size = *flags.world_size;
  launch.local_rank = launch.size == 1 ? 0 : -1;
  launch.port = kDefaultMasterPort;
  launch.source = LaunchSource::kFlags;
  return launch;
}

absl::StatusOr<Launch> WithoutAddressFlags(const LaunchFlags& flags,
                                           const Environment& environment) {
  if (flags.rank || flags.world_size) return FromFlags(flags);
  if (environment("RANK") || environment("WORLD_SIZE")) return FromTorchrun(environment);
  if (environment("OMPI_COMM_WORLD_RANK") || environment("OMPI_COMM_WORLD_SIZE")) {
    return FromOpenMpi(environment);
  }
  if (UnderSrun(environment)) return FromSlurm(environment);
  return Launch();
}

}  // namespace

absl::string_view LaunchSourceName(LaunchSource source) {
  switch (source) {
    case LaunchSource::kAlone:
      return "no launcher";
    case LaunchSource::kFlags:
      return "flags";
    case LaunchSource::kTorchrun:
      return "torchrun";
    case LaunchSource::kOpenMpi:
      return "Open MPI";
    case LaunchSource::kSlurm:
      return "Slurm";
    case LaunchSource::kSupervisor:
      return "sluice launch";
  }
  return "unknown";
}

Environment ProcessEnvironment() {
  return [](absl::string_view name) -> std::optional<std::string> {
    const char* value = std::getenv(std::string(name).c_str());
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

absl::StatusOr<Launch> FindLaunch(const LaunchFlags& flags, const Environment& environment) {
  if (flags.master_port && (*flags.master_port < 1 || *flags.master_port > kLargestPort)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--master-port=", *flags.master_port, " is not in 1..", kLargestPort));
  }
  absl::StatusOr<Launch> launch = WithoutAddressFlags(flags, environment);
  if (!launch.ok()) return launch;
  if (launch->source == LaunchSource::kAlone && (!flags.master_addr.empty() || flags.master_port)) {
    return absl::InvalidArgumentError(
        absl::StrCat(flags.master_addr.empty() ? "--master-port" : "--master-addr",
                     " needs --rank and --world-size too: no launcher gave this process a rank"));
  }
  if (!flags.master_addr.empty()) launch->address = flags.master_addr;
  if (flags.master_port) launch->port = *flags.master_port;
  return launch;
}

}  // namespace sluice
