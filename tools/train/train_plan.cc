#include "tools/train/train_plan.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "models/kernels/kernels.h"
#include "partitioner/costs/model_json.h"
#include "tools/train/settings/settings_file.h"

namespace sluice {
namespace {

// Flags of this start against the plan, which answers the same questions.
class Contradictions {
 public:
  Contradictions(const TrainQuestion& question, const std::string& file)
      : question_(question), file_(file) {}

  // `flag`: without its dashes. `what`: that both of them say.
  template <typename T>
  void Compare(const char* flag, const char* what, const T& given, const T& planned) {
    if (!status_.ok() || given == planned || !question_.given.contains(flag)) return;
    status_ = absl::InvalidArgumentError(
        absl::StrCat("--plan and --", flag, " both say ", what, ": ", file_, " says ", planned,
                     ", and ", given, " was given; leave out --", flag, ", or plan again"));
  }
  const absl::Status& status() const { return status_; }

 private:
  const TrainQuestion& question_;
  const std::string& file_;
  absl::Status status_;
};

std::string PoliciesOf(const PlanFile& plan) {
  const std::vector<Recompute>& policies = plan.assignment.recompute;
  const bool alike = std::all_of(policies.begin(), policies.end(),
                                 [&](Recompute policy) { return policy == policies.front(); });
  if (alike) return RecomputeName(policies.front());
  return absl::StrJoin(policies, ",", [](std::string* out, Recompute policy) {
    out->append(RecomputeName(policy));
  });
}

std::string ReplicasOf(const std::vector<int>& stage_members) {
  return stage_members.empty() ? "one rank each" : absl::StrJoin(stage_members, ",");
}

int StagesOf(const PlanFile& plan) {
  return plan.stage_replicas.empty() ? plan.devices : static_cast<int>(plan.stage_replicas.size());
}

// A flag may say what the plan says.
absl::Status CheckFlags(const PlanFile& plan, const TrainQuestion& question) {
  const TimetableChoice& timetable = question.timetable;
  Contradictions flags(question, timetable.plan);
  flags.Compare("stage-replicas", "how many ranks share a stage",
                ReplicasOf(timetable.stage_members), ReplicasOf(plan.stage_replicas));
  // auto has its own message.
  if (!timetable.auto_stages) {
    flags.Compare("stages", "how many stages there are", timetable.stages.value_or(1),
                  StagesOf(plan));
  }
  if (!question.auto_data_parallel) {
    flags.Compare("data-parallel", "how many replicas there are", question.data_parallel,
                  plan.data_parallel);
  }
  if (!plan.says_step()) return flags.status();
  flags.Compare("schedule", "the schedule", timetable.schedule, plan.schedule);
  flags.Compare("chunks", "how many stages a rank has", timetable.chunks, plan.chunks);
  flags.Compare("micro-batches", "how many micro-batches a step has",
                timetable.micro_batches.value_or(0), plan.micro_batches);
  flags.Compare("zero", "what replicas divide among themselves", question.zero, plan.zero);
  flags.Compare("recompute", "what is computed again",
                std::string(RecomputeName(question.recompute)), PoliciesOf(plan));
  if (plan.mirror) flags.Compare("mirror", "whether there is one", question.mirror, plan.mirror);
  if (!plan.says_batch) return flags.status();
  flags.Compare("micro-batch-size", "how large a micro-batch is",
                int64_t{question.micro_batch_size}, plan.micro_batch_size);
  if (question.seq != 0 && question.seq != plan.seq && flags.status().ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--plan and --seq both say how many tokens a sample has: ", timetable.plan, " says ",
        plan.seq, ", and ", question.seq, " was given; leave out --seq, or plan again"));
  }
  flags.Compare("dtype", "the compute type", std::string(DTypeName(question.dtype)),
                std::string(DTypeName(plan.dtype)));
  return flags.status();
}

// What is trained, as the plan's bytes are for; a plan for all of it says nothing of that. What the
// frozen weights are kept in is the plan's, as the compute type is.
absl::Status TakeAdaptation(const PlanFile& plan, TrainQuestion* question) {
  const Adaptation &planned = plan.adaptation, &asked = question->adaptation;
  if (planned.ToString().empty()) return absl::OkStatus();
  const bool asks = asked.lora.has_value() || !asked.freeze.empty();
  if (asks && !(asked.lora == planned.lora && asked.freeze == planned.freeze)) {
    return absl::InvalidArgumentError(absl::StrCat("--lora and --freeze ask for ", asked.ToString(),
                                                   "; the plan is for ", planned.ToString(),
                                                   ": leave them out, or plan again"));
  }
  question->adaptation = planned;
  return absl::OkStatus();
}

