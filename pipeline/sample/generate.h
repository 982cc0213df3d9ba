#ifndef SLUICE_PIPELINE_SAMPLE_GENERATE_H_
#define SLUICE_PIPELINE_SAMPLE_GENERATE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "pipeline/sample/gpt_model.h"

namespace sluice {

struct SamplingOptions {
  double temperature = 0.8;  // logits are divided by it; 0: always the likeliest
  int top_k = 40;            // draws from this many likeliest; 0: from all
  double top_p = 1;          // of those, from the fewest that have this much of the probability
  uint64_t seed = 1;
};

struct GenerateOptions {
  int64_t count = 0;  // of tokens, for each prompt
  SamplingOptions sampling = {};
  std::vector<int32_t> stop = {};  // tokens that end a text, and are no part of it
  int stages = 1;
  int threads = 1;  // of each stage
};

// Draws a token from softmax(logits / temperature) over the top_k largest (of equals, the smaller
// ids), of which top_p leaves the first ones. The draw is Philox (Salmon et al. 2011) keyed by the seed, with `position` as its counter:
// same logits, options and position, same token. Requires finite logits, at least one.
int32_t SampleToken(absl::Span<const float> logits, const SamplingOptions& options,
                    uint64_t position);

// SampleToken of a model's logits. A model that reads bytes writes bytes, whatever its vocabulary.
// InvalidArgument when the logits are not finite.
absl::StatusOr<int32_t> NextToken(const GptModel& model, absl::Span<const float> logits,
                                  const SamplingOptions& options, uint64_t position);

// Continues `prompts` (each of at least one token, at most max_seq), several at a time; `emit` gets
// the number of a prompt and a token as it comes, and ends that text by returning false. Behind
// max_seq tokens each comes from the last max_seq before it, which are computed anew. Tokens do not
// depend on stages, nor on other prompts. Errors as NextToken and GptModel::Logits.
absl::Status GenerateAll(const GptModel& model, absl::Span<const std::vector<int32_t>> prompts,
                         const GenerateOptions& options,
                         const std::function<bool(size_t, int32_t)>& emit);

// One prompt, without stages.
absl::Status Generate(const GptModel& model, absl::Span<const int32_t> prompt, int64_t count,
                      const SamplingOptions& options, const std::function<bool(int32_t)>& emit);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_SAMPLE_GENERATE_H_
