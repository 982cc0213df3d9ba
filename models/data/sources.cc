#include "models/data/sources.h"

#include "absl/strings/str_cat.h"

namespace sluice {

int64_t Dataset::counted_targets(Split, int64_t, int64_t size) const {
  return input_dtype() == DType::kInt32 ? size * input_size() : size;
}

std::string GroupDigits(int64_t value) {
  std::string digits = absl::StrCat(value);
  const size_t first = value < 0 ? 1 : 0;
  for (size_t end = digits.size(); end > first + 3; end -= 3) digits.insert(end - 3, 1, ',');
  return digits;
}

}  // namespace sluice