// How many rows of logits the head computes at a time, as the plan's bytes are for.
absl::Status TakeHeadRows(const PlanFile& plan, TrainQuestion* question) {
  if (!plan.spec || plan.spec->decoder() == nullptr) return absl::OkStatus();
  const auto planned = static_cast<int>(plan.spec->head_rows());
  int& asked = question->model.head_rows;
  if (asked != 0 && asked != planned) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--head-rows is ", asked, "; the plan is for ",
        planned == 0 ? "the usual ones" : absl::StrCat(planned), ": leave it out, or plan again"));
  }
  asked = planned;
  return absl::OkStatus();
}

// What weights are kept in, as the plan's bytes are for. GPUs have no choice.
absl::Status TakeMasterWeights(const PlanFile& plan, TrainQuestion* question) {
  std::optional<MasterWeights>& asked = question->kernels.master_weights;
  if (question->kernels.cuda) return absl::OkStatus();
  if (asked.has_value() && asked != plan.master_weights) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--master-weights asks for ", MasterWeightsName(*asked), " ones; the plan is for ",
        MasterWeightsName(plan.master_weights), " ones: leave it out, or plan again"));
  }
  asked = plan.master_weights;
  return absl::OkStatus();
}

// Whose attention runs on GPUs, where the plan names another one than sluice's, which plans for
// processors and for replicas have, too. Processors have no choice.
absl::Status TakeAttention(const PlanFile& plan, TrainQuestion* question) {
  if (!question->kernels.cuda || plan.attention == CudaAttention::kSluice) return absl::OkStatus();
  CudaAttention& asked = question->kernels.attention;
  if (question->given.contains("attention") && asked != plan.attention) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--attention ", CudaAttentionName(asked), ": the plan is for ",
        CudaAttentionName(plan.attention), "'s attention: leave it out, or plan again"));
  }
  asked = plan.attention;
  return absl::OkStatus();
}

// A line of run.toml, and the flag that it gives.
struct Line {
  std::string key;
  std::string value;
  bool numeric = true;
};

bool HasKey(const std::string& settings, absl::string_view key) {
  const std::string begin = absl::StrCat(key, " = ");
  return absl::StartsWith(settings, begin) || absl::StrContains(settings, "\n" + begin);
}

// Flags that make the model of the plan; none where no flags do.
std::vector<Line> LinesOfModel(const RunPlan& run) {
  const ModelSpec& spec = run.request.spec;
  const auto seq = static_cast<int>(run.request.batch.seq);
  const auto makes_it = [&](const ModelChoice& choice) {
    const absl::StatusOr<ModelSpec> made = ResolveTrainable(choice, seq);
    return made.ok() && ModelToJson(*made) == ModelToJson(spec);
  };
  std::vector<Line> lines = {{"model", spec.name, false}};
  const DecoderConfig* const decoder = spec.decoder();
  const auto head_rows = static_cast<int>(spec.head_rows());
  if (makes_it({.model = spec.name, .head_rows = head_rows})) return lines;
  if (decoder == nullptr) return {};
  const ModelChoice shaped = {.model = spec.name,
                              .layers = static_cast<int>(decoder->layers),
                              .dim = static_cast<int>(decoder->dim),
                              .heads = static_cast<int>(decoder->heads),
                              .vocab = static_cast<int>(decoder->vocab),
                              .tied = decoder->tied_head,
                              .norm = decoder->norm,
                              .head_rows = head_rows};
  if (!makes_it(shaped)) return {};
  lines.push_back({"layers", absl::StrCat(shaped.layers)});
  lines.push_back({"dim", absl::StrCat(shaped.dim)});
  lines.push_back({"heads", absl::StrCat(shaped.heads)});
  lines.push_back({"vocab", absl::StrCat(shaped.vocab)});
  if (shaped.tied) lines.push_back({"tied", "true"});
  lines.push_back({"norm", NormName(decoder->norm), false});
  return lines;
}

std::vector<Line> LinesOfAdaptation(const RunRequest& request) {
  std::vector<Line> lines;
  const Adaptation& adaptation = request.adaptation;
  for (const absl::string_view part : absl::StrSplit(adaptation.ToString(), "; ")) {
    if (absl::StartsWith(part, "lora ")) lines.push_back({"lora", std::string(part.substr(5))});
  }
  if (!adaptation.freeze.empty())
    lines.push_back({"freeze", absl::StrJoin(adaptation.freeze, ","), false});
  if (!lines.empty() && adaptation.base_dtype != request.dtype)
    lines.push_back({"base-dtype", DTypeName(adaptation.base_dtype), false});
  return lines;
}

