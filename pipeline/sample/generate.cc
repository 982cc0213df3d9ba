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

// One prompt on its way to a text.
struct Text {
  CachedSequence sequence;
  std::vector<int32_t> tokens;  // the prompt and what was drawn
  int64_t drawn = 0;
};

// Queues what the sequence lacks, all of which is in flight afterwards; of the last token the
// logits.
void Continue(CachedModel& model, int64_t max_seq, Text& text) {
  auto known = static_cast<int64_t>(text.sequence.tokens.size());
  const auto all = static_cast<int64_t>(text.tokens.size());
  absl::Span<const int32_t> missing = absl::MakeConstSpan(text.tokens);
  if (all > max_seq) {
    missing.remove_prefix(static_cast<size_t>(all - max_seq));  // all positions move
    text.sequence.tokens.clear();
    known = 0;
  }
  missing.remove_prefix(static_cast<size_t>(known));
  while (!missing.empty()) {
    missing.remove_prefix(static_cast<size_t>(model.Submit(text.sequence, missing, 1)));
  }
}

absl::Status CheckPrompts(const GptModel& model, absl::Span<const std::vector<int32_t>> prompts) {
  for (const std::vector<int32_t>& prompt : prompts) {
    const auto longest = static_cast<size_t>(model.config().max_seq);
    if (prompt.empty() || prompt.size() > longest) {
      return absl::InvalidArgumentError(absl::StrCat("a prompt of ", prompt.size(), " tokens; ",
                                                     model.path(), " takes 1 to ", longest));
    }
    if (absl::Status status = model.CheckTokens(prompt); !status.ok()) return status;
  }
  return absl::OkStatus();
}

int64_t LongestText(const GptModel& model, absl::Span<const std::vector<int32_t>> prompts,
                    int64_t count) {
  size_t longest = 0;
  for (const std::vector<int32_t>& prompt : prompts) longest = std::max(longest, prompt.size());
  // The last token is drawn, but not computed. The count may be any number.
  const int64_t max_seq = model.config().max_seq;
  return std::min(max_seq, static_cast<int64_t>(longest) + std::min(count, max_seq));
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
  if (options.top_p < 1) {
    const auto enough =
        std::lower_bound(cumulative.begin(), cumulative.end() - 1, options.top_p * sum);
    cumulative.erase(enough + 1, cumulative.end());
    sum = cumulative.back();
  }
  const double draw = Uniform(options.seed, position) * sum;
  const auto found = std::upper_bound(cumulative.begin(), cumulative.end(), draw);
  // Rounding may carry the draw up to the sum.
  const auto index =
      std::min(static_cast<size_t>(found - cumulative.begin()), cumulative.size() - 1);
  return ids[index];
}

absl::StatusOr<int32_t> NextToken(const GptModel& model, absl::Span<const float> logits,
                                  const SamplingOptions& options, uint64_t position) {
  if (model.reads_bytes()) logits = logits.first(kByteValues);
  if (!std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); })) {
    return absl::InvalidArgumentError(
        absl::StrCat(model.path(), ": its logits are not finite, so its weights are of no use"));
  }
  return SampleToken(logits, options, position);
}

absl::Status GenerateAll(const GptModel& model, absl::Span<const std::vector<int32_t>> prompts,
                         const GenerateOptions& options,
                         const std::function<bool(size_t, int32_t)>& emit) {
  if (absl::Status status = CheckPrompts(model, prompts); !status.ok()) return status;
  if (prompts.empty() || options.count == 0) return absl::OkStatus();
  std::vector<Text> texts(prompts.size());  // outlives the pieces that point into it
  const auto cached = model.MakeCached({.positions = LongestText(model, prompts, options.count),
                                        .stages = options.stages,
                                        .threads = options.threads});
  if (!cached.ok()) return cached.status();
  size_t begun = 0, active = 0;
  const auto most = static_cast<size_t>(options.stages);
  while (true) {
    for (; active < most && begun < prompts.size(); ++begun, ++active) {
      Text& text = texts[begun];
      absl::StatusOr<CachedSequence> sequence = (*cached)->NewSequence();
      if (!sequence.ok()) return sequence.status();
      text.sequence = *std::move(sequence);
      text.tokens = prompts[begun];
      Continue(**cached, model.config().max_seq, text);
    }
    if (active == 0) return absl::OkStatus();
    const absl::StatusOr<Piece> done = (*cached)->Wait();
    if (!done.ok()) return done.status();
    const Piece& piece = *done;
    if (piece.logit_rows == 0) continue;
    const auto found = std::find_if(texts.begin(), texts.end(), [&piece](const Text& text) {
      return &text.sequence == piece.sequence;
    });
    Text& text = *found;
    const absl::StatusOr<int32_t> token =
        NextToken(model, piece.logits, options.sampling, static_cast<uint64_t>(text.drawn++));
    if (!token.ok()) return token.status();
    text.tokens.push_back(*token);
    const bool stops =
        std::find(options.stop.begin(), options.stop.end(), *token) != options.stop.end();
    if (!stops && emit(static_cast<size_t>(found - texts.begin()), *token) &&
        text.drawn < options.count) {
      Continue(**cached, model.config().max_seq, text);
      continue;
    }
    text.sequence.arenas.clear();
    --active;
  }
}

absl::Status Generate(const GptModel& model, absl::Span<const int32_t> prompt, int64_t count,
                      const SamplingOptions& options, const std::function<bool(int32_t)>& emit) {
  const std::vector<std::vector<int32_t>> prompts = {{prompt.begin(), prompt.end()}};
  return GenerateAll(model, prompts, {.count = count, .sampling = options},
                     [&emit](size_t, int32_t token) { return emit(token); });
}

}  // namespace sluice
