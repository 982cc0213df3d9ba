#include "partitioner/planning/file/torchtitan_config.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/strings/substitute.h"
#include "models/spec/json_text.h"
#include "partitioner/planning/file/trainer_file.h"

namespace sluice {
namespace {

// The schedule whose stages torchtitan places as the plan has them; what runs is the file.
absl::StatusOr<std::string> ScheduleWithPlacement(const Plan& plan) {
  const Placement& placement = plan.timetable.placement;
  const int ranks = placement.ranks(), stages = placement.stages();
  if (stages == 2 * ranks && placement.rank_of_stage() == Placement::V(ranks, 2).rank_of_stage()) {
    return "ZBVZeroBubble";
  }
  if (stages % ranks == 0 &&
      placement.rank_of_stage() == Placement::Looped(ranks, stages / ranks).rank_of_stage()) {
    return stages == ranks ? "1F1B" : "Interleaved1F1B";
  }
  return absl::InvalidArgumentError(
      absl::StrCat("torchtitan deals stages out round robin, or in a V with two per rank, and this "
                   "plan has ",
                   stages, " stages on ", ranks, " ranks in another way; give --schedule"));
}

absl::StatusOr<std::vector<std::string>> ModulesOf(const std::string& layer, TorchTitanFile file) {
  if (layer == "embedding") return std::vector<std::string>{"tok_embeddings"};
  if (layer == "head")
    return std::vector<std::string>{"norm", file == TorchTitanFile::kToml ? "output" : "lm_head"};
  absl::string_view number = layer;
  if (absl::ConsumePrefix(&number, "block ")) {
    return std::vector<std::string>{absl::StrCat("layers.", number)};
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "torchtitan's models have an embedding, transformer blocks and a head, not '", layer, "'"));
}

// A list of lists of modules, which TOML and Python write alike.
absl::StatusOr<std::string> ModuleLists(const Plan& plan, const PlanContext& context,
                                        TorchTitanFile file) {
  const char* indent = file == TorchTitanFile::kToml ? "" : "    ";
  std::string lines = "[\n";
  for (const PlanStage& stage : plan.stages) {
    std::vector<std::string> quoted;
    for (const int layer : stage.layers) {
      const auto modules = ModulesOf(context.layer_names[static_cast<size_t>(layer)], file);
      if (!modules.ok()) return modules.status();
      for (const std::string& module : *modules) {
        quoted.push_back(absl::StrCat("\"", module, "\""));
      }
    }
    absl::StrAppend(&lines, indent, "    [", absl::StrJoin(quoted, ", "), "],\n");
  }
  return absl::StrCat(lines, indent, "]");
}

// Keys of one part of the configuration, with their values as TOML and Python write them.
struct Part {
  const char* name;
  std::vector<std::pair<const char*, std::string>> settings;
};

// A string as JSON writes it, which TOML and Python read alike: whatever is no quote, backslash or
// control character stays as it is. TOML alone refuses DEL as it is.
std::string Quoted(const std::string& text) {
  return absl::StrReplaceAll(JsonText(nlohmann::json(text)), {{"\x7f", "\\u007f"}});
}

// The same without the quotes, for a comment, or a part of a string.
std::string Escaped(const std::string& text) {
  const std::string quoted = Quoted(text);
  return quoted.substr(1, quoted.size() - 2);
}

// Comments on what is trained, which no key of the plan's parts says; "" where all is.
std::string TrainedComment(const Adaptation& adaptation, TorchTitanFile file) {
  const std::string trained = adaptation.ToString();
  if (trained.empty()) return "";
  return absl::StrCat(
      "# The plan is for a model of which not all is trained: ", Escaped(trained), "\n",
      file == TorchTitanFile::kToml
          ? "# No key here says that: freeze parameters and add adapters in the model's code.\n"
          : "# Nothing here says that: add adapters by the LoRAConverter of\n"
            "# torchtitan.components.lora, and freeze other parameters in the model's code.\n");
}

std::string Toml(const std::vector<Part>& parts, const std::string& csv, Recompute recompute,
                 const Adaptation& adaptation) {
  std::string text = TrainedComment(adaptation, TorchTitanFile::kToml);
  if (!text.empty()) text += "\n";
  for (const Part& part : parts) {
    absl::StrAppend(&text, "[", part.name, "]\n");
    for (const auto& [key, value] : part.settings) absl::StrAppend(&text, key, " = ", value, "\n");
    if (part.name == parts.front().name)
      absl::StrAppend(&text, "pipeline_parallel_schedule_csv = ", Quoted(csv), "\n");
    absl::StrAppend(&text, "\n");
  }
  return absl::StrCat(text, "[activation_checkpoint]\nmode = ", Quoted(RecomputeName(recompute)),
                      "\n");
}

const char* ActivationCheckpoint(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone:
      return "None";
    case Recompute::kSelective:
      return "activation_checkpoint.SelectiveAC.Config()";
    case Recompute::kFull:
      return "activation_checkpoint.FullAC.Config()";
  }
  return "None";
}

