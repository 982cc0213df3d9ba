#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/layers/layers.h"
#include "models/spec/head_blocks.h"
#include "tests/models/layers/test_models.h"
#include "tests/models/twins/layer_runner.h"
#include "tests/models/twins/reference_kernels.h"

// The head alone, in blocks of rows and whole.
namespace sluice {
namespace {

constexpr BatchShape kBatch{2, 5};
constexpr HeadBlocks kWhole{.rows = 10, .count = 1};

struct Gradients {
  double loss = 0;
  int64_t correct = 0;
  std::map<std::string, std::vector<double>> values;  // "input", and by parameter

  friend bool operator==(const Gradients&, const Gradients&) = default;
};

struct HeadOptions {
  float soft_cap = 0;
  DType dtype = DType::kFloat32;
  const Kernels* kernels = &ReferenceKernels();
};

class HeadAlone {
 public:
  HeadAlone(const HeadBlocks& blocks, const HeadOptions& options)
      : dtype_(options.dtype),
        runner_(MakeHead(Config(options), {kBatch, options.dtype, options.kernels}, blocks),
                LivelyParameter),
        state_(runner_.decl()),
        input_(Elements() * SizeOf(dtype_)),
        input_grad_(Elements() * SizeOf(dtype_)) {
    FillInput();
    state_.input = &input_;
    state_.input_grad = &input_grad_;
  }

  // Tensors are poisoned where their life ends.
  Gradients Differentiate(bool accumulate = false) {
    Gradients result;
    FillInput();  // which the last time expired
    LayerCall call = Call(0.5f);
    call.accumulate = accumulate;
    runner_.layer().Forward(call);
    state_.Expire(Moment::kForward);
    result.loss = loss_;
    result.correct = correct_;
    runner_.layer().BackwardInput(call);
    state_.Expire(Moment::kInputGrad);
    call.loss = nullptr;  // as in a program, where only F has a place for it
    call.correct = nullptr;
    runner_.layer().BackwardWeight(call);
    for (int64_t i = 0; i < Elements(); ++i) {
      result.values["input"].push_back(reference::Get(dtype_, input_grad_.data(), i));
    }
    for (size_t p = 0; p < runner_.gradients().size(); ++p) {
      const ParameterDecl& decl = runner_.decl().parameters[p];
      const float* values = runner_.gradients()[p].floats();
      result.values[decl.name].assign(values, values + ElementCount(decl.shape));
    }
    return result;
  }
  void FillInput() {
    for (int64_t i = 0; i < Elements(); ++i) {
      reference::Set(dtype_, input_.data(), i, std::sin(1.7 * static_cast<double>(i)));
    }
  }
  double Loss() {
    runner_.layer().Forward(Call(0));
    return loss_;
  }
  std::vector<double> Logits(int64_t first_row, int64_t count) {
    LayerCall call = Call(0);
    call.targets = nullptr;
    runner_.layer().Forward(call);
    OwnBuffer out(count * 11 * SizeOf(dtype_));
    runner_.layer().Logits(call, first_row, count, out.data());
    std::vector<double> logits;
    for (int64_t i = 0; i < count * 11; ++i) {
      logits.push_back(reference::Get(dtype_, out.data(), i));
    }
    return logits;
  }
  int64_t LogitsWidth() const {
    for (const TensorDecl& tensor : runner_.decl().tensors) {
      if (tensor.name == "logits") return tensor.shape.back();
    }
    return 0;
  }
  std::vector<int32_t>& targets() { return targets_; }
  OwnBuffer& input() { return input_; }
  LayerRunner& runner() { return runner_; }

 private:
  static DecoderConfig Config(const HeadOptions& options) {
    DecoderConfig config = TinyGpt(false);
    config.final_soft_cap = options.soft_cap;
    return config;
  }
  int64_t Elements() const { return ElementCount(runner_.decl().input_shape); }
  LayerCall Call(float loss_scale) {
    LayerCall call = runner_.Call(state_);
    call.targets = targets_.data();
    call.loss_scale = loss_scale;
    call.loss = &loss_;
    call.correct = &correct_;
    return call;
  }

