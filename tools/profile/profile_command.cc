#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/device/cuda_device.h"
#include "models/kernels/cuda/products/algorithms.h"
#include "models/layers/adapted_layers.h"
#include "models/layers/trainable.h"
#include "models/spec/units.h"
#include "partitioner/costs/profile.h"
#include "partitioner/planning/file/plan_file.h"
#include "partitioner/planning/profiling/cpu_device.h"
#include "partitioner/planning/profiling/device_link.h"
#include "partitioner/planning/profiling/layer_timing.h"
#include "partitioner/planning/sources/layer_memory.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/terminal.h"
#include "tools/train/adaptation_flags.h"
#include "tools/train/bf16_note.h"
#include "tools/train/kernel_flags.h"
#include "tools/train/model_flags.h"

namespace sluice {
namespace {

constexpr int kDefaultRepetitions = 7;

struct Flags {
  ModelChoice model;
  KernelFlags kernels;
  AdaptationFlags adaptation;
  std::string dtype = "fp32", optimizer = "adamw", output, tune;
  int micro_batch_size = 4, seq = 0, stages = 1, repetitions = kDefaultRepetitions;
};

absl::StatusOr<Profile> Describe(const Flags& flags, const KernelChoice& choice,
                                 const Kernels& kernels) {
  const std::optional<OptimizerKind> optimizer = ParseOptimizer(flags.optimizer);
  if (!optimizer) {
    return absl::InvalidArgumentError(
        absl::StrCat("--optimizer is '", flags.optimizer, "'; expected adamw or sgd"));
  }
  absl::StatusOr<ModelSpec> spec = ResolveTrainable(flags.model, flags.seq);
  if (!spec.ok()) return spec.status();
  if (absl::Status ok = CheckSeqFlag(*spec, flags.seq != 0); !ok.ok()) return ok;
  Profile profile;
  if (!ParseDType(flags.dtype, &profile.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--dtype is '", flags.dtype, "'; expected fp32 or bf16"));
  }
  if (absl::Status status = CheckModel(choice, profile.dtype, *spec); !status.ok()) {
    return status;
  }
  absl::StatusOr<Adaptation> adaptation = AdaptationOf(flags.adaptation, profile.dtype);
  if (!adaptation.ok()) return adaptation.status();
  absl::Status named = CheckTrained(*adaptation, *spec, profile.dtype);
  if (!named.ok()) return named;
  profile.adaptation = *std::move(adaptation);
  profile.attention = choice.attention;
  profile.model = flags.model.model;
  profile.device = flags.kernels.device;
  profile.micro_batch_size = flags.micro_batch_size;
  profile.seq = spec->seq_or_usual(flags.seq);
  profile.repetitions = flags.repetitions;
  profile.optimizer = optimizer;
  absl::StatusOr<std::vector<LayerCost>> layers =
      DeclaredCosts(*spec, {profile.micro_batch_size, profile.seq}, profile.dtype, *optimizer,
                    kernels, profile.adaptation);
  if (!layers.ok()) return layers.status();
  profile.layers = *std::move(layers);
  profile.spec = *std::move(spec);
  return profile;
}

absl::StatusOr<Link> MeasureLink(Device* device) {
  if (device->queues()) return MeasureDeviceLink(device);
  return MeasureInProcessLink();
}

absl::Status Measure(int stages, const Kernels& kernels, Device* device, Profile* profile) {
  const BatchShape batch{profile->micro_batch_size, profile->seq};
  absl::StatusOr<std::vector<LayerTimings>> timings =
      TimeLayers(*profile->spec, batch,
                 {.dtype = profile->dtype,
                  .adaptation = profile->adaptation,
                  .stages = stages,
                  .repetitions = profile->repetitions,
                  .kernels = &kernels,
                  .device = device});
  if (!timings.ok()) return timings.status();
  profile->timings = *std::move(timings);
  for (size_t i = 0; i < profile->layers.size(); ++i) {
    TakeMedians(profile->timings[i], &profile->layers[i]);
  }
  const absl::StatusOr<Link> link = MeasureLink(device);
  if (link.ok()) profile->link = *link;
  return link.status();
}

// GFLOP/s, or a dash for layers without products.
std::string Rate(double flops, double seconds) {
  return flops > 0 && seconds > 0 ? fmt::format("{:.1f}", flops / seconds / 1e9) : "-";
}

std::string FormatTable(const std::string& place, const Profile& profile, const HeadLimits& head) {
  const std::vector<LayerSpec> specs = DescribeAdapted(
      *profile.spec, {profile.micro_batch_size, profile.seq}, profile.adaptation, head);
  std::string out = fmt::format("{} on {}, {} x {} tokens, {}, median of {}\n\n", profile.model,
                                place, profile.micro_batch_size, profile.seq,
                                DTypeName(profile.dtype), profile.repetitions);
  out += fmt::format("  {:<14}{:>10}{:>10}{:>10}{:>10}{:>10}{:>12}\n", "layer", "F", "I", "W",
                     "restore", "GFLOP/s", "output");
  double step = 0, flops = 0;
  for (size_t i = 0; i < profile.layers.size(); ++i) {
    const LayerCost& layer = profile.layers[i];
    const double seconds =
        layer.forward_seconds + layer.input_grad_seconds + layer.weight_grad_seconds;
    const double work =
        specs[i].forward_flops + specs[i].input_grad_flops + specs[i].weight_grad_flops;
    step += seconds;
    flops += work;
    out +=
        fmt::format("  {:<14}{:>10}{:>10}{:>10}{:>10}{:>10}{:>12}\n", layer.name,
                    FormatSeconds(layer.forward_seconds), FormatSeconds(layer.input_grad_seconds),
                    FormatSeconds(layer.weight_grad_seconds),
                    layer.restore_seconds > 0 ? FormatSeconds(layer.restore_seconds) : "-",
                    Rate(work, seconds), FormatBytes(static_cast<double>(layer.output_bytes)));
  }
  out += fmt::format("\n  a micro-batch {}, {} GFLOP/s\n", FormatSeconds(step), Rate(flops, step));
  out += fmt::format("  between stages {} and {}/s\n", FormatSeconds(profile.link.latency),
                     FormatBytes(profile.link.bandwidth));
  return out;
}

absl::Status CheckTuning(const Flags& flags, bool on_gpu) {
  if (flags.tune.empty()) return absl::OkStatus();
  if (!on_gpu) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--tune ", flags.tune, " measures the algorithms of a GPU; it needs --device cuda"));
  }
  if (!flags.kernels.algorithms.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--tune ", flags.tune, " measures what --algorithms ",
                     flags.kernels.algorithms, " would settle; give one of the two"));
  }
  return CheckOutput(flags.tune);
}

