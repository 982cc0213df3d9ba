// The readers behind `sluice plan`, and what it does with what they read.
#include <algorithm>
#include <cmath>
#include <string>

#include "models/kernels/cuda/products/algorithms.h"
#include "models/layers/trainable.h"
#include "models/spec/costs/decoder_layer.h"
#include "models/spec/costs/describe_decoder.h"
#include "models/spec/costs/describe_layers.h"
#include "models/spec/decoder.h"
#include "models/spec/dtype.h"
#include "models/spec/layer_spec.h"
#include "models/spec/model_config.h"
#include "models/spec/model_spec.h"
#include "models/spec/profile_graph.h"
#include "partitioner/calibration/calibration_rows.h"
#include "partitioner/costs/cluster.h"
#include "partitioner/costs/decoder_cost.h"
#include "partitioner/costs/device.h"
#include "partitioner/costs/profile.h"
#include "partitioner/cuts/cost_table.h"
#include "partitioner/cuts/graph_stage.h"
#include "partitioner/graph_plan.h"
#include "partitioner/planning/file/plan_file.h"
#include "partitioner/search/graph_partition.h"
#include "promises.h"
#include "readers.h"
#include "schedules/partition.h"

namespace sluice {
namespace {

// So that an input takes milliseconds.
constexpr int64_t kMostBlocks = 200;
constexpr size_t kMostNodes = 8;
constexpr int kLayers = 12;
constexpr size_t kMostRows = 4;

void DescribeTrained(const ModelSpec& spec) {
  const auto again = ParseModelConfig(FormatModelConfig(spec), kFuzzedFile);
  Require(again.ok() && again->config == spec.config, "a model comes back from its config.json");
}

void DescribeModel(const ModelSpec& spec) {
  if (spec.layer_count() > kMostBlocks) return;
  Require(ParameterCount(spec) > 0, "a model has parameters");
  const BatchShape batch{1, std::min<int64_t>(spec.max_seq(), 4096)};
  Require(FlopsPerMicroBatch(DescribeLayers(spec, batch)) > 0, "a model computes");
  if (spec.decoder() == nullptr) return;
  for (const DecoderLayer& layer : DescribeDecoder(*spec.decoder(), batch, DType::kBFloat16)) {
    Require(layer.spec.parameters >= 0 && layer.saved_bytes() >= 0, "counts do not overflow");
    Require(layer.spec.forward_flops >= 0 && layer.rebuilt_bytes() <= layer.saved_bytes(),
            "a layer makes sense");
  }
}

void PartitionGraph(const ProfileGraph& graph, bool replicate) {
  GraphRequest request;
  request.graph = &graph;
  request.devices = 2;
  request.machines.link.bandwidth = 1e9;
  request.replicate = replicate;
  const auto plan = FindGraphPartition(request);
  if (!replicate && graph.nodes.size() < 2) return Require(!plan.ok(), "two stages take two nodes");
  Require(plan.ok(), "a graph can be cut");
  Require(std::isfinite(plan->bottleneck_seconds) && plan->bottleneck_seconds >= 0,
          "a bottleneck is a time");
  double most = 1;
  for (const GraphStage& stage : plan->stages) {
    most = std::max(most, std::ceil(stage.peak_bytes()));
  }
  if (most > 4e18) return;  // no device has so much, and 64 bits could not count it
  request.machines.memory_limit = static_cast<int64_t>(most);
  const auto limited = FindGraphPartition(request);
  Require(limited.ok() && limited->bottleneck_seconds <= plan->bottleneck_seconds * (1 + 1e-9),
          "memory that a plan fits in does not change its bottleneck");
}

bool MakesSense(const Link& link) { return link.bandwidth > 0 && link.latency >= 0; }

// One block of the row's GPT, priced for its rank as calibration does.
void PriceStep(const MeasuredStep& step) {
  DecoderConfig gpt;
  gpt.layers = 1;
  gpt.dim = step.hidden;
  gpt.heads = step.heads;
  gpt.vocab = step.vocab;
  gpt.max_seq = step.seq;
  DecoderTraining training;
  training.batch = {step.micro_batch, step.seq};
  training.kernels.flash_attention = step.flash_attention;
  training.kernels.dropout = true;
  const ClusterSpec cluster = UniformCluster(*BuiltInDevice("a100"), 8);
  for (const LayerCost& layer : DecoderCosts(gpt, training, step.parallel, cluster, /*kind=*/0)) {
    Require(layer.parameters >= 0 && layer.parameter_bytes >= 0, "counts do not overflow");
    Require(layer.saved_bytes[0] >= layer.saved_bytes[1], "policies keep less and less");
    Require(std::isfinite(layer.forward_seconds + layer.input_grad_seconds +
                          layer.weight_grad_seconds + layer.update_seconds + layer.sync_seconds),
            "a layer takes a time");
  }
}

}  // namespace

void TryModelConfig(absl::string_view text) {
  // What is wrong with the shape itself names the model, which is called as its file.
  const auto require_refusal = [](const absl::Status& error, bool unknown) {
    Require(absl::IsInvalidArgument(error) || (unknown && absl::IsNotFound(error)),
            "bad input is InvalidArgument, and what is not known NotFound");
    Require(absl::StrContains(error.message(), kFuzzedFile), "an error names its file");
  };
  const auto known = ParseModelConfig(text, kFuzzedFile);
  if (!known.ok()) require_refusal(known.status(), /*unknown=*/true);
  // What is known is not assumed to be another one.
  const auto spec = ParseModelConfig(text, kFuzzedFile, "llama");
  if (known.ok()) {
    Require(spec.ok() && spec->config == known->config, "a family is its own");
    const auto patched = PatchModelConfig(text, kFuzzedFile, *known);
    Require(patched.ok(), "a config.json that was read is written again");
    Require(PatchModelConfig(*patched, kFuzzedFile, *known) == patched, "and stays as it is");
  }
  if (!spec.ok()) return require_refusal(spec.status(), /*unknown=*/false);
  DescribeModel(*spec);
  if (CheckTrainable(*spec).ok()) DescribeTrained(*spec);
}

void TryProfileGraph(absl::string_view text) {
  const auto graph = ParseProfileGraph(text, kFuzzedFile);
  if (!graph.ok()) return RequireRefusal(graph.status());
  Require(!graph->nodes.empty(), "a graph has nodes");
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    for (const int source : graph->nodes[i].sources) {
      Require(source < static_cast<int>(i), "sources stand before their users");
    }
  }
  if (graph->nodes.size() > kMostNodes) return;
  PartitionGraph(*graph, /*replicate=*/false);
  PartitionGraph(*graph, /*replicate=*/true);
}

