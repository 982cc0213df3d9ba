#ifndef SLUICE_TOOLS_TERMINAL_H_
#define SLUICE_TOOLS_TERMINAL_H_

#include <string>

namespace sluice {

// Whether stdout is a terminal that wants colours: NO_COLOR is not set and TERM is not "dumb".
bool WantsColour();
// Whether the locale says that the terminal shows UTF-8.
bool ShowsUnicode();
// The width of the terminal on stdout; else COLUMNS; else 80.
int OutputColumns();
// `line`, of single bytes, cut where it is longer than so many columns, and an ellipsis.
std::string Clipped(std::string line, int columns);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TERMINAL_H_
