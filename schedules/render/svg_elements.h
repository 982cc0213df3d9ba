#ifndef SLUICE_SCHEDULES_RENDER_SVG_ELEMENTS_H_
#define SLUICE_SCHEDULES_RENDER_SVG_ELEMENTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "schedules/action.h"

// The elements that an SVG chart is made of. Coordinates are in pixels.
namespace sluice {

struct Colour {
  double red, green, blue;
};

// Okabe and Ito's palette, which people with any colour vision can tell apart ("Color Universal
// Design", 2008).
inline constexpr Colour kBlue = {0, 114, 178};
inline constexpr Colour kOrange = {230, 159, 0};
inline constexpr Colour kVermilion = {213, 94, 0};
inline constexpr Colour kGreen = {0, 158, 115};
inline constexpr Colour kPurple = {204, 121, 167};
inline constexpr Colour kSkyBlue = {86, 180, 233};

std::string Hex(const Colour& colour);  // "#0072b2"
// The colour of an action's bar. Later chunks are lighter, evenly down to half way to white.
Colour Shade(Op op, int chunk, int chunks);
// Black or white, whichever can be read on `colour`.
const char* TextOn(const Colour& colour);

// What a chart of this size begins with: its classes of text (title, facts, note, axis, end, mid,
// tick), the patterns "bubble" and "message", and white.
std::string SvgOpening(double width, double height);
// `more` is further attributes, each with a space before it.
std::string Rect(double x, double y, double width, double height, const std::string& fill,
                 const std::string& more = "");
// A line of text that begins, ends or is centred at `x`, as its class of style says.
std::string Text(double x, double y, const char* kind, const std::string& text);
// With the characters that XML gives a meaning replaced.
std::string EscapedForXml(const std::string& text);
// About how wide `text` is in a sans-serif font of this size: enough to leave room for it.
double TextWidth(absl::string_view text, double font);
// Lines of `items` with `gap` between them, each at most `width` wide in a font of this size; an
// item that is wider has a line of its own.
std::vector<std::string> LinesOf(const std::vector<std::string>& items, const std::string& gap,
                                 double width, double font);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_RENDER_SVG_ELEMENTS_H_
