#ifndef SLUICE_MODELS_DATA_SOURCES_H_
#define SLUICE_MODELS_DATA_SOURCES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/data/corpora/token_source.h"
#include "models/data/data_request.h"
#include "models/data/dataset.h"

// The kinds of data that OpenDataset chooses from, and what they share. Not for use outside of
// models/data.
namespace sluice {

// The samples of `size` that are held out where their share is `share`, 0 to 0.5.
int64_t HeldOut(int64_t size, double share);

// Tokens that are cut into windows, whatever they mean.
struct WindowSources {
  std::string kind;  // "text", "tokens"
  std::string unit;  // of the numbers that messages give: "bytes", "tokens"
  std::string unit_of_one;
  int32_t vocabulary = 0;
  std::unique_ptr<TokenSource> train = nullptr;
  std::unique_ptr<TokenSource> validation = nullptr;  // null: a share of `train`
  std::vector<std::string> notes = {};
};
// Windows of request.seq + 1 tokens, see OpenDataset.
absl::StatusOr<std::unique_ptr<Dataset>> MakeWindowDataset(WindowSources sources,
                                                           const DataRequest& request);
// A directory of IDX files, or one IDX file of images. `validation`: the share that is held out
// where there are no t10k files.
absl::StatusOr<std::unique_ptr<Dataset>> OpenImageDataset(const std::string& path,
                                                          double validation, uint64_t seed);

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
