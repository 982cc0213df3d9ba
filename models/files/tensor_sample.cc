#include "models/files/tensor_sample.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {

absl::StatusOr<uint64_t> SampleTensors(const SafetensorsFile& file) {
  std::vector<float> values(kSampledValues);
  uint64_t sum = 0;  // so that the order of the tensors does not matter
  for (const TensorEntry& entry : file.entries()) {
    const int64_t all =
        std::accumulate(entry.shape.begin(), entry.shape.end(), int64_t{1}, std::multiplies<>());
    int64_t count = std::min(all, kSampledValues);
    if (!file.Check(entry.name, entry.shape).ok()) count = 0;
    if (count > 0) {
      absl::Status status =
          file.Read(entry.name, entry.shape, (all - count) / 2, count, values.data());
      if (!status.ok()) return status;
    }
    const std::string what = absl::StrCat(entry.name, "|", absl::StrJoin(entry.shape, "x"));
    sum += XXH3_64bits_withSeed(values.data(), static_cast<size_t>(count) * sizeof(float),
                                XXH3_64bits(what.data(), what.size()));
  }
  return sum;
}

}  // namespace sluice
