#include "partitioner/costs/decoder_cost.h"

#include <algorithm>

#include "models/spec/costs/decoder_layer.h"
#include "models/spec/costs/describe_decoder.h"
#include "partitioner/costs/collectives.h"

namespace sluice {
namespace {

constexpr int64_t kFp32 = SizeOf(DType::kFloat32);
// Products of the backward of a product of activations, for one of the forward.
constexpr double kProductBackward = 2;
constexpr double kFlashBackward = 2.5;

// What a rank holds of a head's table, of which DescribeDecoder counts a tied one in the embedding.
struct Table {
  int64_t trained = 0, frozen = 0;  // parameters
};
Table TiedTable(DecoderConfig config, const DecoderTraining& training,
                const DecoderKernels& kernels, const DecoderLayer& tied) {
  config.tied_head = false;
  const DecoderLayer whole =
      DescribeDecoder(config, training.batch, training.dtype, kernels, training.trained).back();
  return {whole.trained_parameters() - tied.trained_parameters(),
          whole.frozen_parameters - tied.frozen_parameters};
}

// Prices the layers of one rank.
class RankPricer {
 public:
  RankPricer(const DecoderTraining& training, const Parallel& parallel, const ClusterSpec& cluster,
             const DeviceSpec& device)
      : training_(training),
        parallel_(parallel),
        device_(device),
        tensor_link_(GroupLink(cluster, parallel.tensor, 1)),
        data_link_(GroupLink(cluster, parallel.data, parallel.tensor)),
        element_(static_cast<double>(SizeOf(training.dtype))) {}

  LayerCost Price(const DecoderLayer& layer, double dim) const {
    LayerCost cost;
    cost.name = layer.spec.name;
    SetBytes(layer, &cost);
    SetSeconds(layer, dim, &cost);
    SetTail(layer, &cost);
    return cost;
  }

  // Gives a head the table that it shares with the embedding.
  void Tie(const Table& table, LayerCost* head) const {
    head->tied_bytes = Held(table.trained) + Frozen(table.frozen);
    head->parameter_bytes += head->tied_bytes;
    head->tied_update_seconds =
        UpdateSeconds(table.trained) + (SyncSeconds(head->parameters + table.trained, *head) -
                                        SyncSeconds(head->parameters, *head));
    head->update_seconds += head->tied_update_seconds;
    head->tied_gradient_bytes = table.trained * kFp32;
  }

 private:
  bool copies_weights() const { return training_.dtype != DType::kFloat32; }
  bool splits_weights() const {
    return copies_weights() && training_.master_weights == MasterWeights::kSplit;
  }

  // What is held all the time of so many parameters.
  int64_t Held(int64_t parameters) const {
    const int64_t weights = copies_weights() ? SizeOf(training_.dtype) : kFp32;
    const int64_t state = kFp32 * training_.state_copies;
    const int64_t optimizer = state + (splits_weights()   ? kFp32 - weights
                                       : copies_weights() ? kFp32
                                                          : 0);
    const auto held = [&](int64_t bytes, int level) {
      const int64_t parts = parallel_.zero >= level ? parallel_.data : 1;
      return (parameters * bytes + parts - 1) / parts;
    };
    return parameters * weights + held(optimizer, 1) + held(kFp32, 2);
  }

  int64_t Frozen(int64_t parameters) const { return parameters * SizeOf(training_.base_dtype); }

  void SetBytes(const DecoderLayer& layer, LayerCost* cost) const {
    cost->parameters = layer.trained_parameters();
    if (splits_weights()) cost->split_parameters = cost->parameters;
    cost->parameter_bytes = Held(cost->parameters) + Frozen(layer.frozen_parameters);
    cost->saved_bytes[0] = layer.saved_bytes();
    cost->saved_bytes[1] = layer.saved_bytes() - layer.rebuilt_bytes();
    cost->weight_grad_bytes = layer.weight_grad_bytes;
    cost->output_bytes = layer.spec.output_elements * SizeOf(training_.dtype) / parallel_.tensor;
    cost->workspace_bytes = layer.workspace_bytes;
    cost->forward_workspace_bytes = layer.forward_workspace_bytes;
  }

  double Kernels(size_t count) const {
    return static_cast<double>(count) * device_.kernel_overhead;
  }
  // Written once and read once.
  double Traffic(int64_t bytes) const {
    return device_.MemorySeconds(2 * static_cast<double>(bytes));
  }
  double Sums(int count, double dim) const {
    const double bytes = static_cast<double>(training_.batch.rows()) * dim * element_;
    return count * CollectiveSeconds(Collective::kAllReduce, bytes, parallel_.tensor, tensor_link_);
  }

  double Passes(int count, const AdapterPasses& passes) const {
    const double bytes = static_cast<double>(passes.elements) * element_;
    return count * CollectiveSeconds(Collective::kAllGather, bytes, parallel_.tensor, tensor_link_);
  }

  // Of what W of a layer reads that is trained whole.
  static double WeightGradShare(const DecoderLayer& layer) {
    if (layer.whole_weight_grad_bytes == 0) return 1;
    return static_cast<double>(layer.weight_grad_bytes) /
           static_cast<double>(layer.whole_weight_grad_bytes);
  }