  DType dtype_;
  LayerRunner runner_;
  LayerState state_;
  OwnBuffer input_, input_grad_;
  std::vector<int32_t> targets_ = {3, 0, 10, 5, 5, 1, 7, 2, 9, 4};
  double loss_ = 0;
  int64_t correct_ = 0;
};

void ExpectNear(const Gradients& got, const Gradients& want, double tolerance) {
  EXPECT_NEAR(got.loss, want.loss, tolerance * want.loss);
  EXPECT_EQ(got.correct, want.correct);
  ASSERT_EQ(got.values.size(), want.values.size());
  for (const auto& [name, values] : want.values) {
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(got.values.at(name)[i], values[i], tolerance * (1 + std::abs(values[i])))
          << name << " " << i;
    }
  }
}

const std::vector<HeadBlocks> kBlocks = {
    {.rows = 5, .count = 2}, {.rows = 4, .count = 3}, {.rows = 6, .count = 2}, {1, 10}};

TEST(HeadTest, BlocksGiveWhatTheWholeGives) {
  for (const Kernels* kernels : {&ReferenceKernels(), &CpuKernels()}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const float cap : {0.0f, 2.5f}) {
        const HeadOptions options{.soft_cap = cap, .dtype = dtype, .kernels = kernels};
        const Gradients want = HeadAlone(kWhole, options).Differentiate();
        for (const HeadBlocks& blocks : kBlocks) {
          ExpectNear(HeadAlone(blocks, options).Differentiate(), want,
                     dtype == DType::kFloat32 ? 1e-5 : 2e-2);
        }
      }
    }
  }
}

// The reference's kernels, whose rows of logits are a multiple of 4 long: of 11 words 12.
const Kernels& PaddedKernels() {
  static const Kernels kPadded = [] {
    Kernels kernels = ReferenceKernels();
    kernels.head_limits.width_unit = 4;
    return kernels;
  }();
  return kPadded;
}

TEST(HeadTest, APaddedVocabularyGivesWhatOneWithoutPaddingGives) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (const float cap : {0.0f, 2.5f}) {
      for (const HeadBlocks& blocks : {kWhole, kBlocks[0], kBlocks[1]}) {
        HeadOptions options{.soft_cap = cap, .dtype = dtype};
        HeadAlone head(blocks, options);
        options.kernels = &PaddedKernels();
        HeadAlone padded(blocks, options);
        for (HeadAlone* const each : {&head, &padded}) each->targets()[2] = -1;
        EXPECT_EQ(padded.Differentiate(), head.Differentiate());
        for (HeadAlone* const each : {&head, &padded}) each->FillInput();
        for (const auto& [first, count] : {std::pair(0, 10), {3, 1}, {4, 5}})
          EXPECT_EQ(padded.Logits(first, count), head.Logits(first, count));
        EXPECT_EQ(padded.LogitsWidth(), 12);
      }
    }
  }
}

// The head reads the embedding's table where both are on one rank.
TEST(HeadTest, TheTableOfATiedHeadHasTheHeadsPadding) {
  for (const bool tied : {false, true}) {
    const DecoderConfig config = TinyGpt(tied);
    const LayerContext context{kBatch, DType::kFloat32, &PaddedKernels()};
    const ParameterDecl table = MakeEmbedding(config, context)->decl().parameters.front();
    const ParameterDecl of_head = MakeHead(config, context)->decl().parameters.back();
    EXPECT_EQ(of_head.padding, 12) << "one row";
    EXPECT_EQ(of_head.stored_bytes(), of_head.bytes() + 48);
    EXPECT_EQ(table.padding, tied ? of_head.padding : 0);
  }
}

TEST(HeadTest, TheSameCallHasTheSameBits) {
  for (const HeadBlocks& blocks : kBlocks) {
    const HeadOptions options{.kernels = &CpuKernels()};
    HeadAlone head(blocks, options);
    const Gradients first = head.Differentiate();
    EXPECT_EQ(head.Differentiate(), first);
    EXPECT_EQ(HeadAlone(blocks, options).Differentiate(), first);
    head.FillInput();
    EXPECT_EQ(head.Loss(), first.loss) << "evaluation has the losses of training";
  }
}

