#ifndef SLUICE_TOOLS_COMMAND_H_
#define SLUICE_TOOLS_COMMAND_H_

#include <limits>
#include <string>

#include "absl/status/status.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace sluice {

// The exit codes that scripts rely on.
enum ExitCode : int {
  kExitDone = 0,
  kExitBadInput = 2,
  kExitNoPlan = 3,
  kExitInvalidTimetable = 4,
  kExitPeerLost = 5,
  kExitOutOfMemory = 6,
  kExitInterrupted = 130,
};

// Prints "sluice: <message>" to stderr, with where it happened (comm/where.h) and without a status
// code's name.
void PrintError(const absl::Status& status);
// The same of what a person should know while the program goes on.
void PrintNotice(const std::string& text);
// `status` with an exit code that its own code does not say.
absl::Status WithExitCode(absl::Status status, ExitCode code);
// The exit code that `status` stands for: Unavailable and DeadlineExceeded a lost peer,
// ResourceExhausted out of memory, Cancelled an interrupt, everything else bad input; or the one
// that WithExitCode gave it.
int ExitCodeOf(const absl::Status& status);
// PrintError, and the exit code.
int Fail(const absl::Status& status);

// InvalidArgument where --json is given beside a --format that is neither the usual "text" nor
// "json".
absl::Status CheckJsonFlag(bool json, const std::string& format);

// For every flag that takes a seed: refuses what is no whole number from 0 to 2^64 - 1, before
// CLI11 takes a number modulo 2^64.
CLI::Validator WholeSeed();
// For every flag that takes a number with a fraction, before other checks: refuses NaN and
// infinities, and what is further from 0 than `most`, so that kLargestFloat refuses what would be
// an infinity where the number is used as a float.
inline constexpr double kLargestFloat = std::numeric_limits<float>::max();
CLI::Validator FiniteNumber(double most = std::numeric_limits<double>::max());

// Each adds one subcommand to `app`; when it is chosen, its callback runs it and stores the exit
// code in `*exit_code`. One file each: tools/schedule/schedule_command.cc and so on.
void AddScheduleCommand(CLI::App& app, int* exit_code);
void AddPlanCommand(CLI::App& app, int* exit_code);
void AddTrainCommand(CLI::App& app, int* exit_code);
void AddSampleCommand(CLI::App& app, int* exit_code);
void AddProfileCommand(CLI::App& app, int* exit_code);
void AddDoctorCommand(CLI::App& app, int* exit_code);
void AddCalibrateCommand(CLI::App& app, int* exit_code);

}  // namespace sluice

#endif  // SLUICE_TOOLS_COMMAND_H_
