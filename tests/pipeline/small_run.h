#ifndef SLUICE_TESTS_PIPELINE_SMALL_RUN_H_
#define SLUICE_TESTS_PIPELINE_SMALL_RUN_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "pipeline/compile/compile_run.h"
#include "pipeline/train/trainer.h"

namespace sluice {

// Tokens or pixels that depend only on sample and position; no file is read.
class HashedData : public Dataset {
 public:
  HashedData(const ModelSpec& spec, int64_t seq) : spec_(spec), seq_(seq) {}
  std::string description() const override { return "hashed"; }
  int64_t samples(Split split) const override { return split == Split::kTrain ? 1000 : 40; }
  int classes() const override { return spec_.classes(); }
  int64_t input_size() const override {
    return spec_.decoder() != nullptr ? seq_ : spec_.mlp()->widths.front();
  }
  DType input_dtype() const override {
    return spec_.decoder() != nullptr ? DType::kInt32 : DType::kFloat32;
  }
  void Fill(Split split, int64_t index, int64_t size, DType dtype,
            const SampleBuffers& out) const override;

 private:
  ModelSpec spec_;
  int64_t seq_;
};

// One way to train a small model. Two runs that differ only in how the work is cut must agree to
// the bit.
struct SmallRun {
  std::string model = "gpt";  // "gpt", "tied", "rms", "mlp", "wide" or "wide_tied"
  std::string schedule = "1f1b";
  int ranks = 2;
  int chunks = 1;
  int micro_batches = 4;
  Recompute recompute = Recompute::kNone;
  bool recompute_ahead = false;
  DType dtype = DType::kFloat32;
  uint64_t partition_seed = 0;  // 0: even; else a random partition
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  int sum_groups = 0;  // as in RunRequest
  int replicas = 1;    // of `micro_batches` each
  int zero = 0;
  std::vector<int> stage_members = {};  // instead of replicas; `ranks` is then the number of stages

  // "1f1b_p2_v1_m4_full_bf16_cut3": a test's name.
  std::string Name() const;
};

inline void PrintTo(const SmallRun& run, std::ostream* out) { *out << run.Name(); }

// The models have enough blocks for six ranks with three chunks each, except the wide ones: their
// parameters have several blocks of kShardBlock, which replicas can divide.
ModelSpec SmallModel(const std::string& name);
RunRequest MakeRequest(const SmallRun& run);
// The same with another timetable, with any stages and micro-batches.
RunRequest MakeRequest(const SmallRun& run, const Timetable& timetable);
// Dies when the run does not compile: every SmallRun must.
RunPlan MakePlan(const SmallRun& run);

// One run, or several, of every schedule in the catalogue that flushes, except those named in
// `without`.
std::vector<SmallRun> CatalogueRuns(const std::vector<std::string>& without);

// The bits that must not depend on how the work is cut.
struct Outcome {
  std::vector<std::string> losses;  // LossHex of each step
  std::vector<double> norms;
  uint64_t weights_hash = 0;
  double eval_loss = 0;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};
void PrintTo(const Outcome& outcome, std::ostream* out);

// Trains `plan` and collects its bits; `options` may ask for checkpoints.
absl::StatusOr<Outcome> Train(const RunPlan& plan, const TrainOptions& options);
TrainOptions SmallOptions(int64_t steps);
// The bits of `run` after that number of steps; trained only once, however often it is asked for.
const Outcome& OutcomeOnce(const SmallRun& run, int64_t steps);

}  // namespace sluice

#endif  // SLUICE_TESTS_PIPELINE_SMALL_RUN_H_
