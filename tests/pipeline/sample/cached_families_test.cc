// Generation with a cache of keys and values against what it saves: the whole prefix anew, through
// the layers that train, for every family.
//
// The bits do not depend on stages nor on other requests. They do differ from those of the whole
// prefix: a product's bits are fixed for its shape, and a piece has fewer rows than a prefix. The
// weights are values of bf16, so that in bf16 both have the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>

#include "absl/strings/str_cat.h"
#include "models/layers/trainable.h"
#include "models/spec/families/families.h"
#include "pipeline/sample/generate.h"
#include "tests/models/data/files.h"
#include "tests/pipeline/random_decoder.h"
#include "tests/pipeline/sample/saved_model.h"
#include "tests/sanitizers.h"

namespace sluice {
namespace {

using Tokens = std::vector<int32_t>;
using Rows = std::vector<std::vector<float>>;  // [token][vocab]

constexpr int kSeeds = 4;
constexpr int64_t kMaxSeq = kRandomDecoderSeq;
// Of one piece and of many, of 64 rows, 8 and 1; all but one longer than a window.
constexpr int kPrompts[] = {77, 1, 19, 64};
constexpr size_t kSteps = 3;  // tokens that continue each prompt
// In fp32, of the largest logit; the largest difference over 8 seeds was 3.3e-6 of it.
constexpr float kTolerance = 2e-5f;
// In bf16, where roundings differ: of the distance from fp32 of the layers that train. The largest
// over 8 seeds was 1.45 of it.
constexpr double kBFloat16Distance = 2;

struct FamilyCase {
  std::string family;
  DType dtype;
};

class CachedFamiliesTest : public testing::TestWithParam<FamilyCase> {
 protected:
  void Use(int seed) {
    spec_ = RandomDecoder(GetParam().family, seed);
    ASSERT_TRUE(CheckTrainable(spec_).ok()) << CheckTrainable(spec_);
    ModelRunner runner = Uncached(1);
    SaveModel(spec_, runner, folder_.path());
    auto model = GptModel::Load(folder_.path(), /*adapter=*/"", {.dtype = dtype()});
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
  }
  ModelRunner Uncached(int64_t tokens, DType dtype = CachedFamiliesTest::dtype()) const {
    ModelRunner runner(spec_, {.size = 1, .seq = tokens}, dtype, CpuKernels(), 1);
    FillParameters(runner);
    return runner;
  }
  int64_t vocab() const { return spec_.decoder()->vocab; }
  static int Seeds() { return Trials(dtype() == DType::kBFloat16 ? kSeeds / 2 : kSeeds, 1); }
  static DType dtype() { return GetParam().dtype; }

