#include "models/spec/units.h"

#include <charconv>
#include <cmath>
#include <iterator>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"

namespace sluice {
namespace {

struct Unit {
  const char* name;
  double scale;
};

constexpr double kKibi = 1024;
constexpr Unit kByteUnits[] = {{"B", 1},
                               {"kB", 1e3},
                               {"MB", 1e6},
                               {"GB", 1e9},
                               {"TB", 1e12},
                               {"KiB", kKibi},
                               {"MiB", kKibi* kKibi},
                               {"GiB", kKibi* kKibi* kKibi},
                               {"TiB", kKibi* kKibi* kKibi* kKibi}};
constexpr Unit kBandwidthUnits[] = {
    {"B/s", 1},     {"kB/s", 1e3},    {"MB/s", 1e6},           {"GB/s", 1e9},
    {"TB/s", 1e12}, {"KiB/s", kKibi}, {"MiB/s", kKibi* kKibi}, {"GiB/s", kKibi* kKibi* kKibi}};
constexpr Unit kTimeUnits[] = {{"s", 1},     {"ms", 1e-3}, {"us", 1e-6}, {"µs", 1e-6},
                               {"ns", 1e-9}, {"min", 60},  {"m", 60},    {"h", 3600}};

absl::Status Bad(absl::string_view text, const char* what, absl::Span<const Unit> units) {
  const auto append = [](std::string* out, const Unit& unit) { out->append(unit.name); };
  return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not ", what,
                                                 "; expected a number and one of ",
                                                 absl::StrJoin(units, ", ", append)));
}

// Where the number ends and its unit begins.
size_t UnitStart(absl::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    const char c = text[end];
    const bool exponent = (c == 'e' || c == 'E') && end + 1 < text.size() &&
                          (text[end + 1] == '-' || text[end + 1] == '+' ||
                           (text[end + 1] >= '0' && text[end + 1] <= '9'));
    if ((c < '0' || c > '9') && c != '.' && !exponent) break;
    end += exponent ? 2 : 1;
  }
  return end;
}

absl::StatusOr<double> Parse(absl::string_view given, const char* what,
                             absl::Span<const Unit> units) {
  const absl::string_view text = absl::StripAsciiWhitespace(given);
  const size_t split = UnitStart(text);
  double value = 0;
  if (split == 0 || !absl::SimpleAtod(text.substr(0, split), &value) || !std::isfinite(value)) {
    return Bad(given, what, units);
  }
  const absl::string_view name = absl::StripLeadingAsciiWhitespace(text.substr(split));
  if (name.empty()) return value;
  for (const Unit& unit : units) {
    if (name == unit.name && std::isfinite(value * unit.scale)) return value * unit.scale;
  }
  return Bad(given, what, units);
}

// `value` in the largest of `units` (ascending) that leaves at least 1.
std::string Format(double value, absl::Span<const Unit> units) {
  const Unit* unit = &units.front();
  for (const Unit& larger : units) {
    // What would print as 1000 of a unit is 1 of the next.
    if (std::abs(value) >= larger.scale * 0.9995) unit = &larger;
  }
  const double shown = value / unit->scale;
  const int digits = std::abs(shown) >= 99.95 || shown == 0 ? 0 : std::abs(shown) >= 9.995 ? 1 : 2;
  const char* space = unit->name[0] == '\0' ? "" : " ";
  const bool whole = unit->scale == 1 && digits == 2 && shown == std::floor(shown);
  return absl::StrFormat("%.*f%s%s", whole ? 0 : digits, shown, space, unit->name);
}

}  // namespace

absl::StatusOr<int64_t> ParseBytes(absl::string_view text) {
  const absl::StatusOr<double> bytes = Parse(text, "a number of bytes", kByteUnits);
  if (!bytes.ok()) return bytes.status();
  constexpr double kMost = 9e18;
  if (*bytes < 1 || *bytes > kMost) return Bad(text, "a number of bytes above 0", kByteUnits);
  return static_cast<int64_t>(*bytes);
}

absl::StatusOr<double> ParseBandwidth(absl::string_view text) {
  absl::StatusOr<double> rate = Parse(text, "a bandwidth", kBandwidthUnits);
  if (rate.ok() && *rate < 1) return Bad(text, "a bandwidth of at least 1B/s", kBandwidthUnits);
  return rate;
}

absl::StatusOr<double> ParseSeconds(absl::string_view text) {
  constexpr char kWhat[] = "a time";
  absl::string_view rest = absl::StripAsciiWhitespace(text);
  double sum = 0;
  bool several = false;
  do {
    const size_t unit = UnitStart(rest);
    const absl::string_view part = rest.substr(0, rest.find_first_of("0123456789.", unit));
    rest.remove_prefix(part.size());
    several |= !rest.empty();
    const absl::StatusOr<double> seconds = Parse(part, kWhat, kTimeUnits);
    if (!seconds.ok() || (several && unit == absl::StripAsciiWhitespace(part).size()))
      return Bad(text, kWhat, kTimeUnits);
    sum += *seconds;
  } while (!rest.empty());
  return std::isfinite(sum) ? absl::StatusOr<double>(sum) : Bad(text, kWhat, kTimeUnits);
}

absl::StatusOr<double> ParseTimeLimit(absl::string_view text) {
  constexpr double kLeast = 1e-9;
  absl::StatusOr<double> seconds = ParseSeconds(text);
  if (!seconds.ok() || *seconds >= kLeast) return seconds;
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' leaves no time; expected at least 1ns, such as 10s"));
}

std::string FormatBytes(double bytes) {
  constexpr Unit kUnits[] = {{"B", 1},
                             {"KiB", kKibi},
                             {"MiB", kKibi * kKibi},
                             {"GiB", kKibi * kKibi * kKibi},
                             {"TiB", kKibi * kKibi * kKibi * kKibi}};
  return Format(bytes, kUnits);
}

std::string FormatSeconds(double seconds) {
  constexpr Unit kUnits[] = {{"ns", 1e-9}, {"µs", 1e-6}, {"ms", 1e-3}, {"s", 1}};
  return Format(seconds, kUnits);
}

std::string FormatCount(double count) {
  constexpr Unit kUnits[] = {{"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}};
  return Format(count, kUnits);
}

std::string FormatFlopRate(double flops_per_second) {
  constexpr Unit kUnits[] = {{"FLOP/s", 1},    {"kFLOP/s", 1e3},  {"MFLOP/s", 1e6},
                             {"GFLOP/s", 1e9}, {"TFLOP/s", 1e12}, {"PFLOP/s", 1e15}};
  return Format(flops_per_second, kUnits);
}

std::string FormatShare(double fraction) { return absl::StrFormat("%.1f %%", 100 * fraction); }

std::string ShortestNumber(double value) {
  char text[32];
  const std::to_chars_result end = std::to_chars(std::begin(text), std::end(text), value);
  return std::string(text, end.ptr);
}

std::string DescribeMemory(int64_t bytes) {
  constexpr double kMebi = 1 << 20, kGibi = 1 << 30;
  const double value = static_cast<double>(bytes);
  const bool large = value >= kGibi;
  return absl::StrFormat("%.2f %s (%d bytes)", value / (large ? kGibi : kMebi),
                         large ? "GiB" : "MiB", bytes);
}

}  // namespace sluice