// $0: processes; $1: the module's name; $2: settings, a line each; $3: activation checkpointing; $4:
// comments on what is trained.
constexpr char kPython[] =
    R"py(# A plan of sluice for torchtitan 0.3 and later. In this file's folder, with any of its
# configurations, such as the function llama3_8b of torchtitan.models.llama3:
#
#   PYTHONPATH=. torchrun --nproc-per-node $0 -m torchtitan.train --module $1 --config llama3.llama3_8b
$4import importlib
import pathlib

from torchtitan.distributed import activation_checkpoint


def planned(config):
    """The configuration, changed so that it runs the plan."""
$2    config.parallelism.pipeline_parallel_schedule_csv = str(pathlib.Path(__file__).with_name("$1.csv"))
    config.training.disable_cuda_graphs = True  # torchtitan has none for pipelines
    config.activation_checkpoint = $3
    return config


def __getattr__(name):
    """--config MODEL.FUNCTION: that function of torchtitan.models.MODEL, with the plan."""
    model, dot, function = name.partition('.')
    if not dot:
        raise AttributeError(f'{name}: expected --config MODEL.FUNCTION, such as llama3.llama3_8b')
    registry = importlib.import_module(f'torchtitan.models.{model}.config_registry')
    return lambda: planned(getattr(registry, function)())
)py";

std::string Python(const std::vector<Part>& parts, const std::string& csv, int processes,
                   Recompute recompute, const Adaptation& adaptation) {
  std::string settings;
  for (const Part& part : parts) {
    for (const auto& [key, value] : part.settings)
      absl::StrAppend(&settings, "    config.", part.name, ".", key, " = ", value, "\n");
  }
  const std::string module(absl::StripSuffix(csv.substr(csv.rfind('/') + 1), ".csv"));
  std::string trained = TrainedComment(adaptation, TorchTitanFile::kPython);
  if (!trained.empty()) trained = absl::StrCat("#\n", trained);
  return absl::Substitute(kPython, processes, Escaped(module), settings,
                          ActivationCheckpoint(recompute), trained);
}

}  // namespace

absl::StatusOr<std::string> FormatTorchTitanConfig(const Plan& plan, const PlanContext& context,
                                                   TorchTitanFile file, const std::string& csv) {
  if (absl::Status ok = CheckForTrainer(Trainer::kTorchTitan, AskedIn(context)); !ok.ok())
    return ok;
  const absl::StatusOr<std::string> schedule = ScheduleWithPlacement(plan);
  if (!schedule.ok()) return schedule.status();
  const absl::StatusOr<Recompute> recompute = OnePolicy(plan, "torchtitan");
  if (!recompute.ok()) return recompute.status();
  const absl::StatusOr<std::string> modules = ModuleLists(plan, context, file);
  if (!modules.ok()) return modules.status();
  const int64_t local_batch = plan.micro_batches * context.micro_batch_size;
  const std::vector<Part> parts = {
      {"parallelism",
       {{"pipeline_parallel_degree", absl::StrCat(plan.devices)},
        {"pipeline_parallel_schedule", Quoted(*schedule)},
        {"pipeline_parallel_microbatch_size", absl::StrCat(context.micro_batch_size)},
        {"module_fqns_per_model_part", *modules},
        {"data_parallel_replicate_degree", absl::StrCat(context.data_parallel)},
        {"data_parallel_shard_degree", "1"},
        {"tensor_parallel_degree", absl::StrCat(context.tensor_parallel)}}},
      {"training",
       {{"local_batch_size", absl::StrCat(local_batch)},
        {"global_batch_size", absl::StrCat(local_batch * context.data_parallel)},
        {"seq_len", absl::StrCat(context.seq)}}}};
  if (file == TorchTitanFile::kToml) return Toml(parts, csv, *recompute, context.adaptation);
  return Python(parts, csv, context.DeviceCount(plan), *recompute, context.adaptation);
}

}  // namespace sluice