TEST(HeadTest, WeightGradientsAccumulate) {
  for (const HeadBlocks& blocks : kBlocks) {
    HeadAlone head(blocks, {});
    const Gradients once = head.Differentiate();
    const Gradients twice = head.Differentiate(/*accumulate=*/true);
    for (size_t i = 0; i < once.values.at("lm_head.weight").size(); ++i) {
      ASSERT_NEAR(twice.values.at("lm_head.weight")[i], 2 * once.values.at("lm_head.weight")[i],
                  1e-5);
    }
  }
}

TEST(HeadTest, InputGradientsAreThoseOfCentralDifferences) {
  for (const float cap : {0.0f, 2.5f}) {
    for (const HeadBlocks& blocks : {kWhole, kBlocks[1]}) {
      HeadAlone head(blocks, {.soft_cap = cap});
      head.targets()[2] = head.targets()[9] = -1;
      const std::vector<double> gradient = head.Differentiate().values.at("input");
      head.FillInput();
      for (size_t i = 0; i < gradient.size(); ++i) {
        constexpr float kStep = 0x1p-7;
        float& x = head.input().floats()[i];
        const float old = x;
        x = old + kStep;
        const double above = head.Loss();
        x = old - kStep;
        const double below = head.Loss();
        x = old;
        ASSERT_NEAR(gradient[i], 0.5 * (above - below) / (2 * kStep), 2e-3) << i;
      }
    }
  }
}

TEST(HeadTest, WeightGradientsAreThoseOfCentralDifferences) {
  HeadAlone head(kBlocks[1], {.soft_cap = 2.5f});
  head.targets()[4] = -1;
  const std::vector<double> gradient = head.Differentiate().values.at("lm_head.weight");
  head.FillInput();
  float* weight = nullptr;
  for (size_t p = 0; p < head.runner().parameters().size(); ++p) {
    if (head.runner().decl().parameters[p].name == "lm_head.weight") {
      weight = head.runner().parameters()[p].floats();
    }
  }
  ASSERT_NE(weight, nullptr);
  const auto loss = [&](size_t i, float value) {
    weight[i] = value;
    head.runner().Pack();
    return head.Loss();
  };
  for (size_t i = 0; i < gradient.size(); ++i) {
    constexpr float kStep = 0x1p-7;
    const float old = weight[i];
    const double difference = loss(i, old + kStep) - loss(i, old - kStep);
    loss(i, old);
    ASSERT_NEAR(gradient[i], 0.5 * difference / (2 * kStep), 2e-3) << i;
  }
}

TEST(HeadTest, RowsWithoutATargetContributeNothing) {
  for (const HeadBlocks& blocks : {kWhole, kBlocks[0], kBlocks[1]}) {
    HeadAlone head(blocks, {.kernels = &CpuKernels()});
    for (int32_t& target : head.targets()) target = -1;
    const Gradients none = head.Differentiate();
    EXPECT_EQ(none.loss, 0);
    EXPECT_EQ(none.correct, 0);
    for (const auto& [name, values] : none.values) {
      for (const double value : values) ASSERT_EQ(value, 0) << name;
    }
  }
}

TEST(HeadTest, LogitsOfSomeRowsAreThoseOfAll) {
  for (const float cap : {0.0f, 2.5f}) {
    const std::vector<double> all = HeadAlone(kWhole, {.soft_cap = cap}).Logits(0, 10);
    for (const HeadBlocks& blocks : {kWhole, kBlocks[0], kBlocks[1], kBlocks[3]}) {
      for (const int64_t first : {0, 3, 9}) {
        for (int64_t count = 1; first + count <= 10; ++count) {
          EXPECT_EQ(
              HeadAlone(blocks, {.soft_cap = cap}).Logits(first, count),
              std::vector<double>(all.begin() + first * 11, all.begin() + (first + count) * 11));
        }
      }
    }
  }
}