// What the checkpoints of the run are compared by, and what its ranks are where that says it.
std::vector<Line> LinesOfRun(const RunPlan& run) {
  const RunRequest& request = run.request;
  const auto stages =
      request.stage_members.empty() ? run.ranks() : static_cast<int>(request.stage_members.size());
  std::vector<Line> lines = {{"stages", absl::StrCat(stages)},
                             {"data-parallel", absl::StrCat(run.replicas())},
                             {"micro-batch-size", absl::StrCat(request.batch.size)},
                             {"micro-batches", absl::StrCat(run.step_micro_batches())},
                             {"dtype", DTypeName(request.dtype), false}};
  if (request.spec.decoder() != nullptr) lines.push_back({"seq", absl::StrCat(request.batch.seq)});
  if (const int64_t rows = request.spec.head_rows(); rows > 0)
    lines.push_back({"head-rows", absl::StrCat(rows)});
  // Other bits of the weights reach the products.
  if (request.dtype == DType::kBFloat16 &&
      request.kernels->master_weights == MasterWeights::kSplit) {
    lines.push_back({"master-weights", MasterWeightsName(MasterWeights::kSplit), false});
  }
  const bool copies = run.lowered.placement.copies() > 1;
  if (run.asynchronous() || copies) {
    lines.push_back({"schedule", request.timetable.name, false});
  }
  if (!copies && run.sum_groups() > 1)
    lines.push_back({"sum-groups", absl::StrCat(run.sum_groups())});
  return lines;
}

}  // namespace

// A plan replaces the answers that it contains.
absl::Status TakePlan(const PlanFile& plan, TrainQuestion* question) {
  TimetableChoice& timetable = question->timetable;
  if (plan.branches) {
    return absl::InvalidArgumentError(
        absl::StrCat(timetable.plan,
                     ": this plan is for a graph with branches, which cannot be trained; "
                     "expected one for a model, or for layers that follow each other"));
  }
  if (plan.tensor_parallel > 1) {
    return absl::InvalidArgumentError(absl::StrCat(timetable.plan, ": field 'tensor_parallel' is ",
                                                   plan.tensor_parallel,
                                                   ", and more than 1 cannot be trained yet"));
  }
  if (!question->partition.empty()) {
    return absl::InvalidArgumentError(
        "--plan and --partition both say which layers a stage holds; give one of them");
  }
  if (absl::Status status = CheckFlags(plan, *question); !status.ok()) return status;
  timetable.stages = StagesOf(plan);
  timetable.stage_members = plan.stage_replicas;
  question->data_parallel = plan.data_parallel;
  if (!plan.says_step()) return absl::OkStatus();
  timetable.schedule = plan.schedule;
  timetable.timetable = plan.timetable;
  timetable.chunks = plan.chunks;
  // That of a file with settings may be for another schedule.
  if (!question->given.contains("placement")) timetable.placement.clear();
  timetable.micro_batches = plan.micro_batches;
  question->zero = plan.zero;
  question->mirror = question->mirror || plan.mirror;
  if (!question->given.contains("audit") && question->audit_every == 0)
    question->audit_every = plan.audit_every;
  if (!plan.says_batch) return absl::OkStatus();
  question->micro_batch_size = static_cast<int>(plan.micro_batch_size);
  question->dtype = plan.dtype;
  if (question->seq == 0) question->seq = static_cast<int>(plan.seq);
  if (absl::Status status = TakeHeadRows(plan, question); !status.ok()) return status;
  if (absl::Status status = TakeMasterWeights(plan, question); !status.ok()) return status;
  if (absl::Status status = TakeAttention(plan, question); !status.ok()) return status;
  return TakeAdaptation(plan, question);
}

std::string SettingsWithPlan(const TrainQuestion& question, const RunPlan& run) {
  std::vector<Line> lines = LinesOfRun(run);
  if (question.kernels.cuda && question.kernels.attention != CudaAttention::kSluice)
    lines.push_back({"attention", CudaAttentionName(question.kernels.attention), false});
  const std::string& before = question.settings;
  const auto add = [&lines](std::vector<Line> more) {
    lines.insert(lines.end(), more.begin(), more.end());
  };
  std::string note;
  if (question.model.model.empty() && !question.model.shapes()) {
    const std::vector<Line> model = LinesOfModel(run);
    if (model.empty())
      note = "# the model is the plan's: where flags replace the plan, --model must say it\n";
    add(model);
  }
  if (!HasKey(before, "lora") && !HasKey(before, "adapter") && !HasKey(before, "freeze"))
    add(LinesOfAdaptation(run.request));
  std::string text;
  for (const absl::string_view line : absl::StrSplit(before, '\n', absl::SkipEmpty())) {
    const bool again = std::any_of(lines.begin(), lines.end(), [line](const Line& of_plan) {
      return absl::StartsWith(line, absl::StrCat(of_plan.key, " = "));
    });
    if (!again) absl::StrAppend(&text, line, "\n");
  }
  for (const Line& line : lines) {
    text += line.value == "true"
                ? FormatSetting(SettingsSyntax::kToml, line.key, true)
                : FormatSetting(SettingsSyntax::kToml, line.key, {line.value}, line.numeric);
  }
  return text + note;
}

}  // namespace sluice
