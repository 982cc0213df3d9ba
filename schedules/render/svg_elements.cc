#include "schedules/render/svg_elements.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "schedules/render/render_common.h"

namespace sluice {
namespace {

struct Look {
  Op op;
  Colour colour;
};
constexpr Look kLooks[] = {{Op::kForward, kBlue},
                           {Op::kBackward, kOrange},
                           {Op::kInputGrad, kVermilion},
                           {Op::kWeightGrad, kGreen},
                           {Op::kRecompute, kPurple}};

}  // namespace

std::string Hex(const Colour& colour) {
  const auto byte = [](double value) { return static_cast<int>(std::lround(value)); };
  return absl::StrFormat("#%02x%02x%02x", byte(colour.red), byte(colour.green), byte(colour.blue));
}

Colour Shade(Op op, int chunk, int chunks) {
  const Colour& c = std::find_if(std::begin(kLooks), std::end(kLooks) - 1, [op](const Look& look) {
                      return look.op == op;
                    })->colour;
  const double white = chunks > 1 ? 0.55 * chunk / (chunks - 1) : 0;
  const auto mix = [white](double value) { return value + white * (255 - value); };
  return {mix(c.red), mix(c.green), mix(c.blue)};
}

const char* TextOn(const Colour& colour) {
  // Relative luminance of WCAG, without its gamma.
  constexpr double kDark = 125;
  return 0.299 * colour.red + 0.587 * colour.green + 0.114 * colour.blue < kDark ? "#fff" : "#111";
}

std::string EscapedForXml(const std::string& text) {
  // XML has no way to write control characters.
  std::string characters;
  for (absl::string_view left = text; !left.empty();) {
    const size_t length = CharacterLength(left);
    const bool control = left[0] < ' ' && !absl::StrContains("\t\n\r", left[0]);
    const bool has_place = length > 1 || (length == 1 && !control);
    absl::StrAppend(&characters, has_place ? left.substr(0, length) : "\uFFFD");
    left.remove_prefix(std::max<size_t>(length, 1));
  }
  return absl::StrReplaceAll(characters,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string SvgOpening(double width, double height) {
  return absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.6g\" height=\"%.6g\" viewBox=\"0 0 "
      "%.6g %.6g\" "
      "font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\">\n"
      "<style>text{font-size:12px;fill:#222}.title{font-size:19px;font-weight:bold}.facts{font-"
      "size:13px;fill:#444}"
      ".note{font-size:10.5px;fill:#666}.axis{fill:#444}"
      ".end{text-anchor:end}.mid{text-anchor:middle}.tick{text-anchor:middle;fill:#666;font-size:"
      "11px}</style>\n"
      "<defs><pattern id=\"bubble\" width=\"7\" height=\"7\" patternUnits=\"userSpaceOnUse\" "
      "patternTransform=\"rotate(45)\"><rect width=\"7\" height=\"7\" fill=\"#f3f3f3\"/>"
      "<rect width=\"1.6\" height=\"7\" fill=\"#dedede\"/></pattern>"
      "<pattern id=\"message\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\">"
      "<rect width=\"4\" height=\"4\" fill=\"#f3f3f3\"/>"
      "<rect width=\"4\" height=\"1.2\" y=\"1.4\" fill=\"#9a9a9a\"/></pattern></defs>\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
      width, height, width, height);
}

std::string Rect(double x, double y, double width, double height, const std::string& fill,
                 const std::string& more) {
  return absl::StrFormat(
      "<rect x=\"%.6g\" y=\"%.6g\" width=\"%.6g\" height=\"%.6g\" fill=\"%s\"%s/>", x, y, width,
      height, fill, more);
}

std::string Text(double x, double y, const char* kind, const std::string& text) {
  return absl::StrFormat("<text x=\"%.6g\" y=\"%.6g\" class=\"%s\">%s</text>\n", x, y, kind,
                         EscapedForXml(text));
}

double TextWidth(absl::string_view text, double font) {
  constexpr double kLetter = 0.55;  // of the font's size, on average; bold text is wider
  const auto characters = std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;  // each character of UTF-8 once
  });
  return kLetter * font * static_cast<double>(characters);
}

std::vector<std::string> LinesOf(const std::vector<std::string>& items, const std::string& gap,
                                 double width, double font) {
  std::vector<std::string> lines;
  for (const std::string& item : items) {
    if (!lines.empty() && TextWidth(absl::StrCat(lines.back(), gap, item), font) <= width) {
      absl::StrAppend(&lines.back(), gap, item);
    } else {
      lines.push_back(item);
    }
  }
  return lines;
}

}  // namespace sluice
