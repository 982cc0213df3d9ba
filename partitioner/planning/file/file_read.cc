#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/spec/json_text.h"
#include "partitioner/costs/json_fields.h"
#include "partitioner/costs/model_json.h"
#include "partitioner/orders/custom_order.h"
#include "partitioner/planning/file/plan_file.h"
#include "schedules/counted.h"

namespace sluice {
namespace {

// So wide that no real plan meets them, so narrow that nothing computed of them overflows.
constexpr int kMostLayers = 1 << 20;
constexpr int64_t kMostSamples = int64_t{1} << 20;
constexpr int64_t kMostTokens = int64_t{1} << 24;

int64_t ReadCount(JsonFields* fields, const char* field, int64_t most) {
  const int64_t value = fields->Integer(field, 1);
  if (value <= most) return value;
  fields->Fail(field, absl::StrCat("is ", value, ", which is too large"));
  return 1;
}

int ReadInt(JsonFields* fields, const char* field, int64_t least) {
  const int64_t value = fields->Integer(field, least);
  if (value <= std::numeric_limits<int>::max()) return static_cast<int>(value);
  fields->Fail(field, absl::StrCat("is ", value, ", which is too large"));
  return 0;
}

// The file counts the devices of all replicas.
void ReadReplicas(JsonFields* fields, PlanFile* plan) {
  if (fields->Has("data_parallel")) plan->data_parallel = ReadInt(fields, "data_parallel", 1);
  if (fields->Has("zero")) plan->zero = ReadInt(fields, "zero", 0);
  if (plan->zero > 2) fields->Fail("zero", absl::StrCat("is ", plan->zero, "; expected 0, 1 or 2"));
  const auto share_out = [&](const char* field, int degree) {
    if (degree >= 1 && plan->devices % degree == 0) {
      plan->devices /= degree;
      return;
    }
    fields->Fail(field, absl::StrCat("is ", degree, ", which does not divide ",
                                     Counted(plan->devices, "device")));
  };
  share_out("tensor_parallel", plan->tensor_parallel);
  share_out("data_parallel", plan->data_parallel);
}

// Whether the layers of a stage are no range: those of a graph with branches.
bool HasNoRange(const nlohmann::json& stage) {
  const auto is_null = [&stage](const char* field) {
    const auto found = stage.find(field);
    return found != stage.end() && found->is_null();
  };
  return is_null("first_layer") && is_null("last_layer");
}

void ReadRange(JsonFields* fields, PlanFile* plan) {
  Partition& partition = plan->assignment.partition;
  const LayerRange range{ReadInt(fields, "first_layer", 0), ReadInt(fields, "last_layer", 0)};
  const int expected = partition.empty() ? 0 : partition.back().last + 1;
  if (range.first != expected) {
    fields->Fail("first_layer", absl::StrCat("is ", range.first, "; expected ", expected,
                                             ", the layer after the stage before"));
  }
  if (range.last >= kMostLayers) {
    fields->Fail("last_layer", absl::StrCat("is ", range.last, ", which is too large"));
  }
  if (range.last < range.first) {
    fields->Fail("last_layer",
                 absl::StrCat("is ", range.last, ", before first_layer ", range.first));
  }
  partition.push_back(range);
}

void ReadStages(const nlohmann::json& stages, const std::string& file, JsonFields* document,
                PlanFile* plan) {
  plan->branches = HasNoRange(stages.front());
  for (size_t i = 0; i < stages.size(); ++i) {
    JsonFields fields(stages[i], file, absl::StrCat("stages[", i, "]"));
    if (ReadInt(&fields, "stage", 0) != static_cast<int>(i)) {
      fields.Fail("stage", absl::StrCat("must be ", i, ": stages come in order"));
    }
    if (!plan->branches) {
      ReadRange(&fields, plan);
    } else if (!HasNoRange(stages[i])) {
      fields.Fail("first_layer", "and last_layer must be null, as they are in stages[0]");
    }
    Recompute recompute = Recompute::kNone;
    const std::string policy = plan->says_step() ? fields.String("recompute") : "none";
    if (!ParseRecompute(policy, &recompute)) {
      fields.Fail("recompute", absl::StrCat("is '", policy, "'; expected none, selective or full"));
    }
    plan->stage_replicas.push_back(fields.Has("replicas") ? ReadInt(&fields, "replicas", 1)
                                                          : plan->data_parallel);
    if (fields.Has("rank")) plan->stage_ranks.push_back(ReadInt(&fields, "rank", 0));
    plan->assignment.recompute.push_back(recompute);
    document->Merge(fields.status());
    // The next stage would be held against a layer that this one may not have.
    if (!fields.status().ok()) return;
  }
}

// Where each stage has as many replicas as the pipeline, they are the pipeline's.
void TakeStageReplicas(JsonFields* document, PlanFile* plan) {
  std::vector<int>& replicas = plan->stage_replicas;
  const bool alike = std::all_of(replicas.begin(), replicas.end(),
                                 [plan](int count) { return count == plan->data_parallel; });
  if (alike) {
    replicas.clear();
    return;
  }
  const int64_t ranks = std::accumulate(replicas.begin(), replicas.end(), int64_t{0});
  if (plan->data_parallel != 1 || plan->chunks != 1) {
    document->Fail("stages", "have different replicas; that takes data_parallel 1 and chunks 1");
  } else if (ranks != plan->devices) {
    document->Fail("stages", absl::StrCat("have ", Counted(ranks, "replica"), " in all, for ",
                                          Counted(plan->devices, "device")));
  }
}

// An order made for the costs may give some devices fewer stages; its timetable says which.
void CheckStageCount(size_t stages, JsonFields* document, const PlanFile& plan) {
  const int64_t most = int64_t{plan.devices} * plan.chunks;
  const int64_t least = plan.schedule == kCustomOrder ? plan.devices : most;
  const auto count = static_cast<int64_t>(stages);
  if (!plan.stage_replicas.empty() || (least <= count && count <= most)) return;
  document->Fail("stages",
                 absl::StrCat("has ", stages, stages == 1 ? " entry; " : " entries; ",
                              Counted(plan.devices, "device"), " x ", Counted(plan.chunks, "chunk"),
                              " take ", least < most ? "at most " : "", most));
}

// What --partition takes says again what the stages say.
void CheckPartition(JsonFields* document, PlanFile* plan) {
  if (plan->stage_ranks.size() != plan->assignment.recompute.size()) plan->stage_ranks.clear();
  if (!document->status().ok() || !document->Has("partition")) return;
  const std::string given = document->String("partition");
  const std::string of_stages = FormatPartition(plan->assignment.partition);
  if (given == of_stages) return;
  document->Fail("partition", absl::StrCat("is '", given, "'; expected '", of_stages,
                                           "', which is what the stages have"));
}

void ReadBatch(JsonFields* fields, PlanFile* plan) {
  plan->micro_batch_size = ReadCount(fields, "micro_batch_size", kMostSamples);
  plan->seq = ReadCount(fields, "seq", kMostTokens);
  const std::string dtype = fields->String("dtype");
  if (!ParseDType(dtype, &plan->dtype)) {
    fields->Fail("dtype", absl::StrCat("is '", dtype, "'; expected fp32 or bf16"));
  }
  if (fields->Has("master_weights")) {
    const std::string kept = fields->String("master_weights");
    if (!ParseMasterWeights(kept, &plan->master_weights)) {
      fields->Fail("master_weights", absl::StrCat("is '", kept, "'; expected whole or split"));
    }
  }
  plan->attention = ReadAttention(fields);
  if (fields->Has("mirror")) plan->mirror = fields->Bool("mirror");
  if (fields->Has("audit")) plan->audit_every = ReadInt(fields, "audit", 0);
  if (!fields->Has("adaptation")) return;
  absl::StatusOr<Adaptation> adaptation = ParseAdaptation(fields->String("adaptation"));
  if (!adaptation.ok())
    return fields->Fail("adaptation", std::string(adaptation.status().message()));
  plan->adaptation = *std::move(adaptation);
}

// When micro-batches run, and how long that takes.
void ReadStep(JsonFields* fields, PlanFile* plan) {
  plan->schedule = fields->String("schedule");
  if (plan->schedule == kCustomOrder) plan->timetable = fields->String("timetable");
  plan->chunks = ReadInt(fields, "chunks", 1);
  plan->micro_batches = ReadInt(fields, "micro_batches", 1);
  plan->step_seconds = fields->Number("step_seconds");
  plan->bubble = fields->Number("bubble", -1);
}

// The two parts of a plan that not every model and objective has; PLAN.md names their keys. Each
// is whole or absent: one key of a part asks for all of them.
bool HasStep(JsonFields* fields) {
  return fields->Has("schedule") || !fields->Has("objective") ||
         fields->String("objective") != "bottleneck";
}
bool HasBatch(JsonFields* fields) {
  return fields->Has("micro_batch_size") || fields->Has("seq") || fields->Has("dtype");
}

}  // namespace

absl::StatusOr<PlanFile> ParsePlan(absl::string_view json, absl::string_view file) {
  const absl::StatusOr<nlohmann::json> object = JsonFields::ParseObject(json, file);
  if (!object.ok()) return object.status();
  JsonFields fields(*object, std::string(file), "");
  PlanFile plan;
  plan.model = fields.String("model");
  if (HasStep(&fields)) {
    ReadStep(&fields, &plan);
    plan.says_batch = HasBatch(&fields);
    if (plan.says_batch) ReadBatch(&fields, &plan);
  }
  plan.devices = ReadInt(&fields, "devices", 1);
  if (fields.Has("tensor_parallel")) plan.tensor_parallel = ReadInt(&fields, "tensor_parallel", 1);
  ReadReplicas(&fields, &plan);
  const nlohmann::json* stages = fields.Objects("stages");
  if (stages != nullptr) {
    ReadStages(*stages, std::string(file), &fields, &plan);
    TakeStageReplicas(&fields, &plan);
    CheckStageCount(stages->size(), &fields, plan);
    CheckPartition(&fields, &plan);
  }
  if (!fields.status().ok()) return fields.status();
  if (object->contains("costs")) plan.costs = JsonText((*object)["costs"]);
  if (!object->contains("model_config")) return plan;
  absl::StatusOr<ModelSpec> spec =
      ModelFromJson((*object)["model_config"], plan.model, std::string(file));
  if (!spec.ok()) return spec.status();
  if (spec->layer_count() != plan.layer_count()) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": field 'stages' places ",
                                                   Counted(plan.layer_count(), "layer"),
                                                   ", the model has ", spec->layer_count()));
  }
  plan.spec = *std::move(spec);
  return plan;
}

absl::Status CheckStageRanks(const PlanFile& plan, const Placement& placement,
                             absl::string_view file) {
  // Where stages have replicas of their own, a stage begins where the one before it ends.
  int next = 0;
  for (size_t i = 0; i < plan.stage_ranks.size(); ++i) {
    const int expected = plan.stage_replicas.empty() ? placement.rank(static_cast<int>(i)) : next;
    if (!plan.stage_replicas.empty()) next += plan.stage_replicas[i];
    if (plan.stage_ranks[i] == expected) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        file, ": field 'rank' of stages[", i, "] is ", plan.stage_ranks[i], "; expected ", expected,
        ", where ", plan.says_step() ? absl::StrCat("schedule '", plan.schedule, "'") : "the plan",
        " has that stage"));
  }
  return absl::OkStatus();
}

}  // namespace sluice
