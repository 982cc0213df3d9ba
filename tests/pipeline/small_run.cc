#include "tests/pipeline/small_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <ostream>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "comm/where.h"
#include "models/spec/model_config.h"
#include "schedules/generators/catalogue.h"
#include "tests/models/layers/test_models.h"

namespace sluice {
namespace {

constexpr int kBlocks = 16;
constexpr int kDecoderBlocks = 5;

// SplitMix64 (Steele et al. 2014), as a hash of a position.
uint64_t Hash(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27U)) * 0x94d049bb133111eb;
  return x ^ (x >> 31U);
}

uint16_t RoundToBFloat16(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>(bits >> 16U);
}

template <typename T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "%s\n", DescribeError(value.status()).c_str());
    std::abort();
  }
  return *std::move(value);
}

Partition RandomPartition(int layers, int stages, uint64_t seed) {
  std::vector<int> cuts(static_cast<size_t>(layers) - 1);
  for (size_t i = 0; i < cuts.size(); ++i) cuts[i] = static_cast<int>(i) + 1;
  std::mt19937_64 random(seed);
  std::shuffle(cuts.begin(), cuts.end(), random);
  cuts.resize(static_cast<size_t>(stages) - 1);
  std::sort(cuts.begin(), cuts.end());
  Partition partition;
  int first = 0;
  for (int cut : cuts) {
    partition.push_back({first, cut - 1});
    first = cut;
  }
  partition.push_back({first, layers - 1});
  return partition;
}

absl::StatusOr<Timetable> TimetableOf(const SmallRun& run) {
  const std::vector<int>& members = run.stage_members;
  const int ranks =
      members.empty() ? run.ranks : std::accumulate(members.begin(), members.end(), 0);
  absl::StatusOr<Timetable> table = GenerateSchedule(
      run.schedule, {.ranks = ranks, .micro_batches = run.micro_batches, .chunks = run.chunks});
  return members.empty() || !table.ok() ? table : NarrowTimetable(*table, members);
}

// The model of that name in tests/models/layers/test_models.h, with more blocks, and as a
// config.json of its family says it: a run that is resumed compares with that.
std::optional<ModelSpec> FamilyModel(const std::string& name) {
  for (const TestModel& model : TestModels()) {
    if (model.name != name || model.spec.decoder() == nullptr || name == "gpt") continue;
    DecoderConfig config = *model.spec.decoder();
    config.layers = kDecoderBlocks;
    if (!config.global_blocks.empty()) {
      config.global_blocks.assign(static_cast<size_t>(config.layers), false);
      config.global_blocks[1] = config.global_blocks[3] = true;
    }
    return OrDie(ParseModelConfig(FormatModelConfig({.name = name, .config = config}), name));
  }
  return std::nullopt;
}

}  // namespace

void HashedData::Fill(Split split, int64_t index, int64_t size, DType dtype,
                      const SampleBuffers& out) const {
  void* const input = out.input;
  int32_t* const targets = out.targets;
  const uint64_t start = Hash(split == Split::kTrain ? 1 : 2);
  const auto per_sample = static_cast<uint64_t>(input_size());
  const auto ids = static_cast<uint64_t>(classes());
  for (int64_t i = 0; i < size; ++i) {
    const uint64_t sample = start + static_cast<uint64_t>(index * size + i) * 1000;
    for (uint64_t j = 0; j < per_sample; ++j) {
      const size_t at = static_cast<size_t>(i) * per_sample + j;
      const uint64_t value = Hash(sample + j);
      if (spec_.decoder() != nullptr) {
        if (input != nullptr) static_cast<int32_t*>(input)[at] = static_cast<int32_t>(value % ids);
        if (targets != nullptr) targets[at] = static_cast<int32_t>(Hash(sample + j + 1) % ids);
        continue;
      }
      const float pixel = static_cast<float>(value % 256) / 256.0f;
      if (input == nullptr) continue;
      if (dtype == DType::kBFloat16) {
        static_cast<uint16_t*>(input)[at] = RoundToBFloat16(pixel);
      } else {
        static_cast<float*>(input)[at] = pixel;
      }
    }
    if (spec_.decoder() == nullptr && targets != nullptr)
      targets[i] = static_cast<int32_t>(Hash(sample) % ids);
    if (documents_) {
      CutSample(sample, targets == nullptr ? nullptr : targets + i * seq_,
                out.starts == nullptr ? nullptr : out.starts + i * seq_);
    }
  }
  if (out.starts != nullptr && !documents_) std::fill_n(out.starts, size * input_size(), 0);
}

