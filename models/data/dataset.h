#ifndef SLUICE_MODELS_DATA_DATASET_H_
#define SLUICE_MODELS_DATA_DATASET_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "models/spec/model_spec.h"

namespace sluice {

enum class Split : uint8_t { kTrain, kValidation };

// Samples that training draws micro-batches from. Thread-safe after construction; what it returns
// depends only on the arguments and the seed, so any rank can ask for its own.
class Dataset {
 public:
  virtual ~Dataset() = default;
  // "text: 4,351,186 bytes, vocabulary 256, last 10 % for validation"
  virtual std::string description() const = 0;
  virtual int64_t samples(Split split) const = 0;
  // Distinct token or class ids (all ids lie below it), and values per sample of the input.
  virtual int classes() const = 0;
  virtual int64_t input_size() const = 0;
  // kInt32 tokens, or kFloat32 pixels, normalised: (byte - mean) / deviation over all pixels of the
  // training split.
  virtual DType input_dtype() const = 0;
  // Micro-batch `index` of those that the split is read in: sample i of it is number index * size +
  // i of a sequence in which each epoch (samples(split) of them) is a new permutation of all
  // samples for kTrain, and the natural order for kValidation. `input` receives size * input_size
  // values of `dtype` (kInt32 for tokens; compute type for pixels), `targets` size *
  // targets_per_sample labels. Either may be null. kBFloat16 pixels are the fp32 ones rounded to
  // nearest even.
  virtual void Fill(Split split, int64_t index, int64_t size, DType dtype, void* input,
                    int32_t* targets) const = 0;
  // Equal for equal data: kind, sizes and a checksum ("text:4351186:0123456789abcdef"). A
  // checkpoint keeps it, so that a run is not resumed on other data. Reads all data (64 MiB of it,
  // evenly spread, of a larger text).
  virtual std::string fingerprint() const { return description(); }
  // The first failure to read what Fill or fingerprint were asked for, which got zeros instead.
  virtual absl::Status status() const { return absl::OkStatus(); }
};

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_DATASET_H_
