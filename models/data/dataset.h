#ifndef SLUICE_MODELS_DATA_DATASET_H_
#define SLUICE_MODELS_DATA_DATASET_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "models/spec/dtype.h"
#include "models/spec/targets.h"

namespace sluice {

enum class Split : uint8_t { kTrain, kValidation };

// What Fill writes of `size` samples. Each may be null.
struct SampleBuffers {
  void* input = nullptr;  // [size, input_size] values
  // [size, input_size] for tokens, [size] for images: labels, or kNoTarget.
  int32_t* targets = nullptr;
  // [size, input_size] for tokens: where in its sample the document of a token begins, so that the
  // token's position in its document is its place in the sample less this. Not written for images.
  int32_t* starts = nullptr;
};

// Samples that training draws micro-batches from. Thread-safe after construction. All results
// depend only on the arguments and the seed, so any rank can compute its own.
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
  // Whether a sample holds several documents, or targets that are kNoTarget. Where it does not,
  // all starts are 0 and every target counts.
  virtual bool has_documents() const { return false; }
  // Writes micro-batch `index` of the split: its sample i is sample index * size + i of an endless
  // sequence, in which each epoch (samples(split) of them) is a new permutation of all samples for
  // kTrain, and the natural order for kValidation. `dtype` is that of the input: kInt32 for tokens,
  // the compute type for pixels; kBFloat16 pixels are the fp32 ones rounded to nearest even.
  virtual void Fill(Split split, int64_t index, int64_t size, DType dtype,
                    const SampleBuffers& out) const = 0;
  // The targets of micro-batch `index` that are not kNoTarget, without reading data.
  virtual int64_t counted_targets(Split split, int64_t index, int64_t size) const;
  // Equal for equal data: kind ("words" of a text whose tokens are not its bytes), sizes and a
  // checksum, "text:4351186:0123456789abcdef". A checkpoint stores it, so that a run is not resumed
  // with other data. The first call reads all data (of a larger text 64 MiB, spread evenly over the
  // file); later ones return the same, so that all checkpoints of a run name the data that it began
  // with.
  const std::string& fingerprint() const {
    std::call_once(fingerprint_once_, [this] { fingerprint_ = MakeFingerprint(); });
    return fingerprint_;
  }
  // FailedPrecondition where a file that Fill reads has changed since it was opened: what is read
  // now is not what `fingerprint` names. OK where the data are in memory.
  virtual absl::Status CheckUnchanged() const { return absl::OkStatus(); }
  // The first failure to read data for Fill or fingerprint, which used zeros instead.
  virtual absl::Status status() const { return absl::OkStatus(); }
  // What a person should know about the data, a line each: documents that were cut or left out.
  virtual std::vector<std::string> notes() const { return {}; }

 protected:
  virtual std::string MakeFingerprint() const { return description(); }

 private:
  mutable std::once_flag fingerprint_once_;
  mutable std::string fingerprint_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_DATASET_H_