  struct Products {
    double forward = 0, input_grad = 0, weight_grad = 0, attention = 0;  // seconds
    size_t count = 0, with_weights = 0;
    double weights = 0;  // elements
  };
  Products SumProducts(const DecoderLayer& layer) const {
    const double backward = training_.kernels.flash_attention ? kFlashBackward : kProductBackward;
    Products sum;
    const auto seconds = [&](const MatrixProduct& product, double rows, double out, double in) {
      return product.count * device_.ProductSeconds(training_.dtype, rows, out, in);
    };
    for (const MatrixProduct& product : layer.products) {
      const double forward = seconds(product, product.rows, product.out, product.in);
      ++sum.count;
      sum.forward += forward;
      if (!product.weights) {
        sum.attention += forward;
        sum.input_grad += backward * forward;
        continue;
      }
      (product.in_blocks ? sum.forward : sum.input_grad) +=
          seconds(product, product.rows, product.in, product.out);
      if (!product.trained) continue;
      ++sum.with_weights;
      if (product.in_blocks) sum.weight_grad += forward;
      sum.weight_grad += seconds(product, product.in, product.out, product.rows);
      sum.weights += product.count * product.in * product.out;
    }
    return sum;
  }

  void SetSeconds(const DecoderLayer& layer, double dim, LayerCost* cost) const {
    const Products products = SumProducts(layer);
    const double kernels = Kernels(products.count + layer.saved.size());
    const double traffic = Traffic(layer.seen_bytes());
    const auto gradients = 2 * static_cast<double>(kFp32) * products.weights;
    const AdapterPasses& passes = layer.adapter_passes;
    cost->forward_seconds = products.forward + traffic + kernels + Sums(layer.forward_sums, dim) +
                            Passes(passes.forward, passes);
    if (products.count > 0) {  // nothing asks for the gradient of tokens
      cost->input_grad_seconds = products.input_grad + traffic + kernels +
                                 Sums(layer.input_grad_sums, dim) +
                                 Passes(passes.input_grad, passes);
    }
    if (layer.trained_parameters() > 0) {
      cost->weight_grad_seconds = products.weight_grad + Kernels(products.with_weights) +
                                  device_.MemorySeconds(gradients) +
                                  traffic / 2 * WeightGradShare(layer);
    }
    if (layer.rebuilt_bytes() == 0) return;
    const auto rebuilt = static_cast<size_t>(
        std::count_if(layer.saved.begin(), layer.saved.end(),
                      [](const SavedTensor& tensor) { return tensor.kept && tensor.rebuilt; }));
    cost->restore_seconds = products.attention + Traffic(layer.rebuilt_bytes()) + Kernels(rebuilt);
  }

  // Gradients are cleared; gradient, master weight and state are read; weight, state and the
  // weight to compute with are written.
  double UpdateSeconds(int64_t parameters) const {
    const int parts = parallel_.zero >= 1 ? parallel_.data : 1;
    const double weight = copies_weights() && !splits_weights() ? element_ : 0;
    const auto moved = static_cast<double>(kFp32 * (4 + 2 * training_.state_copies)) + weight;
    return device_.MemorySeconds(static_cast<double>(parameters) * moved / parts);
  }

  // What replicas do about the gradients of so many parameters of a layer, beside its backward.
  double SyncSeconds(int64_t parameters, const LayerCost& cost) const {
    if (parameters == 0) return 0;
    const auto sum = [&](Collective collective, double bytes) {
      return CollectiveSeconds(collective, static_cast<double>(parameters) * bytes, parallel_.data,
                               data_link_);
    };
    const auto fp32 = static_cast<double>(kFp32);
    const double sync = parallel_.zero == 0 ? sum(Collective::kAllReduce, fp32)
                                            : sum(Collective::kReduceScatter, fp32) +
                                                  sum(Collective::kAllGather, element_);
    if (!training_.overlap_sync) return sync;
    return std::max(0.0, sync - cost.input_grad_seconds - cost.weight_grad_seconds);
  }

  void SetTail(const DecoderLayer& layer, LayerCost* cost) const {
    cost->update_seconds = UpdateSeconds(cost->parameters);
    cost->sync_seconds = SyncSeconds(cost->parameters, *cost);
    const auto sliced = static_cast<double>(layer.sliced_adapter_parameters);
    if (sliced == 0) return;
    cost->sync_seconds +=
        CollectiveSeconds(Collective::kAllReduce, sliced * static_cast<double>(kFp32),
                          parallel_.tensor, tensor_link_);
  }

  const DecoderTraining& training_;
  const Parallel& parallel_;
  const DeviceSpec& device_;
  Link tensor_link_, data_link_;
  double element_;
};

}  // namespace

std::vector<LayerCost> DecoderCosts(const DecoderConfig& config, const DecoderTraining& training,
                                    const Parallel& parallel, const ClusterSpec& cluster,
                                    int kind) {
  DecoderKernels kernels = training.kernels;
  kernels.tensor = parallel.tensor;
  kernels.sequence = parallel.sequence;
  const RankPricer pricer(training, parallel, cluster, cluster.devices[kind]);
  const int64_t input_parts = parallel.sequence ? parallel.tensor : 1;
  const std::vector<DecoderLayer> layers =
      DescribeDecoder(config, training.batch, training.dtype, kernels, training.trained);
  int64_t input = 0;  // bytes that full recomputation keeps
  std::vector<LayerCost> costs;
  for (const DecoderLayer& layer : layers) {
    LayerCost cost = pricer.Price(layer, static_cast<double>(config.dim));
    cost.saved_bytes[2] = input;
    input = layer.spec.output_elements * SizeOf(training.dtype) / input_parts;
    costs.push_back(std::move(cost));
  }
  if (config.tied_head) {
    pricer.Tie(TiedTable(config, training, kernels, layers.back()), &costs.back());
  }
  return costs;
}

std::vector<LayerCost> DecoderCosts(const DecoderConfig& config, const BatchShape& batch,
                                    DType dtype, int state_copies, const DeviceSpec& device) {
  DecoderTraining training;
  training.batch = batch;
  training.dtype = dtype;
  training.state_copies = state_copies;
  return DecoderCosts(config, training, {}, UniformCluster(device, 1));
}

}  // namespace sluice
