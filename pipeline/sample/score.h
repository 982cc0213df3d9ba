#ifndef SLUICE_PIPELINE_SAMPLE_SCORE_H_
#define SLUICE_PIPELINE_SAMPLE_SCORE_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "pipeline/sample/cached_model.h"

namespace sluice {

// Takes the logits of all rows of a text, a piece at a time, in order: the row of the first one, and
// [rows, vocab] values.
using TakeLogits = std::function<void(int64_t first_row, absl::Span<const float> logits)>;

// Computes `tokens`, as many as the model's positions at most, as a text of its own; as many pieces
// are under way as there are stages. The sequence is overwritten; after an error the model must go
// before the sequence does. ResourceExhausted where there is no memory for a piece.
absl::Status ForwardText(CachedModel& model, CachedSequence& sequence,
                         absl::Span<const int32_t> tokens, int stages, const TakeLogits& take);

// log softmax(logits)[target], in fp64.
double LogProbability(absl::Span<const float> logits, int32_t target);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_SAMPLE_SCORE_H_
