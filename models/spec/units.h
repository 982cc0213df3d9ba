#ifndef SLUICE_MODELS_SPEC_UNITS_H_
#define SLUICE_MODELS_SPEC_UNITS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Quantities as people type them. A number without a unit is in the SI base unit. InvalidArgument
// shows what was given and which units there are; also for what is negative, not finite, or (bytes,
// bandwidth) less than 1: no link is that slow, and times over it would not be finite.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);     // "80GiB", "512MB", "1e9"
absl::StatusOr<double> ParseBandwidth(absl::string_view text);  // bytes/s: "12GB/s", "900MiB/s"
absl::StatusOr<double> ParseSeconds(absl::string_view text);    // "5us", "30s", "5min", "1h30m"
// The same, but what is less than a nanosecond leaves no time for anything.
absl::StatusOr<double> ParseTimeLimit(absl::string_view text);

// Quantities as people read them, with three or four significant digits: "12.4 GiB", "1.53 ms",
// "2.10 M".
std::string FormatBytes(double bytes);
std::string FormatSeconds(double seconds);
std::string FormatCount(double count);
std::string FormatFlopRate(double flops_per_second);  // "165 TFLOP/s"
std::string FormatShare(double fraction);             // "12.3 %"
// The shortest text that is this number and no other: "0.1".
std::string ShortestNumber(double value);
std::string DescribeMemory(int64_t bytes);  // "1.50 GiB (1610612736 bytes)": exact as well

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_UNITS_H_
