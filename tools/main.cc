#include <fcntl.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "comm/launch.h"
#include "models/device/host_limits.h"
#include "models/device/out_of_memory.h"
#include "tools/command.h"
#include "tools/flag_values.h"
#include "tools/help/help_formatter.h"
#include "tools/help/usage_error.h"
#include "tools/standard_output.h"
#include "tools/train/ending/elastic_error.h"
#include "tools/version/version.h"

namespace {

// The exit code of a program that fails where no command says so itself.
int Failed(const absl::Status& status) {
  sluice::TellElasticAgent(status, sluice::ProcessEnvironment());
  return sluice::Fail(status);
}

// Takes the numbers of standard input, output and error where one is closed, as daemons leave them:
// a file or a socket that is opened later would have it, and what is printed would be written there.
// To read or to write them is the error that it was before.
void TakeClosedDescriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest free number is the one given.
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) (void)!open("/", O_PATH | O_DIRECTORY);
  }
}

// The program's exit code: that of the command, unless what it printed could not be written.
int Ended(int exit_code) {
  errno = 0;
  std::cout.flush();
  const bool written = std::cout.good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  if (written || exit_code != sluice::kExitDone) return exit_code;
  // Where an earlier write failed, nobody knows why any more.
  const std::string why = errno == 0 ? "" : absl::StrCat(": ", std::strerror(errno));
  return Failed(absl::InvalidArgumentError(absl::StrCat("standard output: cannot write", why)));
}

// oneTBB ends the process where it cannot start a thread or has no memory for its tasks. So it uses
// no more threads than there can be now, and only one where memory might run out before the first
// search. Nor more than a container's share of the cores, which oneTBB does not know.
class TbbThreads {
 public:
  void Limit() {
    const int all = tbb::info::default_concurrency();
    const int most = std::min(all, sluice::CoresToUse());
    const bool roomy = sluice::HasAddressSpace(kRoom + static_cast<size_t>(most) * kRoomOfThread);
    const int startable = roomy ? 1 + sluice::StartableThreads(most - 1) : 1;
    if (startable == all) return;
    limit_.emplace(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(startable));
  }

 private:
  static constexpr size_t kRoom = size_t{1} << 30U;
  // A stack, and what malloc sets aside for a thread.
  static constexpr size_t kRoomOfThread = size_t{136} << 20U;

  std::optional<tbb::global_control> limit_;
};

int Run(int argc, char** argv) {
  TbbThreads threads;
  // Writing beyond the limit of a file's size is then an error, like a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  CLI::App app{"sluice: plan, schedule and train a model across pipeline stages", "sluice"};
  app.formatter(std::make_shared<sluice::HelpFormatter>());  // also for the subcommands
  app.footer(absl::StrCat("Exit codes:\n", sluice::ExitCodeTable(),
                          "\n'sluice help COMMAND' or 'sluice COMMAND --help' says more."));
  app.set_version_flag("--version", sluice::VersionText,
                       "Print the version, and those of the libraries that are used");
  app.require_subcommand(1);
  app.parse_complete_callback([&threads] { threads.Limit(); });
  int exit_code = sluice::kExitDone;
  sluice::AddScheduleCommand(app, &exit_code);
  sluice::AddPlanCommand(app, &exit_code);
  sluice::AddProfileCommand(app, &exit_code);
  sluice::AddRooflineCommand(app, &exit_code);
  sluice::AddTrainCommand(app, &exit_code);
  sluice::AddConfigCommand(app, &exit_code);
  sluice::AddLaunchCommand(app, &exit_code);
  sluice::AddSampleCommand(app, &exit_code);
  sluice::AddChatCommand(app, &exit_code);
  sluice::AddScoreCommand(app, &exit_code);
  sluice::AddTokenizeCommand(app, &exit_code);
  sluice::AddMergeCommand(app, &exit_code);
  sluice::AddCalibrateCommand(app, &exit_code);
  sluice::AddDoctorCommand(app, &exit_code);
  sluice::AddSelfTestCommand(app, &exit_code);
  sluice::AddHelpCommand(app, &exit_code);
  sluice::AddCompletionCommand(app, &exit_code);
  sluice::AddManualCommand(app, &exit_code);
  sluice::CheckFlagValues(app);
  try {
    app.parse(sluice::MarkedWords(argc, argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return Ended(app.exit(error));  // --help, --version
    return Failed(
        absl::InvalidArgumentError(sluice::WithoutMarks(sluice::ExplainUsageError(error, app))));
  }
  return Ended(exit_code);
}

// "running 'sluice train'", for messages.
std::string doing;
std::terminate_handler usual_terminate = nullptr;

// An exception that found no handler, or met a function that may not throw: destructors of libraries
// allocate, and threads of libraries have no handler. Where memory or threads have run out, the
// message and the exit code are the usual ones all the same; anything else is a defect, and aborts.
// The other ranks of a run learn of it as of any process that has ended.
void OnTerminate() {
  try {
    const absl::Status status = sluice::ExhaustedStatus(doing);
    absl::string_view text = status.message();
    if (text.empty()) text = "out of memory";
    for (const absl::string_view part :
         {absl::string_view("sluice: "), text, absl::string_view("\n")})
      (void)!write(STDERR_FILENO, part.data(), part.size());
    _exit(sluice::kExitOutOfMemory);
  } catch (...) {
    usual_terminate();
  }
}

}  // namespace

int main(int argc, char** argv) {
  TakeClosedDescriptors();
  sluice::WaitForReaders();
  sluice::KeepMemoryForErrors();
  doing = "running 'sluice";
  if (argc > 1) absl::StrAppend(&doing, " ", argv[1]);
  doing += "'";
  usual_terminate = std::set_terminate(OnTerminate);
  const absl::StatusOr<int> exit_code =
      sluice::OrExhausted(doing, [&] { return absl::StatusOr<int>(Run(argc, argv)); });
  return exit_code.ok() ? *exit_code : Failed(exit_code.status());
}
