#include "tools/train/kernel_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/pipeline/small_run.h"

namespace sluice {
namespace {

using testing::HasSubstr;

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

ModelSpec WithHeads(int heads, int dim) {
  ModelSpec spec = SmallModel("gpt");
  DecoderConfig config = *spec.decoder();
  config.heads = heads;
  config.dim = dim;
  spec.config = config;
  return spec;
}

TEST(CheckModel, RefusesHeadsThatAttentionOnCudaDoesNotTake) {
  for (const int dim : {256, 264}) {
    const ModelSpec spec = WithHeads(1, dim);
    EXPECT_EQ(CheckModel({.cuda = true}, DType::kFloat32, spec).ok(), dim == 256);
    EXPECT_TRUE(CheckModel({.cuda = false}, DType::kFloat32, spec).ok());
  }
  EXPECT_TRUE(CheckModel({.cuda = true}, DType::kFloat32, SmallModel("mlp")).ok());
}

TEST(CheckModel, RefusesHeadsThatCudnnDoesNotTake) {
  const KernelChoice cudnn = {.cuda = true, .attention = CudaAttention::kCudnn};
  EXPECT_TRUE(CheckModel(cudnn, DType::kBFloat16, WithHeads(2, 128)).ok());
  EXPECT_TRUE(CheckModel(cudnn, DType::kBFloat16, WithHeads(2, 256)).ok());
  EXPECT_TRUE(CheckModel(cudnn, DType::kFloat32, SmallModel("mlp")).ok());
  EXPECT_THAT(MessageOf(CheckModel(cudnn, DType::kBFloat16, WithHeads(1, 136))),
              HasSubstr("at most 128 values, a multiple of 8, not bf16 heads of 136"));
  EXPECT_THAT(MessageOf(CheckModel(cudnn, DType::kBFloat16, WithHeads(2, 40))),
              HasSubstr("not bf16 heads of 20"));
  EXPECT_THAT(MessageOf(CheckModel(cudnn, DType::kFloat32, WithHeads(2, 128))),
              HasSubstr("not fp32 heads of 64; take --attention sluice, or --dtype bf16"));
}

TEST(KernelsOf, KnowsCpuAndCudaOnly) {
  EXPECT_EQ(*KernelsOf({}), &CpuKernels());
  EXPECT_EQ(*KernelsOf({.master_weights = MasterWeights::kSplit}),
            &CpuKernels(MasterWeights::kSplit));
  EXPECT_STRNE(CpuKernels(MasterWeights::kSplit).device, CpuKernels().device);
  EXPECT_THAT(
      MessageOf(KernelsOf({.cuda = true, .master_weights = MasterWeights::kWhole}).status()),
      HasSubstr("GPUs always split"));
  EXPECT_THAT(MessageOf(ChoiceOf({.device = "tpu"}).status()),
              HasSubstr("--device tpu: expected cpu or cuda"));
  EXPECT_THAT(MessageOf(KernelsOf(*ChoiceOf({.attention = "cudnn"})).status()),
              HasSubstr("it needs --device cuda"));
}

// Where their libraries are, both can be planned with, and ranks can tell them apart.
TEST(KernelsOf, NamesWhoseAttentionItIs) {
  const auto own = KernelsOf(*ChoiceOf({.device = "cuda"}));
  const auto cudnn = KernelsOf(*ChoiceOf({.device = "cuda", .attention = "cudnn"}));
  if (!own.ok() || !cudnn.ok()) {
    GTEST_SKIP() << (own.ok() ? cudnn.status() : own.status());
  }
  EXPECT_STREQ((*own)->device, "cuda");
  EXPECT_STREQ((*cudnn)->device, "cuda, attention by cuDNN");
}

}  // namespace
}  // namespace sluice
