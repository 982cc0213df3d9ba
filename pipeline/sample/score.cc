#include "pipeline/sample/score.h"

#include <algorithm>
#include <cmath>

namespace sluice {

absl::Status ForwardText(CachedModel& model, CachedSequence& sequence,
                         absl::Span<const int32_t> tokens, int stages, const TakeLogits& take) {
  sequence.tokens.clear();
  int under_way = 0;
  while (!tokens.empty() || under_way > 0) {
    if (!tokens.empty() && under_way <= stages) {
      const int64_t rows = model.Submit(sequence, tokens, static_cast<int64_t>(tokens.size()));
      tokens.remove_prefix(static_cast<size_t>(rows));
      ++under_way;
      continue;
    }
    const absl::StatusOr<Piece> piece = model.Wait();
    if (!piece.ok()) return piece.status();
    --under_way;
    take(piece->position, piece->logits);
  }
  return absl::OkStatus();
}

double LogProbability(absl::Span<const float> logits, int32_t target) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  return logits[static_cast<size_t>(target)] - largest - std::log(sum);
}

}  // namespace sluice
