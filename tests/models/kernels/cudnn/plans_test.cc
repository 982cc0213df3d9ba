// cuDNN compiles attention for GPUs that are described to it: no GPU is needed, only the library.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "models/kernels/cudnn/attention_plans.h"

namespace sluice::cudnn {
namespace {

using testing::Contains;
using testing::HasSubstr;

struct Gpu {
  const char* name;
  int capability;  // 900 is 9.0
  int multiprocessors;
  int shared_memory;   // bytes that a block may have
  const char* engine;  // part of the names of its kernels
};
constexpr Gpu kH200 = {"NVIDIA H200", 900, 132, 232448, "sm90_flash"};
constexpr Gpu kA100 = {"NVIDIA A100-SXM4-80GB", 800, 108, 166912, "sm80_flash"};

// As CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION; from the data sheets and CUDA's programming guide.
std::string Describe(const Gpu& gpu) {
  return absl::StrFormat(
      R"({"version":1,"cudnnVersion":%d,"schemaVersion":1,"cudaDeviceId":0,"deviceVer":%d,)"
      R"("driverVer":13000,"multiProcessorCount":%d,"totalGlobalMem":85899345920,)"
      R"("maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)"
      R"("regsPerBlock":65536,"warpSize":32,"maxSharedMemoryPerBlock":49152,)"
      R"("maxSharedMemoryPerBlockOptin":%d,"reservedSharedMemoryPerBlock":1024,)"
      R"("maxRegistersPerSM":65536,"maxCtasPerSM":32,"maxThreadsPerBlock":1024,)"
      R"("maxThreadsPerSM":2048,"pciDeviceId":0,"isTccDriver":0,"supportCoopLaunch":1,)"
      R"("smClockRateKHz":1410000,"memClockRateKHz":1593000,"l2CacheSize":41943040,)"
      R"("deviceName":"%s"})",
      LoadLibrary()->version(), gpu.capability, gpu.multiprocessors, gpu.shared_memory, gpu.name);
}

// The names of the kernels that were loaded since the last call.
std::vector<std::string> KernelNames() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  auto* const names = reinterpret_cast<const char* (*)()>(dlsym(driver, "StandInKernelNames"));
  if (names == nullptr) return {};
  return absl::StrSplit(names(), '\n', absl::SkipEmpty());
}

AttentionShape Shape(int64_t batch, int64_t seq, int64_t heads, int64_t width) {
  return {.batch = batch,
          .seq = seq,
          .heads = heads,
          .kv_heads = heads,
          .width = width,
          .q_stride = 3 * heads * width,
          .kv_stride = 3 * heads * width,
          .dtype = DType::kBFloat16};
}

AttentionShape Grouped(int64_t batch, int64_t seq, int64_t heads, int64_t kv_heads, int64_t width) {
  AttentionShape shape = Shape(batch, seq, heads, width);
  shape.kv_heads = kv_heads;
  shape.q_stride = heads * width;
  shape.kv_stride = kv_heads * width;
  return shape;
}

struct Case {
  Gpu gpu;
  AttentionShape shape;
};

std::vector<Case> Cases() {
  return {{kH200, Shape(4, 1024, 12, 64)},
          {kH200, Shape(4, 1024, 25, 64)},
          {kH200, Shape(2, 2048, 16, 128)},
          {kH200, Shape(2, 37, 3, 80)},
          {kH200, Shape(1, 70, 2, 8)},
          {kH200, Shape(3, 129, 5, 24)},
          {kA100, Shape(4, 1024, 12, 64)},
          {kA100, Shape(2, 37, 3, 80)},
          {kH200, Grouped(16, 1024, 16, 8, 128)},
          {kH200, Grouped(2, 2048, 32, 8, 64)},
          {kH200, Grouped(1, 70, 6, 2, 24)},
          {kH200, Grouped(2, 37, 3, 1, 80)},
          {kA100, Grouped(4, 1024, 16, 8, 128)}};
}

class CudnnPlansTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!LoadLibrary().ok()) GTEST_SKIP() << LoadLibrary().status();
    KernelNames();
  }
};

TEST_P(CudnnPlansTest, CompilesForAGpuThatIsNotHereInWorkAreasAsForetold) {
  const auto& [gpu, shape] = GetParam();
  const absl::StatusOr<AttentionPlans> plans =
      MakeAttentionPlans(*LoadLibrary(), shape, {.properties = Describe(gpu)});
  ASSERT_TRUE(plans.ok()) << plans.status();
  EXPECT_GE(plans->forward->engine(), 0);
  const std::vector<std::string> kernels = KernelNames();
  EXPECT_THAT(kernels, Contains(HasSubstr(absl::StrCat(gpu.engine, "_fprop"))));
  EXPECT_THAT(kernels, Contains(HasSubstr(absl::StrCat(gpu.engine, "_bprop"))));

  const AttentionWorkspace foretold = WorkspaceOf(shape);
  const auto forward = static_cast<size_t>(plans->forward->workspace_bytes());
  const auto backward = static_cast<size_t>(plans->backward->workspace_bytes());
  EXPECT_LE(forward, foretold.forward);
  EXPECT_LE(backward, foretold.backward - foretold.row_sums);
  // Others take less.
  if (gpu.capability == kH200.capability) {
    EXPECT_EQ(backward, foretold.backward - foretold.row_sums);
  }
}

std::string NameOf(const testing::TestParamInfo<Case>& of) {
  const AttentionShape& s = of.param.shape;
  return absl::StrFormat("sm%d_batch%d_seq%d_heads%d_for%d_of%d", of.param.gpu.capability / 10,
                         s.batch, s.seq, s.kv_heads, s.heads, s.width);
}
INSTANTIATE_TEST_SUITE_P(Cases, CudnnPlansTest, testing::ValuesIn(Cases()), NameOf);

// What cuDNN has no kernel for is said, and nothing is left half made.
TEST(CudnnPlanTest, RefusesWhatItHasNoKernelFor) {
  if (!LoadLibrary().ok()) GTEST_SKIP() << LoadLibrary().status();
  const absl::StatusOr<AttentionPlans> plans =
      MakeAttentionPlans(*LoadLibrary(), Shape(1, 64, 1, 520), {.properties = Describe(kH200)});
  EXPECT_EQ(plans.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(plans.status().message()),
              HasSubstr("no engine for this graph (attention's backward pass, batch 1, 1 heads of "
                        "520 values, 64 tokens); take --attention sluice"));
}

TEST(CudnnPlanTest, RefusesAGpuThatItCannotRead) {
  if (!LoadLibrary().ok()) GTEST_SKIP() << LoadLibrary().status();
  const absl::StatusOr<AttentionPlans> plans =
      MakeAttentionPlans(*LoadLibrary(), Shape(1, 64, 1, 64), {.properties = "{\"version\":"});
  ASSERT_FALSE(plans.ok());
  EXPECT_THAT(std::string(plans.status().message()), HasSubstr("cuDNN, "));
}

}  // namespace
}  // namespace sluice::cudnn
