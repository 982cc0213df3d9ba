#include "schedules/generators/did_you_mean.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {
namespace {

int EditDistance(absl::string_view a, absl::string_view b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (const char letter : a) {
    int diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const int replace = diagonal + (letter != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replace, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

using Distances = std::vector<std::pair<int, std::string>>;

// `names`, the nearest to `name` first.
Distances ByDistance(absl::string_view name, const std::vector<std::string>& names) {
  Distances sorted;
  sorted.reserve(names.size());
  for (const std::string& known : names) sorted.emplace_back(EditDistance(name, known), known);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return sorted;
}

bool IsLike(absl::string_view name, const std::pair<int, std::string>& known) {
  return 2 * static_cast<size_t>(known.first) <= std::max(name.size(), known.second.size());
}

}  // namespace

std::string DidYouMean(absl::string_view name, const std::vector<std::string>& names) {
  const Distances sorted = ByDistance(name, names);
  if (!IsLike(name, sorted.front())) return absl::StrCat("there are: ", absl::StrJoin(names, ", "));
  const auto take_name = [](std::string* out, const auto& known) { out->append(known.second); };
  return absl::StrCat("did you mean '", sorted.front().second,
                      "'? there are: ", absl::StrJoin(sorted, ", ", take_name));
}

std::optional<std::string> NearestName(absl::string_view name,
                                       const std::vector<std::string>& names) {
  const Distances sorted = ByDistance(name, names);
  if (sorted.empty() || !IsLike(name, sorted.front())) return std::nullopt;
  return sorted.front().second;
}

}  // namespace sluice
