#include "partitioner/planning/answer/head_advice.h"

#include "absl/strings/str_cat.h"
#include "models/spec/units.h"

namespace sluice {
namespace {

// Logits that take less of the memory than one of so many parts are not why something does not fit.
constexpr int64_t kNoticeableShare = 8;
// Fewer rows of logits at a time would be slow.
constexpr int64_t kFewestRows = 16;

}  // namespace

std::string HeadAdvice(const ModelSpec& spec, const BatchShape& batch, DType dtype,
                       const HeadLimits& limits, int64_t memory) {
  const DecoderConfig* const decoder = spec.decoder();
  if (decoder == nullptr) return "";
  const HeadBlocks blocks = decoder->head_blocks(batch.rows(), limits);
  const int64_t bytes = blocks.rows * PaddedWidth(decoder->vocab, limits) * SizeOf(dtype);
  const int64_t fewer = blocks.rows / kNoticeableShare;
  if (fewer < kFewestRows || bytes < memory / kNoticeableShare) return "";
  return absl::StrCat("The logits of ", blocks.rows, " tokens at a time take ",
                      FormatBytes(static_cast<double>(bytes)), " of it; with --head-rows ", fewer,
                      " they take ",
                      FormatBytes(static_cast<double>(bytes) / double{kNoticeableShare}));
}

}  // namespace sluice
