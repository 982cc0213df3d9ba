#include "tools/train/replanning/measured_speeds.h"

#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace sluice {
namespace {

std::string Number(double value) { return absl::StrFormat("%.3g", value); }

absl::Status Malformed(absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' is not what ranks and layers have been measured to take; expected ",
      "the speeds of ranks, and factors from layers on, as 1,0.5 0:1,6:1.3"));
}

bool ReadPositive(absl::string_view text, double* value) {
  return absl::SimpleAtod(text, value) && std::isfinite(*value) && *value > 0;
}

}  // namespace

std::string MeasuredSpeeds::ToText() const {
  if (!known()) return "";
  std::vector<std::string> speeds, factors;
  for (const double speed : ranks) speeds.push_back(Number(speed));
  std::string last;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    std::string factor = Number(layers[layer]);
    if (factor == last) continue;
    factors.push_back(absl::StrCat(layer, ":", factor));
    last = std::move(factor);
  }
  return absl::StrCat(absl::StrJoin(speeds, ","), " ", absl::StrJoin(factors, ","));
}

absl::StatusOr<MeasuredSpeeds> ParseMeasuredSpeeds(absl::string_view text, int layers) {
  MeasuredSpeeds found;
  if (text.empty()) return found;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ' ');
  if (parts.size() != 2) return Malformed(text);
  for (const absl::string_view speed : absl::StrSplit(parts[0], ',')) {
    if (!ReadPositive(speed, &found.ranks.emplace_back())) return Malformed(text);
  }
  if (parts[1].empty()) return found;
  found.layers.resize(static_cast<size_t>(layers));
  int next = 0;
  for (const absl::string_view item : absl::StrSplit(parts[1], ',')) {
    const std::vector<absl::string_view> pair = absl::StrSplit(item, ':');
    int first = 0;
    double factor = 0;
    if (pair.size() != 2 || !absl::SimpleAtoi(pair[0], &first) || !ReadPositive(pair[1], &factor) ||
        (next == 0 ? first != 0 : first < next) || first >= layers) {
      return Malformed(text);
    }
    for (auto layer = static_cast<size_t>(first); layer < found.layers.size(); ++layer)
      found.layers[layer] = factor;
    next = first + 1;
  }
  return found;
}

}  // namespace sluice
