#ifndef SLUICE_PIPELINE_SAMPLE_GPT_MODEL_H_
#define SLUICE_PIPELINE_SAMPLE_GPT_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "models/layers/layer.h"
#include "pipeline/checkpoint/files/load_weights.h"
#include "pipeline/checkpoint/files/model_folder.h"
#include "pipeline/sample/cached_model.h"
#include "pipeline/state/arena.h"

namespace sluice {

// A trained GPT that answers with logits: forward only, one sequence at a time. In bf16 its
// matrices and tables are kept so, and computed with as in 'train --dtype bf16'. Layers have a
// fixed sequence length, so they are made anew, and the weights packed again, when a sequence no
// longer fits; lengths grow in steps, so that this is rare and short sequences are cheap. Weights
// lie in one arena, a length's packed weights and activations in another.
class GptModel {
 public:
  // `path` is a checkpoint of `sluice train` (its directory, or one step's folder), or a folder
  // with config.json and weights, in one file or in shards, of a Hugging Face decoder that trains.
  // An adapter (OpenAdapter), where one is given, is merged into the weights, before they are
  // rounded to the compute type. The choice's devices outlive the model. Errors are those of
  // OpenModelFolder, LoadWeights, OpenAdapter and AdaptedMaps.
  static absl::StatusOr<std::unique_ptr<GptModel>> Load(const std::string& path,
                                                        const std::string& adapter = "",
                                                        const ComputeChoice& compute = {});

  ~GptModel();

  const DecoderConfig& config() const { return *folder_.spec.decoder(); }
  // Where the weights were found.
  const std::string& path() const { return folder_.path; }
  // Whether its tokens are the bytes of a text.
  bool reads_bytes() const { return folder_.reads_bytes; }
  // In the host's memory.
  int64_t weight_bytes() const { return weights_->bytes(); }

  // The logits of the token that follows tokens[i], for each i from `first` on: [tokens - first,
  // vocab], valid until the next call. InvalidArgument for no tokens, more than max_seq, one outside
  // of the vocabulary, or a `first` that is none of them; ResourceExhausted when the memory is not
  // there.
  absl::StatusOr<absl::Span<const float>> Logits(absl::Span<const int32_t> tokens,
                                                 int64_t first = 0);

  // Its layers with a cache for each sequence; errors as CachedModel::Make.
  absl::StatusOr<std::unique_ptr<CachedModel>> MakeCached(const CachedModelOptions& options) const;
  // InvalidArgument for a token outside of the vocabulary.
  absl::Status CheckTokens(absl::Span<const int32_t> tokens) const;

 private:
  // The parameters' names, and where they are read to.
  struct Files {
    std::vector<TensorTarget> targets;
    WeightNames names;
  };
  GptModel(ModelFolder folder, const ComputeChoice& compute);
  absl::StatusOr<Files> AllocateParameters();
  absl::Status Merge(const std::string& path, const Files& files);
  // The length that a sequence of `tokens` is run in.
  int64_t LengthFor(int64_t tokens) const;

  ModelFolder folder_;
  ComputeChoice compute_;
  std::unique_ptr<Arena> weights_;
  ParameterTable parameters_;
  std::unique_ptr<CachedModel> cached_;  // of the last call of Logits
  std::vector<float> logits_;            // of the last call
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_SAMPLE_GPT_MODEL_H_
