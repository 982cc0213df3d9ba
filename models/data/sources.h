#ifndef SLUICE_MODELS_DATA_SOURCES_H_
#define SLUICE_MODELS_DATA_SOURCES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/data/dataset.h"

// The kinds of data that OpenDataset chooses from, and what they share. Not for use outside of
// models/data.
namespace sluice {

// One tenth is held out where the data have no validation split.
constexpr int64_t kHeldOutFraction = 10;

// A text file, see OpenDataset.
absl::StatusOr<std::unique_ptr<Dataset>> OpenTextDataset(const std::string& path, int64_t seq,
                                                         uint64_t seed);
// InvalidArgument where the file's name (.bin, .jsonl) or its beginning (a byte that is 0, a line
// of JSON) shows that it is not text; the message names the file, and --bytes.
absl::Status CheckIsText(const std::string& path);
// A directory of IDX files, or one IDX file of images.
absl::StatusOr<std::unique_ptr<Dataset>> OpenImageDataset(const std::string& path, uint64_t seed);

// The place of sample `number` of a split's endless sequence: its epoch, and its index among the
// `samples` of that epoch.
struct Position {
  int64_t epoch = 0;
  int64_t sample = 0;
};
inline Position PositionOf(int64_t number, int64_t samples) {
  return {number / samples, number % samples};
}

// "4,351,186"
std::string GroupDigits(int64_t value);

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_SOURCES_H_
