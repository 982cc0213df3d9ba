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
      "the speeds of ranks, factors from layers on, and seconds of links, as 1,0.5 0:1,6:1.3 "
      "0,0.02"));
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
  std::vector<std::string> seconds;
  for (const double link : links) seconds.push_back(Number(link));
  return absl::StrCat(absl::StrJoin(speeds, ","), " ", absl::StrJoin(factors, ","), " ",
                      absl::StrJoin(seconds, ","));
}

absl::StatusOr<MeasuredSpeeds> ParseMeasuredSpeeds(absl::string_view text, int layers) {
  MeasuredSpeeds found;
  if (text.empty()) return found;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ' ');
  if (parts.size() != 3) return Malformed(text);
  for (const absl::string_view speed : absl::StrSplit(parts[0], ',')) {
    if (!ReadPositive(speed, &found.ranks.emplace_back())) return Malformed(text);
  }
  for (const absl::string_view seconds : absl::StrSplit(parts[2], ',', absl::SkipEmpty())) {
    double& link = found.links.emplace_back();
    if (!absl::SimpleAtod(seconds, &link) || !std::isfinite(link) || link < 0)
      return Malformed(text);
  }
  if (!found.links.empty() && found.links.size() != found.ranks.size()) return Malformed(text);
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
