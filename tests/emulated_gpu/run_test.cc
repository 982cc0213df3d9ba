// Training on emulated GPUs, by the code that trains on real ones: CUDA's device, cuBLASLt's
// products, the kernels' bodies, graphs, copies between streams. However the work is cut, the bits
// are those of one stage; memory is what was foretold; and the results are the CPU's but for
// rounding.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "models/device/cuda_device.h"
#include "models/kernels/cuda_kernels.h"
#include "pipeline/compile/compile_run.h"
#include "tests/emulated_gpu/gpus.h"
#include "tests/pipeline/kept_run.h"
#include "tests/pipeline/small_run.h"
#include "tools/train/train_device.h"

namespace sluice {
namespace {

constexpr int64_t kSteps = 2;

RunPlan PlanOf(const SmallRun& run) {
  RunRequest request = MakeRequest(run);
  request.kernels = &CudaKernels();
  return *CompileRun(request);
}

absl::StatusOr<Outcome> TrainOnGpus(const RunPlan& plan, int gpus, bool graphs) {
  const OpenDevice open = [graphs](int number, const DeviceAllocator& allocator) {
    return OpenCudaDevice(number, {.allocator = allocator, .graphs = graphs});
  };
  const auto devices = RunDevices::ForThreads(plan, gpus, open);
  if (!devices.ok()) return devices.status();
  TrainOptions options = SmallOptions(kSteps);
  options.running.devices = (*devices)->ranks();
  return Train(plan, options);
}

// The same training by one stage.
SmallRun OneStage(const SmallRun& run) {
  const int replicas = std::max(run.replicas, 1);
  return {.model = run.model,
          .schedule = "gpipe",
          .ranks = 1,
          .micro_batches = run.micro_batches * replicas,
          .dtype = run.dtype,
          .optimizer = run.optimizer,
          .sum_groups = run.replicas > 1 ? run.replicas : run.sum_groups,
          .documents = run.documents,
          .adapted = run.adapted};
}

const Outcome& OneStageOutcome(const SmallRun& run) {
  static auto* const known = new std::map<std::string, Outcome>;
  const SmallRun one = OneStage(run);
  const std::string key = one.model + one.Name();
  const auto found = known->find(key);
  if (found != known->end()) return found->second;
  return (*known)[key] = *TrainOnGpus(PlanOf(one), 1, false);
}

std::vector<SmallRun> Runs() {
  return {
      {.schedule = "1f1b", .ranks = 3},
      {.schedule = "gpipe", .ranks = 2, .dtype = DType::kBFloat16},
      {.schedule = "1f1b", .ranks = 2, .recompute = Recompute::kFull},
      {.schedule = "1f1b",
       .ranks = 2,
       .recompute = Recompute::kSelective,
       .dtype = DType::kBFloat16},
      {.schedule = "zb-h1", .ranks = 2, .optimizer = OptimizerKind::kSgd},
      {.schedule = "zbv", .ranks = 2, .chunks = 2, .dtype = DType::kBFloat16},
      {.schedule = "interleaved", .ranks = 2, .chunks = 2},
      {.model = "tied", .ranks = 2},
      {.model = "rms", .schedule = "zb-h1", .ranks = 2, .dtype = DType::kBFloat16},
      {.model = "mlp", .ranks = 2},
      {.model = "wide", .ranks = 2, .dtype = DType::kBFloat16},  // heads for tensor cores
      {.model = "wide", .ranks = 2, .dtype = DType::kBFloat16, .documents = true},
      // A padded table that embedding and head share, and one that is frozen.
      {.model = "wide_tied", .schedule = "zbv", .ranks = 2, .chunks = 2, .dtype = DType::kBFloat16},
      {.model = "wide_tied", .ranks = 2, .dtype = DType::kBFloat16, .adapted = "lora"},
      {.model = "wide", .ranks = 2, .replicas = 2, .zero = 1},
      // Families: grouped queries, norms of heads, rotary positions, gated maps, windows.
      {.model = "qwen3", .schedule = "zb-h1", .ranks = 2, .dtype = DType::kBFloat16},
      {.model = "qwen3", .ranks = 3, .recompute = Recompute::kFull, .adapted = "lora"},
      {.model = "gemma3", .schedule = "zbv", .ranks = 2, .chunks = 2},
      // Soft caps on tensor cores, in a window and without one. AdamW's first update has the signs
      // of the gradient, so that the next norm would differ by 15 %.
      {.model = "wide_gemma2",
       .schedule = "zb-h1",
       .ranks = 2,
       .micro_batches = 2,
       .recompute = Recompute::kSelective,
       .dtype = DType::kBFloat16,
       .optimizer = OptimizerKind::kSgd,
       .documents = true}};
}

class OnEmulatedGpus : public testing::TestWithParam<SmallRun> {};

TEST_P(OnEmulatedGpus, TheBitsAreThoseOfOneStage) {
  const RunPlan plan = PlanOf(GetParam());
  std::vector<int> counts = {emulation::kGpus};
  // One stage runs on one GPU without graphs in any case.
  if (GetParam().dtype == DType::kBFloat16) counts.push_back(1);
  for (const int gpus : counts) {
    const bool graphs = gpus > 1;
    const int64_t launched = emulation::LaunchedGraphs();
    const absl::StatusOr<Outcome> outcome = TrainOnGpus(plan, gpus, graphs);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ(*outcome, OneStageOutcome(GetParam())) << gpus << " GPUs";
    EXPECT_EQ(emulation::LaunchedGraphs() > launched, graphs);
    for (int gpu = 0; gpu < emulation::kGpus; ++gpu) {
      EXPECT_EQ(emulation::AllocatedBytes(gpu), 0) << "GPU " << gpu;
    }
  }
}

// A mirror's tensors are updated among others than on the rank itself, to the same bits.
TEST(Mirror, HasTheBitsOfTheRankThatItMirrorsOnEmulatedGpus) {
  for (SmallRun run : std::vector<SmallRun>{
           {.model = "tied", .ranks = 3, .dtype = DType::kBFloat16},
           {.model = "wide", .schedule = "zb-h1", .optimizer = OptimizerKind::kSgd}}) {
    run.mirror = true;
    const RunPlan plan = PlanOf(run);
    const auto devices = RunDevices::ForThreads(
        plan, emulation::kGpus, [](int number, const DeviceAllocator& allocator) {
          return OpenCudaDevice(number, {.allocator = allocator, .graphs = true});
        });
    ASSERT_TRUE(devices.ok()) << devices.status();
    TrainOptions options = SmallOptions(kSteps);
    options.running.devices = (*devices)->ranks();
    const absl::StatusOr<KeptRun> kept = TrainAndKeep(plan, options);
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_EQ(MirrorDifferences(kept->states), "") << run.Name();
    EXPECT_EQ(kept->outcome, OneStageOutcome(run));
  }
}

TEST_P(OnEmulatedGpus, ArenasAreAsForetold) {
  const RunPlan plan = PlanOf(GetParam());
  for (int rank = 0; rank < plan.world_size(); ++rank) {
    const auto device = *OpenCudaDevice(0);
    const absl::StatusOr<std::unique_ptr<RankState>> state = RankState::Create(plan, rank, *device);
    ASSERT_TRUE(state.ok()) << state.status();
    EXPECT_EQ(emulation::AllocatedBytes(0), plan.arenas[static_cast<size_t>(rank)].memory.total);
  }
}

TEST_P(OnEmulatedGpus, ResultsAreTheCpusButForRounding) {
  const Outcome& gpu = OneStageOutcome(GetParam());
  const Outcome& cpu = OutcomeOnce(OneStage(GetParam()), kSteps);
  // Norms behind attention and the MLP divide by what is small before training, and the gradient by
  // that again: on CPUs, too, bf16 and fp32 differ by up to 7 %.
  const bool norms_behind = SmallModel(GetParam().model).decoder() != nullptr &&
                            SmallModel(GetParam().model).decoder()->norms == 4;
  const double rounding = norms_behind ? 0.05 : 0.02;
  const double relative = GetParam().dtype == DType::kBFloat16 ? rounding : 1e-4;
  EXPECT_NEAR(gpu.eval_loss, cpu.eval_loss, relative * std::abs(cpu.eval_loss));
  ASSERT_EQ(gpu.norms.size(), cpu.norms.size());
  for (size_t i = 0; i < gpu.norms.size(); ++i) {
    EXPECT_NEAR(gpu.norms[i], cpu.norms[i], relative * cpu.norms[i]) << "step " << i;
  }
}

// Attention does not take them; nothing is allocated before that is said.
TEST(CompileRunForGpus, RefusesHeadsThatAreTooWide) {
  RunRequest request = MakeRequest({});
  DecoderConfig config = *request.spec.decoder();
  config.dim = 264;
  config.heads = 1;
  request.spec.config = config;
  ASSERT_TRUE(CompileRun(request).ok()) << "for CPUs";
  request.kernels = &CudaKernels();
  const absl::Status refused = CompileRun(request).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("heads of 264 values; attention there takes at most 256"));
}

INSTANTIATE_TEST_SUITE_P(Runs, OnEmulatedGpus, testing::ValuesIn(Runs()),
                         [](const auto& param_info) { return param_info.param.Name(); });

}  // namespace
}  // namespace sluice
