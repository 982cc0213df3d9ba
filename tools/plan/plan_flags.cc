#include "tools/plan/plan_flags.h"

#include <CLI/CLI.hpp>

#include "tools/train/model_flags.h"

// Flags are added in the order in which --help shows them.
namespace sluice {
namespace {

void AddDeviceFlags(CLI::App& command, PlanFlags* flags) {
  command.add_option("--devices", flags->devices, "Devices in all")->required();
  command.add_option("--device", flags->device,
                     "cpu (measured now), v100, a100, a100-40gb, h100, h200, or a device's "
                     "FILE.json");
  command.add_option("--memory", flags->memory, "Memory of each device, as 80GiB");
  command.add_option("--bandwidth", flags->bandwidth, "Between neighbours, as 12GB/s");
  command.add_option("--latency", flags->latency, "Between neighbours, as 5us");
}

void AddBatchFlags(CLI::App& command, PlanFlags* flags) {
  command.add_option("--micro-batch-size", flags->micro_batch_size,
                     "Samples a micro-batch (4); auto tries the powers of two");
  command.add_option("--micro-batches", flags->micro_batches,
                     "Micro-batches of a replica a step (16)");
  command.add_option("--global-batch", flags->global_batch, "Samples a step, instead");
  command.add_option("--assume", flags->assume,
                     "Read a config.json of an unknown model_type as this one, as llama");
  command.add_option("--seq", flags->seq, "Tokens a sample");
  command.add_option("--dtype", flags->dtype, "fp32 or bf16");
}

void AddChoiceFlags(CLI::App& command, PlanFlags* flags) {
  command.add_option("--schedule", flags->schedule, "auto, or a name of sluice schedule list");
  command.add_option("--chunks", flags->chunks, "Stages a device");
  command.add_option("--recompute", flags->recompute, "auto, none, selective or full");
  command.add_option("--objective", flags->objective, "step or bottleneck");
  command.add_option("--partition", flags->partition, "Price this one, as 0-5,6-11");
  command.add_option("--optimizer", flags->optimizer, "adamw or sgd: its state takes memory");
}

void AddSharingFlags(CLI::App& command, PlanFlags* flags) {
  command.add_option("--cluster", flags->cluster,
                     "FILE.json: which devices, how many a node, and the links between them");
  command.add_option("--data-parallel", flags->data_parallel,
                     "Replicas of the pipeline (1); auto tries all, or replicates the stages of a "
                     "graph.txt");
  command.add_option("--tensor-parallel", flags->tensor_parallel,
                     "Devices that share each stage (1); auto tries what fits into a node");
  command.add_flag("--sequence-parallel", flags->sequence_parallel,
                   "Tensor-parallel devices keep slices of the tokens in between");
  command.add_option("--zero", flags->zero,
                     "1: replicas share the optimizer's state; 2: the gradients, too");
  command.add_flag("--overlap-sync", flags->overlap_sync,
                   "Replicas sum gradients while the last backward runs");
}

void AddSearchFlags(CLI::App& command, PlanFlags* flags) {
  command.add_option("--time-limit", flags->time_limit,
                     "Stop the search after this long with the best plan and its gap (10s, where "
                     "there are several ways to use the devices)");
  command.add_option("--gap", flags->gap, "Good enough: within this much of the best, as 1%");
  command.add_flag("--pareto", flags->pareto, "Also: the fastest plan for every amount of memory");
  command.add_flag("--what-if", flags->what_if,
                   "Also: what more devices, memory or bandwidth would buy");
  command.add_option("--format", flags->format, "text, json, svg or megatron")
      ->check(CLI::IsMember({"text", "json", "svg", "megatron"}));
  command.add_flag("--json", flags->json, "Short for --format json");
  command.add_option("-o,--output", flags->output,
                     "Write there (JSON, where the file ends in .json) instead of to stdout");
}

}  // namespace

void AddPlanFlags(CLI::App& command, PlanFlags* flags) {
  command
      .add_option("MODEL", flags->model.model,
                  "A preset (gpt2, llama-3.1-8b, char-gpt, ...), a Hugging Face config.json, or a "
                  "profile.json from sluice profile, or a PipeDream graph.txt")
      ->required();
  AddShapeFlags(command, &flags->model);
  AddDeviceFlags(command, flags);
  AddBatchFlags(command, flags);
  AddChoiceFlags(command, flags);
  AddSharingFlags(command, flags);
  AddSearchFlags(command, flags);
}

}  // namespace sluice