TEST(HeadBlocksTest, CoverAllRowsWithLittlePadding) {
  for (const int64_t vocab : {int64_t{256}, int64_t{50'257}, int64_t{151'936}, int64_t{1} << 40}) {
    for (const int64_t rows : {1, 15, 16, 17, 100, 512, 1021, 1024, 4096, 8191}) {
      const HeadBlocks blocks = HeadBlocksOf(rows, vocab);
      EXPECT_GE(blocks.padded_rows(), rows);
      EXPECT_LT(blocks.padded_rows() - rows, blocks.whole() ? 1 : blocks.rows);
      EXPECT_LE(blocks.rows, rows);
      EXPECT_LE(blocks.rows * vocab,
                std::max(blocks.whole() ? kProcessorHead.whole : kProcessorHead.block, 16 * vocab));
    }
  }
  EXPECT_TRUE(HeadBlocksOf(16'384, 50'304, kGpuHead).whole()) << "GPT-2 on a GPU";
  EXPECT_TRUE(HeadBlocksOf(16'384, 151'936, kGpuHead).whole()) << "Qwen3 on a GPU";
  EXPECT_EQ(HeadBlocksOf(32'768, 151'936, kGpuHead).count, 10) << "more of Qwen3";
  EXPECT_TRUE(HeadBlocksOf(1024, 50'257).whole()) << "GPT-2";
  EXPECT_TRUE(HeadBlocksOf(512, 151'936).whole()) << "Qwen3";
  EXPECT_FALSE(HeadBlocksOf(1024, 151'936).whole()) << "Qwen3";
  EXPECT_TRUE(HeadBlocksOf(65'536, 256).whole()) << "bytes";
}

TEST(HeadBlocksTest, RowsThatWereAskedForReplaceTheLimits) {
  DecoderConfig config;
  for (const HeadLimits& limits : {kProcessorHead, kGpuHead}) {
    for (const int64_t vocab : {int64_t{256}, int64_t{151'936}}) {
      config.vocab = vocab;
      config.head_rows = 0;
      for (const int64_t rows : {1, 512, 32'768}) {
        EXPECT_EQ(config.head_blocks(rows, limits).count, HeadBlocksOf(rows, vocab, limits).count);
      }
      config.head_rows = 1000;
      EXPECT_TRUE(config.head_blocks(1000, limits).whole());
      EXPECT_TRUE(config.head_blocks(1008, limits).whole()) << "rounded up to 16";
      const HeadBlocks blocks = config.head_blocks(4096, limits);
      EXPECT_EQ(blocks.count, 5);
      EXPECT_EQ(blocks.rows, 832) << "a fifth, rounded up to 16";
      config.head_rows = 1;
      EXPECT_EQ(config.head_blocks(100, limits).rows, 16);
    }
  }
}

TEST(HeadBlocksTest, VocabulariesArePaddedOnGpusAlone) {
  EXPECT_EQ(PaddedWidth(50'257, kGpuHead), 50'304) << "GPT-2";
  EXPECT_EQ(PaddedWidth(50'304, kGpuHead), 50'304);
  EXPECT_EQ(PaddedWidth(151'936, kGpuHead), 151'936) << "Qwen3";
  EXPECT_EQ(PaddedWidth(32'001, kGpuHead), 32'064) << "Llama 2 with a token for padding";
  EXPECT_EQ(PaddedWidth(50'257, kProcessorHead), 50'257);
}

// Qwen3-0.6B: whole fp32 logits of 1,024 rows would be 594 MiB.
TEST(HeadTest, ALargeVocabularyTakesLittleMemory) {
  const DecoderConfig config{.dim = 1024, .vocab = 151'936};
  const auto head = MakeHead(config, {{1, 1024}, DType::kFloat32, &ReferenceKernels()});
  int64_t bytes = 0;
  for (const TensorDecl& tensor : head->decl().tensors) {
    if (tensor.lifetime != Lifetime::kWeightGradScratch) bytes += tensor.bytes();
  }
  EXPECT_LT(bytes, int64_t{136} << 20);
}

}  // namespace
}  // namespace sluice