  // Of all tokens, without a cache.
  Rows Logits(const Tokens& tokens, DType dtype = CachedFamiliesTest::dtype()) const {
    MicroBatch micro_batch;
    micro_batch.input.resize(tokens.size() * sizeof(int32_t));
    std::memcpy(micro_batch.input.data(), tokens.data(), micro_batch.input.size());
    micro_batch.targets = tokens;
    const std::vector<float> all =
        Uncached(static_cast<int64_t>(tokens.size()), dtype).Logits(micro_batch);
    Rows rows;
    for (auto row = all.begin(); row != all.end(); row += vocab()) {
      rows.emplace_back(row, row + vocab());
    }
    return rows;
  }
  // Texts of the prompts' lengths, and `more` tokens.
  std::vector<Tokens> Texts(size_t more) const {
    std::mt19937 random(7);
    std::vector<Tokens> texts;
    for (const int length : kPrompts) {
      Tokens& text = texts.emplace_back(static_cast<size_t>(length) + more);
      for (int32_t& token : text) token = static_cast<int32_t>(random() % uint64_t(vocab()));
    }
    return texts;
  }
  // The logits of all tokens of all texts: prompts and then a token at a time, in turns, so that
  // every stage has another text.
  std::vector<Rows> CachedLogits(const std::vector<Tokens>& texts, int stages) const {
    std::vector<Rows> logits(texts.size());
    const auto cached = model_->MakeCached({.positions = kMaxSeq, .stages = stages});
    EXPECT_TRUE(cached.ok()) << cached.status();
    std::vector<CachedSequence> sequences;
    for (size_t i = 0; i < texts.size(); ++i) sequences.push_back(*(*cached)->NewSequence());
    for (bool more = true; more;) {
      int submitted = 0;
      for (size_t i = 0; i < texts.size(); ++i) {
        const size_t done = sequences[i].tokens.size(), prompt = texts[i].size() - kSteps;
        const size_t end = done < prompt ? prompt : std::min(done + 1, texts[i].size());
        if (done == end) continue;
        const auto piece = absl::MakeConstSpan(texts[i]).subspan(done, end - done);
        (*cached)->Submit(sequences[i], piece, static_cast<int64_t>(piece.size()));
        ++submitted;
      }
      more = submitted > 0;
      for (; submitted > 0; --submitted) {
        const Piece piece = *(*cached)->Wait();
        Rows& rows = logits[static_cast<size_t>(piece.sequence - sequences.data())];
        for (auto row = piece.logits.begin(); row != piece.logits.end(); row += vocab()) {
          rows.emplace_back(row, row + vocab());
        }
      }
    }
    return logits;
  }

  void ExpectLikeliest(const Tokens& text) const;

  TempFolder folder_;
  ModelSpec spec_;
  std::unique_ptr<GptModel> model_;
};

// That the last tokens of a text that fits are the likeliest, of equals the first, of those logits
// that the test above compares with fp32's.
void CachedFamiliesTest::ExpectLikeliest(const Tokens& text) const {
  if (static_cast<int64_t>(text.size()) > kMaxSeq) return;
  const Rows rows = CachedLogits({text}, 1).front();
  for (size_t end = text.size() - kSteps; end < text.size(); ++end) {
    const std::vector<float>& row = rows[end - 1];
    EXPECT_EQ(text[end], std::max_element(row.begin(), row.end()) - row.begin()) << end;
  }
}

float Largest(const std::vector<float>& row) {
  return std::abs(*std::max_element(row.begin(), row.end(),
                                    [](float a, float b) { return std::abs(a) < std::abs(b); }));
}

void ExpectNear(const std::vector<float>& found, const std::vector<float>& expected,
                const std::string& where) {
  ASSERT_EQ(found.size(), expected.size()) << where;
  const float most = kTolerance * Largest(expected);
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], most) << where << ", word " << i;
  }
}

// The root of the mean square.
double Distance(const Rows& a, const Rows& b) {
  double sum = 0;
  size_t count = 0;
  for (size_t row = 0; row < a.size(); ++row) {
    for (size_t i = 0; i < a[row].size(); ++i, ++count) sum += std::pow(a[row][i] - b[row][i], 2);
  }
  return std::sqrt(sum / static_cast<double>(count));
}

TEST_P(CachedFamiliesTest, LogitsAreThoseOfTheWholePrefix) {
  for (int seed = 0; seed < Seeds(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Use(seed);
    const std::vector<Tokens> texts = Texts(kSteps);
    const std::vector<Rows> cached = CachedLogits(texts, 1);
    for (const int stages : {2, 3}) EXPECT_EQ(CachedLogits(texts, stages), cached) << stages;
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::string text = absl::StrCat("text ", i);
      EXPECT_EQ(CachedLogits({texts[i]}, 3).front(), cached[i]) << "another text changes " << text;
      const Rows whole = Logits(texts[i]);
      ASSERT_EQ(cached[i].size(), whole.size());
      if (dtype() == DType::kBFloat16) {
        const Rows exact = Logits(texts[i], DType::kFloat32);
        EXPECT_LE(Distance(cached[i], exact), kBFloat16Distance * Distance(whole, exact)) << text;
        continue;
      }
      for (size_t row = 0; row < whole.size(); ++row) {
        ExpectNear(cached[i][row], whole[row], absl::StrCat(text, ", token ", row));
      }
      for (size_t end = texts[i].size() - kSteps; end < texts[i].size(); ++end) {
        const Tokens prefix(texts[i].begin(), texts[i].begin() + static_cast<std::ptrdiff_t>(end));
        ExpectNear(cached[i][end - 1], Logits(prefix).back(), absl::StrCat(text, ", to ", end));
      }
    }
  }
}

