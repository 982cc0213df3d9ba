#include "partitioner/costs/parallel.h"

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

// Far more than there are devices; products of two stay whole numbers.
constexpr int kMostRanks = 32768;

absl::Status Refuse(const char* field, int value, const char* expected) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; expected ", expected));
}

}  // namespace

absl::Status ValidateParallel(const Parallel& parallel) {
  if (parallel.data < 1 || parallel.data > kMostRanks) {
    return Refuse("data parallelism", parallel.data, "1 to 32768");
  }
  if (parallel.tensor < 1 || parallel.tensor > kMostRanks) {
    return Refuse("tensor parallelism", parallel.tensor, "1 to 32768");
  }
  if (parallel.zero < 0 || parallel.zero > 2) return Refuse("ZeRO", parallel.zero, "0, 1 or 2");
  return absl::OkStatus();
}

}  // namespace sluice
