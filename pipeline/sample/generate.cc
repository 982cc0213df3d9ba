#include "pipeline/sample/generate.h"

#include <Random123/philox.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr size_t kByteValues = 256;
constexpr uint32_t kSamplingDomain = 0x73616d70;  // keeps these draws apart from others of the seed

// Uniform in [0, 1), from the 53 bits that a double holds.
double Uniform(uint64_t seed, uint64_t position) {
  const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32U); };
  const r123::Philox4x32::ctr_type counter = {{low(position), high(position), kSamplingDomain, 0}};
  const r123::Philox4x32::key_type key = {{low(seed), high(seed)}};
  const r123::Philox4x32::ctr_type bits = r123::Philox4x32()(counter, key);
  const uint64_t word = (uint64_t{bits[0]} << 32U) | bits[1];
  return static_cast<double>(word >> 11U) * 0x1p-53;
}

// Ids of the `count` largest logits, largest first, of equals the smaller id first.
std::vector<int32_t> Likeliest(absl::Span<const float> logits, size_t count) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto before = [logits](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(std::min(count, ids.size()));
  std::partial_sort(ids.begin(), end, ids.end(), before);
  ids.erase(end, ids.end());
  return ids;
}

}  // namespace

int32_t SampleToken(absl::Span<const float> logits, const SamplingOptions& options,
                    uint64_t position) {
  const size_t wanted = options.temperature == 0 ? 1
                        : options.top_k > 0      ? static_cast<size_t>(options.top_k)
                                                 : logits.size();
  const std::vector<int32_t> ids = Likeliest(logits, wanted);
  if (ids.size() == 1) return ids.front();
  const double largest = logits[static_cast<size_t>(ids.front())];
  std::vector<double> cumulative;
  double sum = 0;
  for (int32_t id : ids) {
    sum += std::exp((logits[static_cast<size_t>(id)] - largest) / options.temperature);
    cumulative.push_back(sum);
  }
  const double draw = Uniform(options.seed, position) * sum;
  const auto found = std::upper_bound(cumulative.begin(), cumulative.end(), draw);
  // Rounding may carry the draw up to the sum.
  const auto index = std::min(static_cast<size_t>(found - cumulative.begin()), ids.size() - 1);
  return ids[index];
}

absl::Status Generate(GptModel& model, absl::Span<const int32_t> prompt, int64_t count,
                      const SamplingOptions& options, const std::function<bool(int32_t)>& emit) {
  const auto longest = static_cast<size_t>(model.config().max_seq);
  std::vector<int32_t> tokens(prompt.begin(), prompt.end());
  for (int64_t i = 0; i < count; ++i) {
    const size_t window = std::min(tokens.size(), longest);
    const absl::StatusOr<absl::Span<const float>> logits =
        model.Logits(absl::MakeConstSpan(tokens).subspan(tokens.size() - window),
                     static_cast<int64_t>(window) - 1);
    if (!logits.ok()) return logits.status();
    absl::Span<const float> last = *logits;
    if (model.reads_bytes()) last = last.first(kByteValues);
    if (!std::all_of(last.begin(), last.end(), [](float x) { return std::isfinite(x); })) {
      return absl::InvalidArgumentError(
          absl::StrCat(model.path(), ": its logits are not finite, so its weights are of no use"));
    }
    tokens.push_back(SampleToken(last, options, static_cast<uint64_t>(i)));
    if (!emit(tokens.back())) break;
  }
  return absl::OkStatus();
}

}  // namespace sluice