// Also behind the model's longest sequence, where a token comes from the last ones before it.
TEST_P(CachedFamiliesTest, TheLikeliestTokensAreThoseOfTheWholePrefix) {
  for (int seed = 0; seed < Seeds(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Use(seed);
    std::vector<Tokens> prompts = Texts(0);
    prompts.push_back(Texts(kMaxSeq - kPrompts[0]).front());
    std::vector<Tokens> texts;
    for (const int stages : {1, 2, 3}) {
      std::vector<Tokens> found = prompts;
      const absl::Status status = GenerateAll(
          *model_, prompts, {.count = kSteps, .sampling = {.temperature = 0}, .stages = stages},
          [&found](size_t text, int32_t token) {
            found[text].push_back(token);
            return true;
          });
      ASSERT_TRUE(status.ok()) << status;
      if (stages == 1) texts = found;
      EXPECT_EQ(found, texts) << stages << " stages";
    }
    for (size_t i = 0; i < texts.size(); ++i) {
      ASSERT_EQ(texts[i].size(), prompts[i].size() + kSteps);
      if (dtype() == DType::kBFloat16) {
        ExpectLikeliest(texts[i]);
        continue;
      }
      for (size_t end = prompts[i].size(); end < texts[i].size(); ++end) {
        const size_t begin = end > kMaxSeq ? end - kMaxSeq : 0;
        const std::vector<float> row =
            Logits({texts[i].begin() + static_cast<std::ptrdiff_t>(begin),
                    texts[i].begin() + static_cast<std::ptrdiff_t>(end)})
                .back();
        const float chosen = row[static_cast<size_t>(texts[i][end])];
        EXPECT_GE(chosen, *std::max_element(row.begin(), row.end()) - 2 * kTolerance * Largest(row))
            << "text " << i << ", token " << end;
      }
    }
  }
}

std::vector<FamilyCase> Cases() {
  std::vector<FamilyCase> cases;
  for (const std::string& family : WrittenFamilies()) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) cases.push_back({family, dtype});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, CachedFamiliesTest, testing::ValuesIn(Cases()),
                         [](const auto& family) {
                           return absl::StrCat(family.param.family, "_",
                                               DTypeName(family.param.dtype));
                         });

// What the shapes above must have among them.
TEST(CachedFamilies, EveryKindOfAttentionIsDrawn) {
  std::set<RopeScaling> scalings;
  std::set<std::string> kinds, windows;
  for (const std::string& family : WrittenFamilies()) {
    for (int seed = 0; seed < kSeeds; ++seed) {
      const ModelSpec spec = RandomDecoder(family, seed);
      const DecoderConfig& config = *spec.decoder();
      scalings.insert(config.rope.scaling);
      if (config.window > 0) windows.insert(family);
      if (config.attention_soft_cap > 0) kinds.insert("soft cap");
      if (config.qk_norm) kinds.insert("norms of queries and keys");
      if (config.key_value_heads() < config.heads) kinds.insert("grouped queries");
      if (config.tied_head) kinds.insert("tied head");
      if (config.local_rope) kinds.insert("rope of windows");
    }
  }
  EXPECT_EQ(scalings.size(), 4u);
  EXPECT_EQ(windows, (std::set<std::string>{"gemma2", "gemma3_text", "mistral", "qwen2", "qwen3"}));
  EXPECT_EQ(kinds.size(), 5u);
}

}  // namespace
}  // namespace sluice