void HashedData::CutSample(uint64_t sample, int32_t* targets, int32_t* starts) const {
  int64_t start = 0;
  for (int64_t j = 0; j < seq_; ++j) {
    const uint64_t at = Hash(Hash(sample + static_cast<uint64_t>(j)));
    if (at % 3 == 0) start = j;
    if (starts != nullptr) starts[j] = static_cast<int32_t>(start);
    if (targets != nullptr && at % 4 == 0) targets[j] = kNoTarget;
  }
}

int64_t HashedData::counted_targets(Split split, int64_t index, int64_t size) const {
  if (!documents_) return Dataset::counted_targets(split, index, size);
  std::vector<int32_t> targets(static_cast<size_t>(size * seq_));
  Fill(split, index, size, DType::kInt32, {.targets = targets.data()});
  return std::count_if(targets.begin(), targets.end(), [](int32_t t) { return t != kNoTarget; });
}

std::string SmallRun::Name() const {
  const char* policies[] = {"none", "selective", "full"};
  std::string name =
      absl::StrCat(model, "_", schedule, "_p", ranks, "_v", chunks, "_m", micro_batches, "_",
                   policies[static_cast<int>(recompute)], "_", DTypeName(dtype));
  if (master_weights == MasterWeights::kSplit) absl::StrAppend(&name, "_split");
  if (recompute_ahead) absl::StrAppend(&name, "_ahead");
  if (partition_seed != 0) absl::StrAppend(&name, "_cut", partition_seed);
  if (optimizer == OptimizerKind::kSgd) absl::StrAppend(&name, "_sgd");
  if (replicas > 1) absl::StrAppend(&name, "_dp", replicas);
  if (!stage_members.empty()) absl::StrAppend(&name, "_r", absl::StrJoin(stage_members, ""));
  if (zero > 0) absl::StrAppend(&name, "_zero", zero);
  if (mirror) absl::StrAppend(&name, "_mirror");
  if (audit_every > 0) absl::StrAppend(&name, "_audit", audit_every);
  if (!adapted.empty()) absl::StrAppend(&name, "_", adapted);
  if (sum_groups > 0) absl::StrAppend(&name, "_sum", sum_groups);
  if (documents) absl::StrAppend(&name, "_documents");
  if (threads > 1) absl::StrAppend(&name, "_threads", threads);
  if (head_rows > 0) absl::StrAppend(&name, "_rows", head_rows);
  return absl::StrReplaceAll(name, {{"-", "_"}});
}

ModelSpec SmallModel(const std::string& name) {
  if (name == "mlp") {
    MlpConfig mlp{.widths = {20}};
    for (int i = 0; i < kBlocks + 1; ++i) mlp.widths.push_back(8 + i % 5);
    mlp.widths.push_back(10);
    return {.name = name, .config = mlp};
  }
  if (name == "wide" || name == "wide_tied") {
    return {.name = name,
            .config = DecoderConfig{.layers = 4,
                                    .dim = 32,
                                    .heads = 2,
                                    .vocab = 67,
                                    .max_seq = 6,
                                    .tied_head = name == "wide_tied"}};
  }
  if (name == "wide_gemma2") {
    ModelSpec model = *FamilyModel("gemma2");
    DecoderConfig config = *model.decoder();
    config.head_dim = 8;
    model.config = config;
    return model;
  }
  if (std::optional<ModelSpec> family = FamilyModel(name)) return *std::move(family);
  return {.name = name,
          .config = DecoderConfig{.layers = kBlocks,
                                  .dim = 8,
                                  .heads = 2,
                                  .vocab = 17,
                                  .max_seq = 6,
                                  .tied_head = name == "tied",
                                  .norm = name == "rms" ? NormKind::kRms : NormKind::kLayer}};
}

RunRequest MakeRequest(const SmallRun& run) { return MakeRequest(run, OrDie(TimetableOf(run))); }