absl::Status ChooseAlgorithms(const Flags& flags, const Device& gpu) {
  if (!flags.tune.empty()) MeasureAlgorithms();
  if (flags.kernels.algorithms.empty()) return absl::OkStatus();
  return TakeAlgorithms(flags.kernels.algorithms, {gpu.kind()}).status();
}

std::string DescribeAlgorithms(const ProductAlgorithms& measured) {
  double seconds = 0, first = 0;
  for (const ProductAlgorithm& product : measured.products) {
    seconds += product.seconds;
    first += product.first_seconds;
  }
  return fmt::format("  {} products, each once: {}, by cuBLASLt's first algorithms {}\n",
                     measured.products.size(), FormatSeconds(seconds), FormatSeconds(first));
}

absl::Status RunProfile(const Flags& flags) {
  absl::StatusOr<KernelChoice> choice = ChoiceOf(flags.kernels);
  if (!choice.ok()) return choice.status();
  choice->master_weights = MasterWeightsOf(flags.adaptation);
  const bool on_gpu = choice->cuda;
  if (absl::Status status = CheckTuning(flags, on_gpu); !status.ok()) return status;
  if (on_gpu && flags.stages > 1) {
    return absl::InvalidArgumentError(
        "--stages is of cores that share their memory; on a GPU a layer is measured alone");
  }
  const absl::StatusOr<const Kernels*> kernels = KernelsOf(*choice);
  if (!kernels.ok()) return kernels.status();
  absl::StatusOr<Profile> profile = Describe(flags, *choice, **kernels);
  if (!profile.ok()) return profile.status();
  std::unique_ptr<Device> gpu;
  if (on_gpu) {
    absl::StatusOr<std::unique_ptr<Device>> opened = OpenCudaDevice(0);
    if (!opened.ok()) return opened.status();
    gpu = *std::move(opened);
    if (absl::Status status = ChooseAlgorithms(flags, *gpu); !status.ok()) return status;
  }
  Device& device = on_gpu ? *gpu : CpuDevice();
  NoteSlowBFloat16(flags.kernels.device, profile->dtype);
  absl::Status status = Measure(flags.stages, **kernels, &device, &*profile);
  if (!status.ok()) return status;
  std::string products;
  if (!flags.tune.empty()) {
    const absl::StatusOr<ProductAlgorithms> measured = MeasuredAlgorithms(device.kind());
    if (!measured.ok()) return measured.status();
    status = WriteOutput(flags.tune, FormatAlgorithms(*measured));
    if (!status.ok()) return status;
    products = DescribeAlgorithms(*measured);
  }
  if (!flags.output.empty()) return WriteOutput(flags.output, FormatProfile(*profile));
  const std::string cores =
      flags.stages == 1 ? "one core" : fmt::format("{} cores at once", flags.stages);
  return WriteOutput(
      "", FormatTable(on_gpu ? gpu->name() : cores, *profile, (*kernels)->head_limits) + products);
}

}  // namespace

