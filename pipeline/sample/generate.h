#ifndef SLUICE_PIPELINE_SAMPLE_GENERATE_H_
#define SLUICE_PIPELINE_SAMPLE_GENERATE_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "pipeline/sample/gpt_model.h"

namespace sluice {

struct SamplingOptions {
  double temperature = 0.8;  // logits are divided by it; 0: always the likeliest
  int top_k = 40;            // draws from this many likeliest; 0: from all
  uint64_t seed = 1;
};

// Draws a token from softmax(logits / temperature) over the top_k largest (of equals, the smaller
// ids). The draw is Philox (Salmon et al. 2011) keyed by the seed, with `position` as its counter:
// same logits, options and position, same token. Requires finite logits, at least one.
int32_t SampleToken(absl::Span<const float> logits, const SamplingOptions& options,
                    uint64_t position);

// Continues `prompt` (at least one token) by `count` tokens, each from the last max_seq before it;
// `emit` gets each as it comes and ends it by returning false. A model that reads bytes writes
// bytes, whatever its vocabulary. InvalidArgument when the model's logits are not finite.
absl::Status Generate(GptModel& model, absl::Span<const int32_t> prompt, int64_t count,
                      const SamplingOptions& options, const std::function<bool(int32_t)>& emit);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_SAMPLE_GENERATE_H_
