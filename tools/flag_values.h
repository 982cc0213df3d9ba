#ifndef SLUICE_TOOLS_FLAG_VALUES_H_
#define SLUICE_TOOLS_FLAG_VALUES_H_

namespace CLI {
class App;
}  // namespace CLI

namespace sluice {

// Adds checks to every flag of `app` and of its subcommands, before the checks that the flag has:
// - an empty value is refused. It is mostly a variable of a script that was not set, and would pass
//   for a flag that was not given: --secret-file "$UNSET" would train without a secret. Only texts
//   for a model, and titles, may be empty.
// - a whole number is one, and within the 64 bits in which CLI11 would hold it by cutting it off.
void CheckFlagValues(CLI::App& app);

}  // namespace sluice

#endif  // SLUICE_TOOLS_FLAG_VALUES_H_
