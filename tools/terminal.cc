#include "tools/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "comm/printable.h"

namespace sluice {
namespace {

// As ToPrintableOutput, for text without CR LF.
std::string PrintableLines(absl::string_view text) {
  constexpr absl::string_view kEscape = "\x1b[";
  std::string shown;
  while (true) {
    const size_t escape = text.find(kEscape);
    if (escape == absl::string_view::npos) return shown + ToPrintable(text);
    const size_t end = text.find_first_not_of("0123456789;", escape + kEscape.size());
    const bool colour = end != absl::string_view::npos && text[end] == 'm';
    const size_t next = colour ? end + 1 : escape + 1;
    absl::StrAppend(&shown, ToPrintable(text.substr(0, colour ? escape : next)));
    if (colour) absl::StrAppend(&shown, text.substr(escape, next - escape));
    text.remove_prefix(next);
  }
}

}  // namespace

bool WantsColour() {
  const char* no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && *no_colour != '\0') return false;
  const char* term = std::getenv("TERM");
  if (term != nullptr && std::strcmp(term, "dumb") == 0) return false;
  return isatty(STDOUT_FILENO) == 1;
}

bool ShowsUnicode() {
  // The first variable that is set counts (POSIX, "Environment Variables").
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string locale = absl::AsciiStrToLower(value);
    return absl::StrContains(locale, "utf-8") || absl::StrContains(locale, "utf8");
  }
  return false;
}

int OutputColumns() {
  constexpr int kUsual = 80;
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  int columns = 0;
  const char* wanted = std::getenv("COLUMNS");
  if (wanted != nullptr && absl::SimpleAtoi(wanted, &columns) && columns > 0) return columns;
  return kUsual;
}

size_t TextColumns(absl::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;  // begins a character
  }));
}

void AppendWrapped(absl::string_view text, size_t at, size_t indent, int columns,
                   std::string& out) {
  bool first = true;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    const size_t width = TextColumns(word);
    if (!first && at + 1 + width > static_cast<size_t>(columns)) {
      absl::StrAppend(&out, "\n", std::string(indent, ' '));
      at = indent;
      first = true;
    }
    absl::StrAppend(&out, first ? "" : " ", word);
    at += width + (first ? 0 : 1);
    first = false;
  }
  out += "\n";
}

std::string WrappedBehind(const std::string& head, const std::string& text, int columns) {
  constexpr size_t kLeastRoom = 24, kIndent = 8;
  const size_t behind = TextColumns(head);
  const bool room = behind + kLeastRoom <= static_cast<size_t>(columns);
  std::string out = head;
  AppendWrapped(text, behind, room ? behind : kIndent, columns, out);
  return out;
}

std::string InLocale(std::string text) {
  if (ShowsUnicode()) return text;
  // Bars of two kinds, the prefix of microseconds, and a dot between items.
  return absl::StrReplaceAll(text,
                             {{"\u2588", "#"}, {"\u2593", "="}, {"\u00b5", "u"}, {"\u00b7", "-"}});
}

std::string ToPrintableOutput(absl::string_view text) {
  constexpr absl::string_view kLineEnd = "\r\n";
  return absl::StrJoin(
      absl::StrSplit(text, kLineEnd), kLineEnd,
      [](std::string* out, absl::string_view lines) { out->append(PrintableLines(lines)); });
}

}  // namespace sluice
