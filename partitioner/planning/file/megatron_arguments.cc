#include "partitioner/planning/file/megatron_arguments.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "partitioner/planning/file/trainer_file.h"
#include "partitioner/planning/question/other_trainers.h"

namespace sluice {
namespace {

constexpr char kEmbedding = 'E', kBlock = 't', kPredictsAhead = 'm', kLoss = 'L';

absl::StatusOr<char> LetterOf(const std::string& layer) {
  if (layer == "embedding") return kEmbedding;
  if (layer == "head") return kLoss;
  if (absl::StartsWith(layer, "block ")) return kBlock;
  if (absl::StartsWith(layer, "predict ahead ")) return kPredictsAhead;
  return absl::InvalidArgumentError(
      absl::StrCat("Megatron-LM's layout knows an embedding, transformer blocks, blocks that "
                   "predict ahead and a head, not '",
                   layer, "'"));
}

// The letters of each stage.
absl::StatusOr<std::vector<std::string>> StageLetters(const Plan& plan,
                                                      const PlanContext& context) {
  std::vector<std::string> letters;
  for (const PlanStage& stage : plan.stages) {
    letters.emplace_back();
    for (const int layer : stage.layers) {
      absl::StatusOr<char> letter = LetterOf(context.layer_names[static_cast<size_t>(layer)]);
      if (!letter.ok()) return letter.status();
      letters.back() += *letter;
    }
  }
  return letters;
}

bool PredictsAhead(const std::string& letters) {
  return absl::StrContains(letters, kPredictsAhead);
}

absl::Status CheckPredictors(const std::vector<std::string>& letters, int ranks) {
  const auto first = std::find_if(letters.begin(), letters.end(), PredictsAhead);
  if (first == letters.end()) return absl::OkStatus();
  if (std::count_if(first, letters.end(), PredictsAhead) > 1) {
    return absl::InvalidArgumentError(
        "Megatron-LM has all blocks that predict ahead in one stage, and this plan has them in "
        "several; give --partition, or fewer --chunks");
  }
  const auto stage = first - letters.begin();
  const auto stages = static_cast<std::ptrdiff_t>(letters.size());
  if (stage >= stages - ranks) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "Megatron-LM has the blocks that predict ahead in the last stage of a rank, and "
      "this plan has them in stage ",
      stage, " of ", stages, " on ", ranks, " ranks; give --partition, or fewer --chunks"));
}

absl::StatusOr<std::vector<std::string>> RecomputeArguments(const Plan& plan) {
  const absl::StatusOr<Recompute> policy = OnePolicy(plan, "Megatron-LM");
  if (!policy.ok()) return policy.status();
  switch (*policy) {
    case Recompute::kNone:
      return std::vector<std::string>{};
    case Recompute::kSelective:
      return std::vector<std::string>{"--recompute-granularity selective"};
    case Recompute::kFull:
      return std::vector<std::string>{"--recompute-granularity full", "--recompute-method uniform",
                                      "--recompute-num-layers 1"};
  }
  return absl::InternalError("a recompute policy without a name");
}

}  // namespace

absl::StatusOr<std::string> FormatMegatronArguments(const Plan& plan, const PlanContext& context) {
  if (absl::Status ok = CheckForTrainer(Trainer::kMegatron, AskedIn(context)); !ok.ok()) return ok;
  if (absl::Status ok = CheckForMegatron(plan.schedule, plan.devices, plan.micro_batches);
      !ok.ok()) {
    return ok;
  }
  absl::StatusOr<std::vector<std::string>> letters = StageLetters(plan, context);
  if (!letters.ok()) return letters.status();
  if (absl::Status ok = CheckPredictors(*letters, plan.devices); !ok.ok()) return ok;
  absl::StatusOr<std::vector<std::string>> recompute = RecomputeArguments(plan);
  if (!recompute.ok()) return recompute.status();

  const std::string layout = absl::StrJoin(*letters, "|");
  std::vector<std::string> lines;
  const auto add = [&](const auto&... parts) { lines.push_back(absl::StrCat(parts...)); };
  add("--tensor-model-parallel-size ", context.tensor_parallel);
  if (context.sequence_parallel) add("--sequence-parallel");
  add("--pipeline-model-parallel-size ", plan.devices);
  add("--pipeline-model-parallel-layout ", layout);
  add("--micro-batch-size ", context.micro_batch_size);
  add("--global-batch-size ",
      int64_t{context.data_parallel} * plan.micro_batches * context.micro_batch_size);
  add("--seq-length ", context.seq);
  const auto predictors = std::count(layout.begin(), layout.end(), kPredictsAhead);
  if (predictors > 0) add("--mtp-num-layers ", predictors);
  if (context.dtype == DType::kBFloat16) add("--bf16");
  for (std::string& line : *recompute) lines.push_back(std::move(line));
  if (context.optimizer == OptimizerKind::kSgd) add("--optimizer sgd");
  if (context.overlap_sync) add("--overlap-grad-reduce");
  if (context.zero == 1) add("--use-distributed-optimizer");
  return absl::StrJoin(lines, "\n") + "\n";
}

}  // namespace sluice
