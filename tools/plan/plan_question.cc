#include "tools/plan/plan_question.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "models/files/positioned_file.h"
#include "models/spec/model_config.h"
#include "partitioner/planning/question/limits.h"
#include "schedules/counted.h"
#include "tools/files.h"
#include "tools/plan/device_file.h"
#include "tools/plan/plan_choices.h"

namespace sluice {
namespace {

// Refuses the flags that have no effect on a graph of operations, whose costs were measured. A flag
// whose value holds in any case is accepted.
absl::Status RefuseLayerFlags(const PlanFlags& flags) {
  const std::pair<const char*, bool> given[] = {
      {"--device", !flags.device.empty()},
      {"--cluster", !flags.cluster.empty()},
      {"--assume", !flags.assume.empty()},
      {"--seq", flags.seq.has_value()},
      {"--dtype", !flags.dtype.empty()},
      {"--lora", !flags.adaptation.lora.empty()},
      {"--adapter", !flags.adaptation.adapter.empty()},
      {"--head-rows", flags.model.head_rows != 0},
      {"--attention", !flags.attention.empty()},
      {"--freeze", !flags.adaptation.freeze.empty()},
      {"--base-dtype", !flags.adaptation.base_dtype.empty()},
      {"--master-weights", !flags.adaptation.master_weights.empty()},
      {"--pack", flags.pack},
      {"--tensor-parallel", flags.tensor_parallel != "1"},
      {"--sequence-parallel", flags.sequence_parallel},
      {"--zero", flags.zero != 0},
      {"--mirror", flags.mirror},
      {"--audit", flags.audit != 0},
      {"--overlap-sync", flags.overlap_sync},
      {"--optimizer", flags.optimizer == "sgd"},
      {"--recompute", flags.recompute != "auto" && flags.recompute != "none"},
  };
  for (const auto& [flag, is_given] : given) {
    if (!is_given) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " has no effect on ", flags.model.model,
                     ", a graph whose operations were measured; leave it out"));
  }
  return absl::OkStatus();
}

// Refuses the flags on which the bottleneck of a graph does not depend: it has no timetable and no
// step.
absl::Status RefuseStepFlags(const PlanFlags& flags) {
  const std::pair<const char*, bool> given[] = {
      {"--schedule", flags.schedule != "auto"},
      {"--micro-batch-size", !flags.micro_batch_size.empty()},
      {"--micro-batches", flags.micro_batches.has_value()},
      {"--global-batch", flags.global_batch.has_value()},
  };
  for (const auto& [flag, is_given] : given) {
    if (!is_given) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(flag, " has no effect on the bottleneck of a graph; leave it out, or give ",
                     "--objective step"));
  }
  return absl::OkStatus();
}

// Refuses the flags that have no meaning for a graph of operations.
absl::Status CheckGraphFlags(const PlanFlags& flags, const PlanQuestion& question) {
  const auto refuse = [&](const char* what) {
    return absl::UnimplementedError(absl::StrCat(flags.model.model, " is a graph of operations; ",
                                                 what, " is not available for one yet"));
  };
  if (!flags.partition.empty()) return refuse("--partition");
  if (flags.pareto) return refuse("--pareto");
  if (flags.what_if) return refuse("--what-if");
  const bool drawn = flags.format == "svg" && question.objective == PlanObjective::kStep;
  if (flags.format != "text" && flags.format != "json" && !drawn) return refuse("this --format");
  if (question.objective == PlanObjective::kBottleneck) {
    // Such a plan has no timetable, and its costs include no latency.
    if (question.latency) return refuse("--latency with --objective bottleneck");
    if (question.chunks.value_or(1) != 1) return refuse("--chunks with --objective bottleneck");
    if (absl::Status ok = RefuseStepFlags(flags); !ok.ok()) return ok;
  }
  if (absl::Status ok = RefuseLayerFlags(flags); !ok.ok()) return ok;
  return RefuseShapeFlags(flags.model);
}

// Refuses the flags that do not go with the plan of a step of a graph.
absl::Status CheckGraphStep(const PlanQuestion& question) {
  if (question.objective != PlanObjective::kStep) return absl::OkStatus();
  if (question.data_parallel && question.data_parallel != 1) {
    return absl::UnimplementedError(
        "a graph of operations is replicated stage by stage: --data-parallel auto");
  }
  if (question.global_batch || question.micro_batch_size || question.any_micro_batch_size) {
    return absl::InvalidArgumentError(
        "a graph.txt was measured with one size of micro-batch; give --micro-batches");
  }
  return absl::OkStatus();
}

