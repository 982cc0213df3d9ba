#include "tools/plan/table_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

bool StartsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// Characters of UTF-8 text, not bytes: a µ is one.
size_t TextWidth(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), StartsCharacter));
}

}  // namespace

std::string AlignRight(const std::string& text, size_t width) {
  const size_t have = TextWidth(text);
  return std::string(have < width ? width - have : 0, ' ') + text;
}

std::string Repeat(const char* text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

std::string Clipped(std::string line, int columns) {
  if (TextWidth(line) <= static_cast<size_t>(columns)) return line;
  auto end = line.begin();
  for (int left = columns; end != line.end(); ++end) {
    if (StartsCharacter(*end) && --left == 0) break;
  }
  line.erase(end, line.end());
  return line + "…";
}

std::string FormatRejected(const std::vector<RejectedPlan>& rejected, size_t most, int columns) {
  size_t width = 0;
  for (const RejectedPlan& each : rejected) width = std::max(width, each.what.size());
  std::string out;
  for (size_t i = 0; i < std::min(most, rejected.size()); ++i) {
    const std::string line =
        fmt::format("    {:<{}}  {}", rejected[i].what, width, rejected[i].why);
    absl::StrAppend(&out, Clipped(line, columns), "\n");
  }
  if (rejected.size() > most) {
    absl::StrAppend(&out, "    and ", rejected.size() - most, " more (--format json has all)\n");
  }
  return out;
}

}  // namespace sluice
