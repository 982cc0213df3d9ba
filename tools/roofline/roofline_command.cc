#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/kernels/record/recorded_kernels.h"
#include "models/layers/adapted_layers.h"
#include "models/layers/trainable.h"
#include "models/spec/costs/describe_layers.h"
#include "partitioner/costs/device.h"
#include "partitioner/costs/profile.h"
#include "partitioner/planning/roofline/roofline.h"
#include "partitioner/planning/sources/layer_memory.h"
#include "tools/command.h"
#include "tools/files.h"
#include "tools/flag_values.h"
#include "tools/plan/device_file.h"
#include "tools/roofline/roofline_report.h"
#include "tools/terminal.h"
#include "tools/train/adaptation_flags.h"
#include "tools/train/model_flags.h"

namespace sluice {
namespace {

struct Flags {
  ModelChoice model;
  AdaptationFlags adaptation;
  std::string device = "h200", recompute = "none", attention = "sluice", optimizer = "adamw",
              profile;
  int micro_batch_size = 4, micro_batches = 16, seq = 0;
  bool pack = false, cuda_graphs = true, json = false;
};

// The link to a neighbouring device: of one with a data sheet, what is reached of it. Goes by what
// --device says, since a device of a file may have any name.
Link LinkOf(const std::string& device, const DeviceSpec& sheet) {
  const absl::StatusOr<DeviceSpec> reached = BuiltInDevice(device);
  return reached.ok() ? reached->link : sheet.link;
}

Timing Exactly(double seconds) { return {.least = seconds, .median = seconds}; }

// What `sluice plan` reads: the layers with their bytes on a GPU, and the seconds that are expected.
absl::StatusOr<Profile> ExpectedProfile(const ModelSpec& spec, const StepLaunches& step,
                                        const Link& link, const RooflineReport& report) {
  const RecordedTraining& training = report.training;
  Profile profile;
  profile.model = report.model;
  profile.spec = spec;
  profile.adaptation = training.adaptation;
  profile.optimizer = training.optimizer;
  profile.device = report.sheet.name;
  profile.micro_batch_size = training.batch.size;
  profile.seq = training.batch.seq;
  profile.dtype = DType::kBFloat16;
  profile.attention = training.attention;
  profile.link = link;
  absl::StatusOr<std::vector<LayerCost>> layers =
      DeclaredCosts(spec, training.batch, profile.dtype, training.optimizer,
                    RecordedKernels(training.attention), training.adaptation);
  if (!layers.ok()) return layers.status();
  profile.layers = *std::move(layers);
  SetExpectedSeconds(step, report.sheet, &profile.layers, report.queueing);
  for (const LayerCost& layer : profile.layers) {
    profile.timings.push_back({.forward = Exactly(layer.forward_seconds),
                               .input_grad = Exactly(layer.input_grad_seconds),
                               .weight_grad = Exactly(layer.weight_grad_seconds),
                               .restore = Exactly(layer.restore_seconds),
                               .apart_input_grad = Exactly(layer.input_grad_seconds),
                               .apart_weight_grad = Exactly(layer.weight_grad_seconds),
                               .update = Exactly(layer.update_seconds),
                               .tied_update = Exactly(layer.tied_update_seconds),
                               .tied_sum = Exactly(layer.tied_sum_seconds)});
  }
  return profile;
}

// What the step trains: in bf16.
absl::StatusOr<RecordedTraining> TrainingOf(const Flags& flags, const ModelSpec& spec) {
  const CudaAttention attention =
      ParseCudaAttention(flags.attention).value_or(CudaAttention::kSluice);
  absl::Status status = CheckOnGpus(MasterWeightsOf(flags.adaptation), attention, flags.pack);
  if (!status.ok()) return status;
  absl::StatusOr<Adaptation> adaptation = AdaptationOf(flags.adaptation, DType::kBFloat16);
  if (!adaptation.ok()) return adaptation.status();
  status = CheckTrained(*adaptation, spec, DType::kBFloat16);
  if (!status.ok()) return status;
  return RecordedTraining{
      .batch = {.size = flags.micro_batch_size, .seq = spec.seq_or_usual(flags.seq)},
      .attention = attention,
      .optimizer = *ParseOptimizer(flags.optimizer),
      .adaptation = *std::move(adaptation),
      .documents = flags.pack};
}

absl::Status RunRoofline(const Flags& flags) {
  const absl::StatusOr<DeviceSpec> sheet = ReadDevice(flags.device, DataSheetDevice);
  if (!sheet.ok()) return sheet.status();
  Recompute recompute = Recompute::kNone;
  if (!ParseRecompute(flags.recompute, &recompute)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--recompute is '", flags.recompute, "'; expected none, selective or full"));
  }
  const absl::StatusOr<ModelSpec> spec = ResolveTrainable(flags.model, flags.seq);
  if (!spec.ok()) return spec.status();
  const absl::StatusOr<RecordedTraining> training = TrainingOf(flags, *spec);
  if (!training.ok()) return training.status();
  const absl::StatusOr<StepLaunches> step = RecordStep(*spec, *training);
  if (!step.ok()) return step.status();
  const double flops =
      FlopsPerMicroBatch(DescribeAdapted(*spec, training->batch, training->adaptation));
  const RooflineReport report = MakeReport(
      flags.model.model, *training, *step, *sheet, flags.micro_batches, recompute,
      flags.cuda_graphs ? Queueing::kGraphs : Queueing::kOneByOne, flags.micro_batches * flops);
  if (!flags.profile.empty()) {
    const absl::StatusOr<Profile> profile =
        ExpectedProfile(*spec, *step, LinkOf(flags.device, *sheet), report);
    if (!profile.ok()) return profile.status();
    if (absl::Status status = WriteOutput(flags.profile, FormatProfile(*profile)); !status.ok()) {
      return status;
    }
  }
  return WriteOutput(
      "", flags.json ? FormatRooflineJson(report) : InLocale(FormatRooflineTable(report)));
}

}  // namespace

void AddRooflineCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "roofline", "Bytes, FLOPs and least time of every kernel of a step on a GPU");
  command->footer(
      "Example:\n"
      "  sluice roofline gpt2 --device h200 --micro-batch-size 16 --micro-batches 4\n"
      "  sluice roofline gpt2 --device h200 --profile h200.json\n"
      "  sluice plan h200.json --devices 4\n"
      "Needs no GPU: the layers are called with kernels that only write down what would\n"
      "run.");
  auto flags = std::make_shared<Flags>();
  command
      ->add_option("MODEL", flags->model.model, "A preset, or a Hugging Face config.json or folder")
      ->required();
  AddShapeFlags(*command, &flags->model);
  command->add_option(
      "--device", flags->device,
      absl::StrCat("Kind of device (default: h200): ", absl::StrJoin(BuiltInDeviceNames(), ", "),
                   ", or a FILE.json that describes one (docs/formats)"));
  command
      ->add_option("--micro-batch-size", flags->micro_batch_size,
                   "Samples per micro-batch (default: 4)")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--micro-batches", flags->micro_batches, "Micro-batches per step (default: 16)")
      ->check(CLI::Range(1, 65536));
  command->add_option("--seq", flags->seq, "Tokens per sample")->check(CLI::PositiveNumber);
  AddAdaptationFlags(*command, "Options", &flags->adaptation);
  command->add_option("--optimizer", flags->optimizer, "adamw or sgd, which moves fewer bytes")
      ->check(CLI::IsMember({"adamw", "sgd"}))
      ->capture_default_str();
  command->add_flag("--pack", flags->pack,
                    "Samples hold several documents, as those of JSON lines do");
  command->add_option("--recompute", flags->recompute,
                      "Activations that the backward computes again: none, selective or full");
  CheckAttention(command->add_option("--attention", flags->attention,
                                     "Whose kernels compute attention: sluice (default) or cudnn"));
  command->add_flag("--cuda-graphs,!--no-cuda-graphs", flags->cuda_graphs,
                    "Kernels follow each other as in CUDA graphs (usual), or launched one by one");
  command->add_flag("--json", flags->json, "One JSON document, in seconds, bytes and FLOPs");
  command->add_option("--profile", flags->profile,
                      "Also write a profile.json with the expected times, for sluice plan");
  command->callback([flags, exit_code] {
    const absl::Status status = RunRoofline(*flags);
    if (!status.ok()) *exit_code = Fail(status);
  });
}

}  // namespace sluice