absl::Status ReadGraph(const PlanFlags& flags, PlanQuestion* question) {
  if (absl::Status status = CheckGraphFlags(flags, *question); !status.ok()) return status;
  const absl::StatusOr<std::string> text = ReadWholeFile(flags.model.model, kMostTextBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<ProfileGraph> graph = ParseProfileGraph(*text, flags.model.model);
  if (!graph.ok()) return graph.status();
  question->subject = *std::move(graph);
  return CheckGraphStep(*question);
}

// A profile was measured for one shape; flags may repeat the shape, but not change it.
absl::Status CheckProfileFlags(const PlanFlags& flags, const PlanQuestion& question,
                               const Profile& profile) {
  const ModelChoice& model = flags.model;
  const char* wrong = nullptr;
  if (model.shapes()) {
    wrong = kShapeFlags;
  } else if (model.head_rows != 0) {
    wrong = "--head-rows";
  } else if (question.seq.value_or(profile.seq) != profile.seq) {
    wrong = "--seq";
  } else if (question.any_micro_batch_size ||
             question.micro_batch_size.value_or(profile.micro_batch_size) !=
                 profile.micro_batch_size) {
    wrong = "--micro-batch-size";
  } else if (question.dtype.value_or(profile.dtype) != profile.dtype) {
    wrong = "--dtype";
  } else if (!flags.optimizer.empty() &&
             question.optimizer != profile.optimizer.value_or(question.optimizer)) {
    wrong = "--optimizer";
  } else if (!flags.device.empty() && flags.device != profile.device) {
    wrong = "--device";
  } else if (!flags.cluster.empty()) {
    wrong = "--cluster";
  } else if (!flags.assume.empty()) {
    wrong = "--assume";
  }
  if (wrong == nullptr) return absl::OkStatus();
  const std::string optimizer =
      profile.optimizer ? absl::StrCat(" with ", OptimizerName(*profile.optimizer)) : "";
  const std::string samples =
      profile.seq == 1 ? Counted(profile.micro_batch_size, "sample")
                       : absl::StrCat(profile.micro_batch_size, " x ", profile.seq, " tokens");
  // sluice profile describes the model that it measured, sluice.torch.profile cannot.
  return absl::InvalidArgumentError(
      absl::StrCat(wrong, " cannot change what ", model.model, " was measured for: ", samples,
                   " in ", DTypeName(profile.dtype), optimizer, " on ", profile.device,
                   "; measure again with ", profile.spec ? "sluice profile" : "what wrote it"));
}

// A preset or a config.json. NotFound where neither the name nor its model_type is known.
absl::Status ReadModel(const PlanFlags& flags, PlanQuestion* question) {
  absl::StatusOr<ModelSpec> spec = ResolveModel(flags.model, flags.seq.value_or(0), flags.assume);
  if (!spec.ok()) return spec.status();
  if (absl::Status ok = CheckSeqFlag(*spec, flags.seq.has_value()); !ok.ok()) return ok;
  question->subject = *std::move(spec);
  return absl::OkStatus();
}

absl::Status ReadProfile(const PlanFlags& flags, const std::string& text, PlanQuestion* question) {
  absl::StatusOr<Profile> profile = ParseProfile(text, flags.model.model);
  if (!profile.ok()) return profile.status();
  question->subject = *std::move(profile);
  const auto& measured = std::get<Profile>(question->subject);
  if (absl::Status ok = CheckProfileFlags(flags, *question, measured); !ok.ok()) return ok;
  question->optimizer = measured.optimizer.value_or(question->optimizer);
  return absl::OkStatus();
}

absl::Status AssumesInVain(const PlanFlags& flags, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("--assume ", flags.assume, " has no effect on ",
                                                 flags.model.model, ", ", why, "; leave it out"));
}

// A config.json says itself of which family it is, where that is a known one; --assume may repeat
// it.
absl::Status CheckAssume(const PlanFlags& flags, const std::string& text) {
  if (flags.assume.empty()) return absl::OkStatus();
  const absl::StatusOr<ModelSpec> known = ParseModelConfig(text, flags.model.model);
  if (!known.ok()) return absl::OkStatus();  // not known, or refused below
  const bool repeats = known->decoder() != nullptr && known->decoder()->family == flags.assume;
  return repeats ? absl::OkStatus() : AssumesInVain(flags, "whose model_type is known");
}

absl::Status ReadJson(const PlanFlags& flags, PlanQuestion* question) {
  const absl::StatusOr<std::string> text = ReadModelJson(flags.model);
  if (!text.ok()) return text.status();
  if (IsProfile(*text)) return ReadProfile(flags, *text, question);
  if (absl::Status ok = CheckAssume(flags, *text); !ok.ok()) return ok;
  absl::Status status = ReadModel(flags, question);
  if (!absl::IsNotFound(status)) return status;
  return absl::NotFoundError(
      absl::StrCat(status.message(), "; --assume llama reads it as a llama"));
}

