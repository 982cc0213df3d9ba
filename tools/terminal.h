#ifndef SLUICE_TOOLS_TERMINAL_H_
#define SLUICE_TOOLS_TERMINAL_H_

#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

// Whether stdout is a terminal that shows colours: NO_COLOR is not set and TERM is not "dumb".
bool WantsColour();
// Whether the locale says that the terminal shows UTF-8.
bool ShowsUnicode();
// The width of the terminal on stdout; without a terminal COLUMNS; without that 80.
int OutputColumns();

// `text` as it may be printed: names in it may come from any file. As ToPrintable, but colours
// and the line ends of PyTorch's files, CR LF, stay.
std::string ToPrintableOutput(absl::string_view text);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TERMINAL_H_
