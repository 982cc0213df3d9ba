// A step allocates no tensor or workspace memory: only small bookkeeping of libraries goes through
// malloc. malloc is replaced for the whole binary, shared libraries included.
#include <gtest/gtest.h>

#include "tests/count_allocations.h"
#include "tests/pipeline/small_run.h"
#include "tests/product_memory.h"

namespace sluice {
namespace {

// Far below the size of the smallest activation here, and above that of any bookkeeping.
constexpr int64_t kSmall = 4096;

TEST(Step, AllocatesNoTensorOrWorkspace) {
  if (!kCountsAllocations) GTEST_SKIP() << "the sanitizer owns malloc";
  RunRequest request = MakeRequest({.schedule = "1f1b", .ranks = 2, .micro_batches = 4});
  DecoderConfig& gpt = std::get<DecoderConfig>(request.spec.config);
  gpt.layers = 4;
  gpt.dim = 64;
  gpt.max_seq = 64;
  request.batch = {.size = 2, .seq = 64};  // an activation is 32 KiB
  request.partition = {{0, 2}, {3, 5}};
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    for (Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      request.dtype = dtype;
      request.recompute = {recompute, recompute};
      // Also replicas, and what they divide.
      request.replicas = recompute == Recompute::kNone ? 1 : 2;
      request.zero = recompute != Recompute::kFull ? 0 : dtype == DType::kFloat32 ? 1 : 2;
      absl::StatusOr<RunPlan> plan = CompileRun(request);
      ASSERT_TRUE(plan.ok()) << plan.status();
      const HashedData data(plan->request.spec, plan->request.batch.seq);
      Allocations steady;
      TrainEvents events;
      // From the end of the second step to the end of the sixth; the ends are rank 0's, the work
      // both ranks'.
      events.on_step = [&steady](const StepMetrics& metrics) {
        if (metrics.step == 2) ResetAllocations();
        if (metrics.step == 6) steady = CountedAllocations();
      };
      TrainOptions options = SmallOptions(7);
      ASSERT_TRUE(TrainInProcess(*plan, data, options, events, nullptr).ok());
      std::printf(
          "%s, recompute %d: %.1f allocations a step, %.0f bytes in all, the largest %ld bytes\n",
          DTypeName(dtype), static_cast<int>(recompute), static_cast<double>(steady.count) / 4,
          static_cast<double>(steady.bytes) / 4, static_cast<long>(steady.largest));
      if (MultipliesInGivenMemory(dtype)) {
        EXPECT_LT(steady.largest, kSmall);
      }
    }
  }
}

}  // namespace
}  // namespace sluice
