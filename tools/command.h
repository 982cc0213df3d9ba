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

// Each of them with what it means.
struct ExitCodeMeaning {
  ExitCode code;
  const char* meaning;
};
inline constexpr ExitCodeMeaning kExitCodeMeanings[] = {
    {kExitDone, "done"},
    {kExitBadInput, "bad usage or input"},
    {kExitNoPlan, "no feasible plan"},
    {kExitInvalidTimetable, "an invalid timetable"},
    {kExitPeerLost, "a peer or a device was lost"},
    {kExitOutOfMemory, "out of memory"},
    {kExitInterrupted, "interrupted"},
};
// A line for each of them, "  2    bad usage or input".
std::string ExitCodeTable();

// Prints "sluice: <message>" to stderr, preceded by where it happened (comm/where.h) and without
// the name of the status code.
void PrintError(const absl::Status& status);
// Prints a note in the same form while the program continues. Both are one line, without control
// characters, of some 2,000 bytes at most, whatever was quoted in it.
void PrintNotice(const std::string& text);
std::string NoticeLine(const std::string& text);  // that line
// `status` with an exit code other than the one that follows from its code.
absl::Status WithExitCode(absl::Status status, ExitCode code);
// The exit code for `status`: Unavailable and DeadlineExceeded mean a lost peer, ResourceExhausted
// out of memory, Cancelled an interrupt, everything else bad input; unless WithExitCode has set
// another one.
int ExitCodeOf(const absl::Status& status);
// Calls PrintError and returns the exit code.
int Fail(const absl::Status& status);

// InvalidArgument where --json is given beside a --format that is neither the usual "text" nor
// "json".
absl::Status CheckJsonFlag(bool json, const std::string& format);

// A check for every flag that takes a seed: refuses values that are not whole numbers from 0 to
// 2^64 - 1, before CLI11 takes them modulo 2^64.
CLI::Validator WholeSeed();
// A check for every flag that takes a fraction, before its other checks: refuses NaN and
// infinities, and values further from 0 than `most`. With kLargestFloat it refuses values that
// would become infinite as a float.
inline constexpr double kLargestFloat = std::numeric_limits<float>::max();
CLI::Validator FiniteNumber(double most = std::numeric_limits<double>::max());

// Each adds one subcommand to `app`; when it is chosen, its callback runs it and stores the exit
// code in `*exit_code`. One file each: tools/schedule/schedule_command.cc and so on.
void AddScheduleCommand(CLI::App& app, int* exit_code);
void AddPlanCommand(CLI::App& app, int* exit_code);
void AddTrainCommand(CLI::App& app, int* exit_code);
void AddConfigCommand(CLI::App& app, int* exit_code);
void AddSelfTestCommand(CLI::App& app, int* exit_code);
void AddLaunchCommand(CLI::App& app, int* exit_code);
void AddSampleCommand(CLI::App& app, int* exit_code);
void AddChatCommand(CLI::App& app, int* exit_code);
void AddMergeCommand(CLI::App& app, int* exit_code);
void AddScoreCommand(CLI::App& app, int* exit_code);
void AddTokenizeCommand(CLI::App& app, int* exit_code);
void AddProfileCommand(CLI::App& app, int* exit_code);
void AddDoctorCommand(CLI::App& app, int* exit_code);
void AddHelpCommand(CLI::App& app, int* exit_code);
void AddCompletionCommand(CLI::App& app, int* exit_code);
void AddManualCommand(CLI::App& app, int* exit_code);
void AddCalibrateCommand(CLI::App& app, int* exit_code);
void AddRooflineCommand(CLI::App& app, int* exit_code);

}  // namespace sluice

#endif  // SLUICE_TOOLS_COMMAND_H_
