#ifndef SLUICE_TOOLS_FLAG_VALUES_H_
#define SLUICE_TOOLS_FLAG_VALUES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace sluice {

// The words of a command line after the program's name, for CLI11's parse(), which takes them from
// the last one to the first. CLI11 would take a word such as [a,b] of an option with several values
// for a list, drop its brackets and split it at its commas; so a word that ends with a bracket gets
// a mark behind it, which no word that was typed can have. CheckFlagValues() removes it from what
// options are given.
std::vector<std::string> MarkedWords(int argc, const char* const* argv);
// `text`, an error or a word that was marked, without the mark.
std::string WithoutMarks(std::string text);

// Adds checks to every flag of `app` and of its subcommands, before the checks that the flag has;
// what a flag is given is what was typed, letter for letter, also where it is of MarkedWords():
// - an empty value is refused. It is mostly a variable of a script that was not set, and would pass
//   for a flag that was not given: --secret-file "$UNSET" would train without a secret. Only texts
//   for a model, and titles, may be empty.
// - a whole number is one, and within the 64 bits in which CLI11 would hold it by cutting it off.
// - numbers are decimal: 010 is 10, which CLI11 would take for 8, and 0x10 is refused.
void CheckFlagValues(CLI::App& app);

// Takes sluice or cudnn for `option`, --attention; own, too, which is another name of sluice.
CLI::Option* CheckAttention(CLI::Option* option);

// OK for what was not given, or is at least 1; InvalidArgument names `flag`.
absl::Status CheckAtLeastOne(const char* flag, const std::optional<int>& value);

// The items of `text`, the list that `flag` was given, at its commas; they are parts of `text`.
// InvalidArgument where one is empty, with `example` as what is expected.
absl::StatusOr<std::vector<absl::string_view>> SplitList(absl::string_view flag,
                                                         absl::string_view text,
                                                         absl::string_view example);

}  // namespace sluice

#endif  // SLUICE_TOOLS_FLAG_VALUES_H_
