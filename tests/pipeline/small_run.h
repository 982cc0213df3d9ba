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
  // `documents`: samples of tokens hold several documents, and targets that do not count.
  HashedData(const ModelSpec& spec, int64_t seq, bool documents = false)
      : spec_(spec), seq_(seq), documents_(documents) {}
  std::string description() const override { return "hashed"; }
  int64_t samples(Split split) const override { return split == Split::kTrain ? 1000 : 40; }
  int classes() const override { return spec_.classes(); }
  int64_t input_size() const override {
    return spec_.decoder() != nullptr ? seq_ : spec_.mlp()->widths.front();
  }
  DType input_dtype() const override {
    return spec_.decoder() != nullptr ? DType::kInt32 : DType::kFloat32;
  }
  bool has_documents() const override { return documents_; }
  void Fill(Split split, int64_t index, int64_t size, DType dtype,
            const SampleBuffers& out) const override;
  int64_t counted_targets(Split split, int64_t index, int64_t size) const override;

 private:
  // Makes documents of a sample's tokens, which `sample` names.
  void CutSample(uint64_t sample, int32_t* targets, int32_t* starts) const;

  ModelSpec spec_;
  int64_t seq_;
  bool documents_;
};

// One way to train a small model. Two runs that differ only in how the work is cut must agree to
// the bit.
struct SmallRun {
  // "gpt", "tied", "rms", "mlp", "wide", "wide_tied", or a family of decoders: "llama", "qwen2",
  // "qwen3", "gemma", "gemma2", "gemma3", and "wide_gemma2". Tensor cores take the heads of "wide"
  // models.
  std::string model = "gpt";
  std::string schedule = "1f1b";
  int ranks = 2;
  int chunks = 1;
  int micro_batches = 4;
  Recompute recompute = Recompute::kNone;
  bool recompute_ahead = false;
  DType dtype = DType::kFloat32;
  MasterWeights master_weights = MasterWeights::kWhole;
  uint64_t partition_seed = 0;  // 0: even; else a random partition
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  int sum_groups = 0;  // as in RunRequest
  int replicas = 1;    // of `micro_batches` each
  int zero = 0;
  bool mirror = false;
  int audit_every = 0;     // as in RunRequest
  bool documents = false;  // several per sample, of data with targets that do not count
  // "": everything is trained; "lora", "dropout" (the same with dropout), or "freeze" of the even
  // blocks and more.
  std::string adapted = {};
  int threads = 1;                      // per stage
  int head_rows = 0;                    // DecoderConfig::head_rows; above 0, of a micro-batch of 18
  std::vector<int> stage_members = {};  // instead of replicas; `ranks` is then the number of stages

  // "1f1b_p2_v1_m4_full_bf16_cut3": a test's name.
  std::string Name() const;
};

inline void PrintTo(const SmallRun& run, std::ostream* out) { *out << run.Name(); }

// The models have enough blocks for six ranks with three chunks each, except the wide ones, whose
// parameters have several blocks of kShardBlock, which replicas can divide; and the families of
// decoders, whose blocks are dear and are enough for six stages.
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
