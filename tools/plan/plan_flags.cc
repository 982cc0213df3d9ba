#include "tools/plan/plan_flags.h"

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "partitioner/costs/device.h"
#include "schedules/render/render.h"
#include "tools/flag_values.h"
#include "tools/train/model_flags.h"

// Flags are added in the order in which --help shows them.
namespace sluice {
namespace {

constexpr int kMostSvgWidth = 10000;  // pixels

void AddDeviceFlags(CLI::App& command, PlanFlags* flags) {
  command
      .add_option("--devices", flags->devices,
                  "Number of devices, all replicas and stages together")
      ->required();
  command.add_option("--device", flags->device,
                     absl::StrCat("Kind of device: cpu (this processor, measured now; default), ",
                                  absl::StrJoin(BuiltInDeviceNames(), ", "),
                                  ", or a FILE.json that describes one (docs/formats)"));
  CheckAttention(command.add_option("--attention", flags->attention,
                                    "Attention on GPUs: by sluice's own kernels (default), or by "
                                    "cuDNN's, as train --attention cudnn"));
  command.add_option("--memory", flags->memory, "Memory of each device, such as 80GiB");
  command.add_option("--bandwidth", flags->bandwidth,
                     "Bandwidth between neighbouring stages, such as 12GB/s");
  command.add_option("--latency", flags->latency,
                     "Latency between neighbouring stages, such as 5us");
}

void AddBatchFlags(CLI::App& command, PlanFlags* flags) {
  command.add_option("--micro-batch-size", flags->micro_batch_size,
                     "Samples per micro-batch (default: 4); auto tries the powers of two");
  command.add_option("--micro-batches", flags->micro_batches,
                     "Micro-batches per step of each replica (default: 16); where their size or "
                     "the replicas are auto, --global-batch says what a step is");
  command.add_option("--global-batch", flags->global_batch,
                     "Samples per step of all replicas, instead of --micro-batches (default where "
                     "the size or the replicas are auto: 16 micro-batches of one replica)");
  command.add_option(
      "--assume", flags->assume,
      "Read a config.json of an unknown model_type as if it were of this one, such as "
      "llama");
  command.add_option("--seq", flags->seq, "Tokens per sample (default: the model's, at most 4096)");
  command
      .add_option("--dtype", flags->dtype,
                  "Compute type: fp32 or bf16 (default: bf16; on this processor fp32)")
      ->type_name("TEXT:{fp32,bf16}");
  AddAdaptationFlags(command, "Options", &flags->adaptation);
  command.add_flag("--pack", flags->pack,
                   "Samples hold several documents, or targets that do not count, as those of JSON "
                   "lines do: every stage reads where documents begin");
}

// Types with choices, as CLI::IsMember would name them for --help and completion; a wrong value is
// refused with the question (plan_choices.cc), in words that other readers of questions share.
void AddChoiceFlags(CLI::App& command, PlanFlags* flags) {
  command
      .add_option("--schedule", flags->schedule,
                  "auto (the best of all), or a name from 'sluice schedule list'")
      ->capture_default_str();
  command.add_option("--chunks", flags->chunks,
                     "Stages per device (default: the best number that the schedule can have)");
  command
      .add_option("--recompute", flags->recompute,
                  "Activations that the backward computes again: auto (chosen for each stage), "
                  "none, selective or full")
      ->type_name("TEXT:{auto,none,selective,full}")
      ->capture_default_str();
  command
      .add_option(
          "--objective", flags->objective,
          "What to minimise: step (its time) or bottleneck (of one micro-batch: the slowest "
          "stage, or boundary of stages, over the device's link or with --bandwidth)")
      ->type_name("TEXT:{step,bottleneck}")
      ->capture_default_str();
  command.add_option("--partition", flags->partition,
                     "Price this partition into stages, such as 0-5,6-11, and search no other");
  command
      .add_option("--optimizer", flags->optimizer,
                  "adamw or sgd; the optimizer's state takes memory (default: adamw; of a profile, "
                  "what it was measured for)")
      ->type_name("TEXT:{adamw,sgd}");
}

void AddSharingFlags(CLI::App& command, PlanFlags* flags) {
  command.add_option("--cluster", flags->cluster,
                     "FILE.json: the kinds of devices, how many there are per node, and their "
                     "links (docs/formats)");
  command.add_option(
      "--data-parallel", flags->data_parallel,
      "Replicas of the pipeline (default: 1). auto tries every number; for a graph.txt "
      "it lets several devices share a stage");
  command.add_option("--tensor-parallel", flags->tensor_parallel,
                     "Devices that divide the tensors of each stage (default: 1); auto tries every "
                     "number that fits into a node");
  command.add_flag("--sequence-parallel", flags->sequence_parallel,
                   "Between their products, tensor-parallel devices keep slices of the tokens");
  command
      .add_option("--zero", flags->zero,
                  "1: replicas divide the optimizer's state among themselves; 2: gradients, too")
      ->type_name("INT:{0,1,2}")
      ->capture_default_str();
  command.add_flag("--mirror", flags->mirror,
                   "Each device also keeps the state of the next one, as train --mirror does. Its "
                   "memory is counted; its time, another update and 4 bytes per parameter, is not");
  command
      .add_option("--audit", flags->audit,
                  "Every so many steps, each rank computes one micro-batch of another rank again, "
                  "as train --audit does. Its time, in the mean over these steps, is in the step, "
                  "and its memory is counted. 0: never")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_flag("--overlap-sync", flags->overlap_sync,
                   "Replicas sum gradients while the last backward runs");
}

void AddSearchFlags(CLI::App& command, PlanFlags* flags) {
  command.add_option(
      "--time-limit", flags->time_limit,
      "Stop the search after this time, with the best plan and its gap (default: 10s, "
      "or until one is found, if there are several ways to use the devices)");
  command.add_option("--gap", flags->gap,
                     "Stop at a plan that is at most this much slower than the best, such as 1%");
  command.add_flag("--pareto", flags->pareto,
                   "Also find the fastest plan for every amount of memory");
  command.add_flag("--what-if", flags->what_if,
                   "Also say what more or fewer devices, more memory or bandwidth would change");
  command
      .add_option("--format", flags->format,
                  "Format of the answer: text, json, svg; megatron: Megatron-LM's arguments; "
                  "torchtitan: its configuration, -o NAME.py (before 0.3: NAME.toml), with the "
                  "timetable in NAME.csv")
      ->check(CLI::IsMember({"text", "json", "svg", "megatron", "torchtitan"}))
      ->each([flags](const std::string&) { flags->format_given = true; })
      ->capture_default_str();
  command.add_flag("--json", flags->json, "The same as --format json");
  command
      .add_option("--width", flags->width,
                  "With svg: width of the picture in pixels (default: as wide as its bars need)")
      ->check(CLI::Range(kLeastSvgWidth, kMostSvgWidth));
  command.add_option("--title", flags->title,
                     "With svg: this title; '' for none, and no line of facts below it");
  command.add_option(
      "-o,--output", flags->output,
      "File to write instead of stdout (without --format as JSON if its name ends in .json)");
}

}  // namespace

void AddPlanFlags(CLI::App& command, PlanFlags* flags) {
  command
      .add_option(
          "MODEL", flags->model.model,
          "A preset (gpt2, llama-3.1-8b, char-gpt, ...), a Hugging Face config.json or folder, a "
          "profile.json from 'sluice profile', or a PipeDream graph.txt")
      ->required();
  AddShapeFlags(command, &flags->model);
  AddDeviceFlags(command, flags);
  AddBatchFlags(command, flags);
  AddChoiceFlags(command, flags);
  AddSharingFlags(command, flags);
  AddSearchFlags(command, flags);
}

}  // namespace sluice
