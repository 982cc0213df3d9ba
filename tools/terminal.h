#ifndef SLUICE_TOOLS_TERMINAL_H_
#define SLUICE_TOOLS_TERMINAL_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace sluice {

// Whether stdout is a terminal that shows colours: NO_COLOR is not set and TERM is not "dumb".
bool WantsColour();
// Whether the locale says that the terminal shows UTF-8.
bool ShowsUnicode();
// The width of the terminal on stdout; without a terminal COLUMNS; without that 80.
int OutputColumns();

// Characters of UTF-8 text, not bytes: a µ is one.
size_t TextColumns(absl::string_view text);
// Appends the words of `text` to `out`, on whose last line `at` columns are taken, and ends the
// line. No line has more than `columns` where no word is longer; further ones begin with `indent`
// spaces.
void AppendWrapped(absl::string_view text, size_t at, size_t indent, int columns, std::string& out);
// `head` and behind it the words of `text`, in lines of at most `columns` characters where no word
// is longer. Further lines begin below the first word of `text`, or, where that leaves little room,
// a few columns in.
std::string WrappedBehind(const std::string& head, const std::string& text, int columns);

// The text of a table as the locale shows it: where that is not UTF-8, bars and units in ASCII.
std::string InLocale(std::string text);

// `text` as it may be printed: names in it may come from any file. As ToPrintable, but colours
// and the line ends of PyTorch's files, CR LF, stay.
std::string ToPrintableOutput(absl::string_view text);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TERMINAL_H_
