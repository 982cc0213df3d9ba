#include "tools/train/train_world.h"

#include <sys/stat.h>

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "comm/spin.h"
#include "comm/tcp/diagnosis.h"
#include "comm/where.h"
#include "models/device/host_limits.h"
#include "models/files/positioned_file.h"
#include "tools/files.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {
namespace {

// mpirun kills a rank one second after it has told it to stop; the error must be printed before.
constexpr absl::Duration kStopPatience = absl::Milliseconds(300);

// For a rank to say that it knows of a failure. Its transport does, so that one that computes is
// not late; longer than a busy machine delays a thread.
constexpr absl::Duration kWordPatience = absl::Seconds(1);

// Whether a Slurm step started this process in such a way that MPI can find the others.
bool SpeaksPmi(const Environment& environment) {
  for (const char* name : {"PMIX_RANK", "PMI_RANK", "PMI_FD"}) {
    if (environment(name)) return true;
  }
  return false;
}

Transport Suggested(const Launch& launch, const Environment& environment) {
  if (launch.source == LaunchSource::kAlone) return Transport::kInProcess;
  const bool by_mpi = launch.source == LaunchSource::kOpenMpi ||
                      (launch.source == LaunchSource::kSlurm && SpeaksPmi(environment));
  return by_mpi && !MpiLibrary().empty() ? Transport::kMpi : Transport::kTcp;
}

absl::StatusOr<Transport> Named(const std::string& name) {
  if (name == "inprocess") return Transport::kInProcess;
  if (name == "tcp") return Transport::kTcp;
  if (name != "mpi") {
    return absl::InvalidArgumentError(
        absl::StrCat("--transport ", name, ": expected inprocess, mpi, tcp or nccl"));
  }
  if (!MpiLibrary().empty()) return Transport::kMpi;
  return absl::InvalidArgumentError(
      "--transport mpi: this build was made without MPI; install libopenmpi-dev and build again, "
      "or use --transport tcp");
}

// InvalidArgument where --transport and the way the process was started do not go together.
absl::Status CheckFits(Transport transport, const Launch& launch) {
  const absl::string_view launcher = LaunchSourceName(launch.source);
  if (transport == Transport::kInProcess && launch.size > 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--transport inprocess, but ", launcher, " started ", launch.size,
        " processes, each of which would train alone; leave out --transport, or start one"));
  }
  if (transport == Transport::kTcp && launch.source == LaunchSource::kAlone) {
    return absl::InvalidArgumentError(
        "--transport tcp needs --rank, --world-size and --master-addr, or a launcher such as "
        "torchrun");
  }
  const bool other_launcher =
      launch.source == LaunchSource::kFlags || launch.source == LaunchSource::kTorchrun;
  if (transport == Transport::kMpi && other_launcher) {
    return absl::InvalidArgumentError(absl::StrCat("--transport mpi needs mpirun or srun, but ",
                                                   launcher,
                                                   " says the rank; use --transport tcp"));
  }
  return absl::OkStatus();
}

// As ssh treats a private key. Ranks of one machine may still use any file.
absl::Status CheckOnlyOwnerReads(const std::string& file, const Launch& launch) {
  const absl::StatusOr<Endpoint> host = Resolve(launch.address, launch.port);
  if (!host.ok() || host->IsLoopback()) return absl::OkStatus();  // to meet will fail, or is local
  struct stat info = {};
  constexpr mode_t kOthers = S_IRWXG | S_IRWXO;
  if (stat(file.c_str(), &info) != 0 || !S_ISREG(info.st_mode) || (info.st_mode & kOthers) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("--secret-file %s can be used by others than its owner (mode %04o); expected "
                      "a secret of ranks "
                      "on several machines to be the owner's alone: chmod 600 %s",
                      file, info.st_mode & 07777, file));
}

// The secret, from a file or from the environment, so that no command line shows it.
absl::StatusOr<std::string> Secret(const std::string& file, const Launch& launch) {
  if (file.empty()) return ProcessEnvironment()(kSecretVariable).value_or("");
  absl::StatusOr<std::string> text = ReadWholeFile(file, kMostSecretBytes);
  if (!text.ok()) return text.status();
  if (absl::Status status = CheckOnlyOwnerReads(file, launch); !status.ok()) return status;
  const absl::string_view secret = absl::StripAsciiWhitespace(*text);
  if (secret.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--secret-file ", file, " is empty"));
  }
  return std::string(secret);
}

}  // namespace

absl::StatusOr<WorldChoice> ChooseWorld(const WorldFlags& flags, const Environment& environment) {
  const absl::StatusOr<Launch> launch = FindLaunch(flags.launch, environment);
  if (!launch.ok()) return launch.status();
  WorldChoice choice{.transport = Suggested(*launch, environment),
                     .launch = *launch,
                     .secret_file = flags.secret_file};
  choice.nccl = flags.transport == "nccl";
  if (!flags.transport.empty() && !choice.nccl) {
    const absl::StatusOr<Transport> named = Named(flags.transport);
    if (!named.ok()) return named.status();
    choice.transport = *named;
  }
  if (absl::Status status = CheckFits(choice.transport, *launch); !status.ok()) return status;
  if (!flags.secret_file.empty() && choice.transport != Transport::kTcp) {
    const char* other =
        choice.transport == Transport::kMpi
            ? "meet over MPI; leave it out, or give --transport tcp"
            : "are threads of one process; leave it out, or give --rank, --world-size and "
              "--master-addr";
    return absl::InvalidArgumentError(absl::StrCat("--secret-file ", flags.secret_file,
                                                   " is for ranks that meet over TCP, and those ",
                                                   "of this run ", other));
  }
  return choice;
}

absl::StatusOr<std::unique_ptr<Communicator>> OpenWorld(const WorldChoice& choice,
                                                        absl::Duration timeout, size_t capacity,
                                                        const std::atomic<bool>* told_to_stop,
                                                        MpiProcess* mpi) {
  const absl::Duration spin = SpinOf(CoresToUse() > 2);
  if (choice.transport == Transport::kMpi) {
    MpiOptions options;
    options.capacity = capacity;
    options.spin = spin;
    options.told_to_stop = told_to_stop;
    if (choice.launch.source == LaunchSource::kOpenMpi) options.stop_patience = kStopPatience;
    return mpi->Open(options);
  }
  TcpOptions options;
  absl::StatusOr<std::string> secret = Secret(choice.secret_file, choice.launch);
  if (!secret.ok()) return secret.status();
  options.secret = *std::move(secret);
  options.timeout = timeout;
  options.heartbeat = HeartbeatFor(timeout);
  options.capacity = capacity;
  options.spin = spin;
  return OpenTcp(choice.launch, options);
}

bool PrintsError(int rank, const absl::Status& status) {
  const Where where = WhereOf(status);
  if (rank == 0 || where.moment == Where::Moment::kAgreement) return true;
  const bool lost = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  return lost && where.peer == 0 && (rank == 1 || where.moment == Where::Moment::kLeaving);
}

bool PrintsError(const Communicator& world, const absl::Status& status) {
  if (PrintsError(world.rank(), status)) return true;
  if (world.failure().ok()) return false;  // nobody has been told of anything
  const Instant deadline = Instant::Now() + kWordPatience;
  for (int lower = 0; lower < world.rank(); ++lower) {
    if (world.KnowsOfFailure(lower, deadline)) return false;
  }
  return true;
}

uint64_t ProgramHash() {
  const absl::StatusOr<std::string> program = ReadWholeFile("/proc/self/exe", kMostTextBytes);
  return program.ok() ? XXH3_64bits(program->data(), program->size()) : 0;
}

}  // namespace sluice