absl::Status ReadPreset(const PlanFlags& flags, PlanQuestion* question) {
  absl::Status status = ReadModel(flags, question);
  if (status.ok() && !flags.assume.empty()) {
    return AssumesInVain(flags, "a preset, which is what it is");
  }
  if (!absl::IsNotFound(status)) return status;
  return absl::NotFoundError(
      absl::StrCat(status.message(), ", or a file's name: FILE.json or graph.txt"));
}

absl::StatusOr<ClusterSpec> ReadCluster(const PlanFlags& flags) {
  if (!flags.device.empty()) {
    return absl::InvalidArgumentError("--cluster says which devices there are; leave out --device");
  }
  const absl::StatusOr<std::string> text = ReadWholeFile(flags.cluster, kMostJsonBytes);
  if (!text.ok()) return text.status();
  absl::StatusOr<ClusterSpec> cluster = ParseCluster(*text, flags.cluster);
  if (cluster.ok() && cluster->device_count() < flags.devices) {
    return absl::InvalidArgumentError(absl::StrCat("--devices ", flags.devices, ": ", flags.cluster,
                                                   " has ", cluster->device_count()));
  }
  return cluster;
}

// Requires --device or --cluster, unless the costs were measured.
absl::Status ReadHardware(const PlanFlags& flags, PlanQuestion* question) {
  if (std::holds_alternative<Profile>(question->subject)) return absl::OkStatus();
  if (!flags.cluster.empty()) {
    absl::StatusOr<ClusterSpec> cluster = ReadCluster(flags);
    if (!cluster.ok()) return cluster.status();
    question->cluster = *std::move(cluster);
  } else if (!flags.device.empty() && flags.device != "cpu") {
    absl::StatusOr<DeviceSpec> device = ReadDevice(flags.device, BuiltInDevice);
    if (!device.ok()) return device.status();
    question->device = *std::move(device);
  }
  return absl::OkStatus();
}

// Of a model or of a profile.
int LayerCount(const PlanQuestion& question) {
  if (const ModelSpec* spec = question.spec()) return spec->layer_count();
  return static_cast<int>(std::get<Profile>(question.subject).layers.size());
}

// A profile has its own.
absl::Status CheckMasterWeights(const PlanQuestion& question) {
  if (!question.master_weights || !std::holds_alternative<Profile>(question.subject))
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--master-weights cannot change what was measured; measure again with sluice profile");
}

// What is trained; of a profile, what was. What the frozen weights are kept in depends on the
// compute type.
absl::Status ReadAdaptation(const PlanFlags& flags, PlanQuestion* question) {
  const auto* profile = std::get_if<Profile>(&question->subject);
  const DType dtype = profile != nullptr ? profile->dtype : question->compute_type();
  absl::StatusOr<Adaptation> adaptation = AdaptationOf(flags.adaptation, dtype);
  if (!adaptation.ok()) return adaptation.status();
  question->adaptation = *std::move(adaptation);
  question->documents = flags.pack;
  question->attention = ParseCudaAttention(flags.attention);
  question->master_weights = MasterWeightsOf(flags.adaptation);
  if (absl::Status status = CheckMasterWeights(*question); !status.ok()) return status;
  const bool given = !(question->adaptation == Adaptation());
  if (profile == nullptr || !given || question->adaptation == profile->adaptation)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--lora, --adapter, --freeze and --base-dtype cannot change what ",
                   flags.model.model, " was measured for: ",
                   profile->adaptation.ToString().empty() ? "everything is trained"
                                                          : profile->adaptation.ToString(),
                   "; measure again with sluice profile"));
}

absl::Status ReadLayers(const PlanFlags& flags, PlanQuestion* question) {
  absl::Status status =
      NamesFile(flags.model) ? ReadJson(flags, question) : ReadPreset(flags, question);
  if (!status.ok()) return status;
  if (status.ok()) status = ReadHardware(flags, question);
  if (status.ok()) status = ReadAdaptation(flags, question);
  if (!status.ok() || flags.partition.empty()) return status;
  absl::StatusOr<Partition> partition = ParsePartition(flags.partition, LayerCount(*question));
  if (!partition.ok()) return partition.status();
  question->partition = *std::move(partition);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PlanQuestion> ReadQuestion(const PlanFlags& flags) {
  PlanQuestion question;
  question.model = flags.model.model;
  absl::Status status = ReadChoices(flags, &question);
  if (!status.ok()) return status;
  status = CheckLimits(question);
  if (!status.ok()) return status;
  status = NamesGraphFile(flags.model) ? ReadGraph(flags, &question) : ReadLayers(flags, &question);
  if (!status.ok()) return status;
  return question;
}

}  // namespace sluice