void TryProfile(absl::string_view text) {
  const bool says_so = IsProfile(text);
  const auto profile = ParseProfile(text, kFuzzedFile);
  if (!profile.ok()) return RequireRefusal(profile.status());
  Require(says_so, "a profile says that it is one");
  const std::string written = FormatProfile(*profile);
  const auto again = ParseProfile(written, kFuzzedFile);
  Require(again.ok() && FormatProfile(*again) == written, "a profile comes back from its file");
  const auto costs = CostTable::Create(profile->layers);
  Require(costs.ok(), "a profile's layers have costs");
  const RangeCost all = costs->Price(0, costs->layer_count(), Recompute::kNone);
  Require(all.parameter_bytes >= 0 && all.activation_bytes >= 0, "sums do not overflow");
}

void TryAlgorithms(absl::string_view text) {
  const auto algorithms = ParseAlgorithms(text, kFuzzedFile);
  if (!algorithms.ok()) return RequireRefusal(algorithms.status());
  const auto again = ParseAlgorithms(FormatAlgorithms(*algorithms), kFuzzedFile);
  Require(again.ok() && *again == *algorithms, "algorithms come back from their own text");
  for (const ProductAlgorithm& product : algorithms->products) {
    Require(product.shape.m > 0 && product.shape.k > 0 && product.shape.n > 0,
            "no matrix is empty");
  }
}

void TryDevice(absl::string_view text) {
  const auto device = ParseDevice(text, kFuzzedFile);
  if (!device.ok()) return RequireRefusal(device.status());
  for (const double rate : {device->fp32_flops, device->bf16_flops, device->memory_bandwidth}) {
    Require(rate > 0 && std::isfinite(rate), "a rate is positive");
  }
  Require(device->memory_bytes >= 0, "memory is a count");
  Require(device->link.bandwidth > 0 && device->link.latency >= 0, "a link makes sense");
}

void TryCluster(absl::string_view text) {
  const auto cluster = ParseCluster(text, kFuzzedFile);
  if (!cluster.ok()) return RequireRefusal(cluster.status());
  Require(cluster->devices.size() == cluster->counts.size() && cluster->device_count() >= 1,
          "every kind of device is counted");
  Parallel parallel;
  parallel.data = cluster->device_count() > 1 ? 2 : 1;
  const int ranks = cluster->device_count() / parallel.data;
  Require(MakesSense(GroupLink(*cluster, cluster->device_count(), 1)), "collectives have a link");
  for (const int rank : {0, ranks / 2, ranks - 1}) {
    Require(MakesSense(RankLink(*cluster, parallel, rank, (rank + 1) % ranks)),
            "ranks have a link");
  }
  const std::string written = FormatCluster(*cluster);
  const auto again = ParseCluster(written, kFuzzedFile);
  Require(again.ok() && FormatCluster(*again) == written, "a cluster comes back from its file");
}

void TryMeasuredSteps(absl::string_view text) {
  const auto steps = ParseMeasuredSteps(text, kFuzzedFile);
  if (!steps.ok()) return RequireRefusal(steps.status());
  Require(!steps->empty(), "a table has measurements");
  for (size_t i = 0; i < std::min(steps->size(), kMostRows); ++i) {
    const MeasuredStep& step = (*steps)[i];
    Require(step.micro_batches() >= 1 &&
                step.micro_batches() * step.micro_batch * step.parallel.data == step.global_batch,
            "a step is whole micro-batches");
    Require(step.seconds > 0 && std::isfinite(step.seconds), "a step takes a time");
    PriceStep(step);
  }
}

void TryPlan(absl::string_view text) {
  const auto plan = ParsePlan(text, kFuzzedFile);
  if (!plan.ok()) return RequireRefusal(plan.status());
  const Partition& partition = plan->assignment.partition;
  Require(plan->branches == partition.empty(), "only a graph with branches has no partition");
  Require(plan->layer_count() >= static_cast<int>(partition.size()), "no stage is empty");
  const auto again = ParsePartition(FormatPartition(partition), plan->layer_count());
  Require(plan->branches || (again.ok() && *again == partition), "a plan's stages are a partition");
  Require(plan->micro_batch_size * plan->seq >= 1, "a micro-batch has a size");
}

void TryPartition(absl::string_view text) {
  const auto partition = ParsePartition(text, kLayers);
  if (!partition.ok()) {
    return Require(partition.status().code() == absl::StatusCode::kInvalidArgument,
                   "bad input is InvalidArgument");
  }
  const auto again = ParsePartition(FormatPartition(*partition), kLayers);
  Require(again.ok() && *again == *partition, "a partition comes back from its text");
}

}  // namespace sluice
