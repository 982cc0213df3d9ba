#include "tests/pipeline/decoder_runs.h"

#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <utility>

namespace sluice {
namespace {

// oneDNN divides long sums of fp32 among threads where there is no AVX-512
// (models/kernels/README.md).
const bool kThreadsKeepBits = __builtin_cpu_supports("avx512f") != 0;

class Draw {
 public:
  int Below(int count) { return static_cast<int>(random_() % static_cast<uint64_t>(count)); }
  bool OneIn(int count) { return Below(count) == 0; }
  template <typename T>
  const T& Of(const std::vector<T>& values) {
    return values[static_cast<size_t>(Below(static_cast<int>(values.size())))];
  }

 private:
  std::mt19937_64 random_{16};
};

struct Cut {
  const char* schedule;
  int ranks, chunks;
};

const std::vector<Cut>& Cuts() {
  static const auto* cuts = new std::vector<Cut>{
      {"gpipe", 1, 1},       {"gpipe", 3, 1}, {"1f1b", 1, 1},       {"1f1b", 2, 1},
      {"1f1b", 4, 1},        {"1f1b", 6, 1},  {"eager-1f1b", 3, 1}, {"interleaved", 2, 2},
      {"interleaved", 3, 2}, {"bfs", 2, 3},   {"zb-h1", 2, 1},      {"zb-h1", 5, 1},
      {"zb-2p", 3, 1},       {"zbv", 2, 2},   {"zbv", 3, 2},        {"dualpipev", 2, 2}};
  return *cuts;
}

// Replicas of the pipeline, or of its stages, or none.
void DrawReplicas(const DecoderRun& drawn, Draw& draw, SmallRun* run) {
  const bool several_stages_a_rank = run->chunks > 1;
  if (!drawn.resumed && !several_stages_a_rank && run->ranks <= 3 && draw.OneIn(3)) {
    for (int stage = 0; stage < run->ranks; ++stage)
      run->stage_members.push_back(1 + draw.Below(2));
    run->micro_batches = 6;
    return;
  }
  if (run->ranks > 3 || !draw.OneIn(2)) return;
  run->replicas = 2;
  run->zero = draw.Below(3);
}

DecoderRun DrawRun(Draw& draw) {
  const std::vector<std::string> models = {"llama", "qwen2", "qwen3", "gemma", "gemma2", "gemma3"};
  const Cut& cut = draw.Of(Cuts());
  DecoderRun drawn;
  drawn.resumed = draw.OneIn(4);
  SmallRun& run = drawn.run;
  run.model = draw.Of(models);
  run.schedule = cut.schedule;
  run.ranks = cut.ranks;
  run.chunks = cut.chunks;
  run.micro_batches = 2 * cut.ranks;
  run.recompute = draw.Of<Recompute>({Recompute::kNone, Recompute::kSelective, Recompute::kFull});
  run.recompute_ahead = run.recompute != Recompute::kNone && draw.OneIn(3);
  run.dtype = draw.OneIn(2) ? DType::kBFloat16 : DType::kFloat32;
  run.partition_seed = static_cast<uint64_t>(draw.Below(4));
  run.optimizer = draw.OneIn(5) ? OptimizerKind::kSgd : OptimizerKind::kAdamW;
  DrawReplicas(drawn, draw, &run);
  run.documents = draw.OneIn(2);
  if (draw.OneIn(3)) run.adapted = "lora";
  if (kThreadsKeepBits && draw.OneIn(3)) run.threads = 2 + draw.Below(2);
  if (run.dtype == DType::kBFloat16 && draw.OneIn(2)) run.master_weights = MasterWeights::kSplit;
  if (draw.OneIn(3)) run.head_rows = 16;
  return drawn;
}

}  // namespace

std::vector<DecoderRun> RandomDecoderRuns(int count) {
  Draw draw;
  std::vector<DecoderRun> runs;
  std::set<std::string> names;
  while (runs.size() < static_cast<size_t>(count)) {
    DecoderRun drawn = DrawRun(draw);
    if (names.insert(drawn.Name()).second) runs.push_back(std::move(drawn));
  }
  return runs;
}

}  // namespace sluice