void AddProfileCommand(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("profile", "Measure every layer of a model on this machine");
  command->footer(
      "Example:\n"
      "  sluice profile char-gpt -o profile.json\n"
      "  sluice plan profile.json --devices 2\n"
      "  sluice profile gpt2 --device cuda --dtype bf16 --tune gpt2.algorithms\n"
      "Without -o the times are printed as a table.");
  auto flags = std::make_shared<Flags>();
  command
      ->add_option("MODEL", flags->model.model, "A preset, or a Hugging Face config.json or folder")
      ->required();
  AddShapeFlags(*command, &flags->model);
  AddKernelFlags(*command, "Options", &flags->kernels);
  AddAdaptationFlags(*command, "Options", &flags->adaptation);
  command
      ->add_option("--micro-batch-size", flags->micro_batch_size,
                   "Samples per micro-batch (default: 4)")
      ->check(CLI::PositiveNumber);
  command->add_option("--seq", flags->seq, "Tokens per sample (default: the model's, at most 4096)")
      ->check(CLI::PositiveNumber);
  command->add_option("--dtype", flags->dtype, "Compute type: fp32 or bf16")->capture_default_str();
  command
      ->add_option("--optimizer", flags->optimizer,
                   "adamw or sgd; the optimizer's state takes memory")
      ->capture_default_str();
  command
      ->add_option(
          "--stages", flags->stages,
          "Cores that work at the same time, as those of a pipeline do; each measures its share "
          "of the layers (default: 1)")
      ->check(CLI::PositiveNumber);
  command->add_option("--repetitions", flags->repetitions, "How often each layer is measured")
      ->check(CLI::Range(1, kMostRepetitions))
      ->capture_default_str();
  command
      ->add_option("--tune", flags->tune,
                   "File to write: the fastest algorithm for each product of matrices, which "
                   "cuBLASLt offers several for; for --algorithms of sluice train")
      ->option_text("FILE");
  command->add_option("-o,--output", flags->output, "File to write, such as profile.json");
  command->callback([flags, exit_code] {
    const absl::Status status = RunProfile(*flags);
    if (!status.ok()) *exit_code = Fail(status);
  });
}

}  // namespace sluice