RunRequest MakeRequest(const SmallRun& run, const Timetable& timetable) {
  RunRequest request;
  request.spec = SmallModel(run.model);
  request.batch = {.size = 2, .seq = run.model == "mlp" ? 1 : 6};
  if (run.head_rows > 0) {
    std::get<DecoderConfig>(request.spec.config).head_rows = run.head_rows;
    request.batch.size = 3;  // more rows than the least of a block
  }
  request.dtype = run.dtype;
  request.documents = run.documents;
  if (run.adapted == "lora") request.adaptation.lora = Lora{.rank = 3, .alpha = 6};
  if (run.adapted == "dropout")
    request.adaptation.lora = Lora{.rank = 3, .alpha = 6, .dropout = 0.25};
  if (run.adapted == "freeze") {
    request.adaptation.freeze = {"*.0.*", "*.2.*", "*c_fc.bias", "*wte.weight", "*wpe.weight"};
  }
  if (!run.adapted.empty()) request.adaptation.base_dtype = run.dtype;
  request.kernels = &CpuKernels(run.master_weights);
  request.timetable = timetable;
  const int stages = timetable.placement.model_stages();
  request.partition = run.partition_seed == 0
                          ? OrDie(EvenPartition(request.spec.layer_count(), stages))
                          : RandomPartition(request.spec.layer_count(), stages, run.partition_seed);
  request.recompute.assign(static_cast<size_t>(stages), run.recompute);
  request.recompute_ahead = run.recompute_ahead;
  request.optimizer = run.optimizer;
  request.sum_groups = run.sum_groups;
  request.replicas = run.replicas;
  request.stage_members = run.stage_members;
  request.zero = run.zero;
  request.mirror = run.mirror;
  request.audit_every = run.audit_every;
  request.threads_per_stage = run.threads;
  return request;
}

RunPlan MakePlan(const SmallRun& run) { return OrDie(CompileRun(MakeRequest(run))); }

std::vector<SmallRun> CatalogueRuns(const std::vector<std::string>& without) {
  std::vector<SmallRun> runs;
  uint64_t seed = 1000;
  for (const CatalogueEntry& entry : Catalogue()) {
    if (std::find(without.begin(), without.end(), entry.name) != without.end()) continue;
    for (int ranks : {2, 4}) {
      for (int chunks : {1, 2, 4}) {
        SmallRun run{.schedule = entry.name, .ranks = ranks, .chunks = chunks};
        run.micro_batches = 2 * ranks;
        const absl::StatusOr<Timetable> table = TimetableOf(run);
        if (!table.ok() || table->updates != WeightUpdates::kFlush) continue;
        run.partition_seed = ++seed;
        runs.push_back(run);
      }
    }
    // Once with recomputed activations and with bf16, in every other schedule split.
    if (runs.empty() || runs.back().schedule != entry.name) continue;
    runs.back().recompute = Recompute::kFull;
    runs.back().dtype = DType::kBFloat16;
    runs.back().master_weights = seed % 2 == 0 ? MasterWeights::kSplit : MasterWeights::kWhole;
  }
  return runs;
}

void PrintTo(const Outcome& outcome, std::ostream* out) {
  *out << "losses " << absl::StrJoin(outcome.losses, " ") << ", norms "
       << absl::StrJoin(outcome.norms, " ") << ", weights " << outcome.weights_hash
       << ", validation " << outcome.eval_loss;
}

absl::StatusOr<Outcome> Train(const RunPlan& plan, const TrainOptions& options) {
  const HashedData data(plan.request.spec, plan.request.batch.seq, plan.request.documents);
  Outcome outcome;
  TrainEvents events;
  events.on_step = [&outcome](const StepMetrics& metrics) {
    outcome.losses.push_back(LossHex(metrics.loss));
    outcome.norms.push_back(metrics.grad_norm);
  };
  absl::StatusOr<TrainResult> result = TrainInProcess(plan, data, options, events, nullptr);
  if (!result.ok()) return result.status();
  outcome.weights_hash = result->summary.weights_hash;
  outcome.eval_loss = result->summary.eval_loss;
  return outcome;
}

TrainOptions SmallOptions(int64_t steps) {
  TrainOptions options;
  options.training.steps = steps;
  options.training.optimizer.lr = 0.01;
  options.training.optimizer.clip =
      0.5;  // low enough to act, so that the norm's bits reach the weights
  options.running.pin_threads = false;
  return options;
}

const Outcome& OutcomeOnce(const SmallRun& run, int64_t steps) {
  static auto* outcomes = new std::map<std::pair<std::string, int64_t>, Outcome>;
  const std::pair<std::string, int64_t> key(run.Name(), steps);
  auto found = outcomes->find(key);
  if (found == outcomes->end()) {
    absl::StatusOr<Outcome> outcome = Train(MakePlan(run), SmallOptions(steps));
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    found = outcomes->emplace(key, outcome.ok() ? *outcome : Outcome{}).first;
  }
  return found->second;
}

}  // namespace sluice
