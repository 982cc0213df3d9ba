#include "partitioner/planning/roofline/step_launches.h"

#include <algorithm>
#include <memory>

#include "models/kernels/record/recorded_kernels.h"
#include "models/layers/layer.h"
#include "partitioner/planning/roofline/unused_addresses.h"

namespace sluice {
namespace {

constexpr int64_t kFloat = SizeOf(DType::kFloat32);

// `times`: how often `more` runs, which is one entry for each of its own.
void Append(const Launches& more, Launches* launches, int times = 1) {
  for (KernelLaunch launch : more) {
    launch.launches *= times;
    launch.flops *= times;
    launch.bytes *= times;
    launches->push_back(launch);
  }
}

int64_t BlockSums(int64_t n) { return (n + kSquaresBlock - 1) / kSquaresBlock; }

// Once per step, of some parameters: as GradientNorms (pipeline/run) and UpdateWeights
// (pipeline/state) call kernels.
class Update {
 public:
  explicit Update(OptimizerKind optimizer) : optimizer_(optimizer) {}

  void Add(const ParameterDecl& decl) {
    const int64_t n = TrainedElements(decl);
    if (n == 0) return;
    gradients_.push_back({.n = n});
    rows_.push_back({.n = BlockSums(n)});
    tensors_.push_back({.n = n});
  }
  void Run(const Kernels& kernels) const {
    kernels.block_squares({}, gradients_);
    // What was added up before goes to the device, and the sums come back.
    const size_t sums = 2 * rows_.size() * sizeof(double);
    kernels.copy({}, nullptr, nullptr, sums);
    kernels.add_in_groups({}, rows_);
    kernels.copy({}, nullptr, nullptr, sums);
    if (optimizer_ == OptimizerKind::kSgd) {
      kernels.sgd({}, {}, tensors_);
    } else {
      kernels.adamw({}, {}, tensors_);
    }
  }

 private:
  const OptimizerKind optimizer_;
  std::vector<SquaredTensor> gradients_;
  std::vector<GroupedSum> rows_;
  std::vector<OptimizerTensor> tensors_;
};

// A layer with an address for everything that a call may name.
class RecordedLayer {
 public:
  RecordedLayer(const LayerDecl& decl, const RecordedTraining& training) {
    const int64_t rows = training.batch.rows();
    UnusedAddresses addresses;
    for (const TensorDecl& tensor : decl.tensors)
      tensors_.push_back(addresses.Take(tensor.bytes()));
    for (const ParameterDecl& parameter : decl.parameters) {
      parameters_.push_back(addresses.Take(parameter.stored_bytes()));
      auto* const gradient = addresses.Take<float>(TrainedElements(parameter) * kFloat);
      gradients_.push_back(parameter.frozen ? nullptr : gradient);
    }
    const int64_t input = ElementCount(decl.input_shape) * SizeOf(decl.input_dtype);
    const int64_t output = ElementCount(decl.output_shape) * SizeOf(decl.output_dtype);
    call_.packed = addresses.Take(static_cast<int64_t>(decl.packed_bytes));
    call_.input = addresses.Take(input);
    call_.input_grad = addresses.Take(input);
    call_.output = addresses.Take(output);
    call_.output_grad = addresses.Take(output);
    call_.targets = addresses.Take<int32_t>(rows * SizeOf(DType::kInt32));
    if (training.documents) call_.starts = addresses.Take<int32_t>(rows * SizeOf(DType::kInt32));
    call_.first_row = 0;  // dropout drops
    call_.loss_scale = 1;
    call_.loss = addresses.Take<double>(sizeof(double));
    call_.correct = addresses.Take<int64_t>(sizeof(int64_t));
  }

  LayerCall Call(bool accumulate) const {
    LayerCall call = call_;
    call.tensors = tensors_;
    call.parameters = parameters_;
    call.gradients = gradients_;
    call.accumulate = accumulate;
    return call;
  }

 private:
  std::vector<void*> tensors_, parameters_;
  std::vector<float*> gradients_;
  LayerCall call_;
};

// W of a layer that is all frozen is no call at all.
void RecordWeightGrads(Layer& layer, const LayerCall& first, const LayerCall& later,
                       LaunchRecord* record, LayerLaunches* launches) {
  const auto trained = [](const ParameterDecl& parameter) { return !parameter.frozen; };
  const std::vector<ParameterDecl>& parameters = layer.decl().parameters;
  if (std::none_of(parameters.begin(), parameters.end(), trained)) return;
  layer.BackwardWeight(first);
  launches->first_weight_grad = record->Take();
  layer.BackwardWeight(later);
  launches->weight_grad = record->Take();
}

LayerLaunches RecordLayer(Layer& layer, const RecordedTraining& training, LaunchRecord* record) {
  const LayerDecl& decl = layer.decl();
  const RecordedLayer recorded(decl, training);
  const LayerCall first = recorded.Call(/*accumulate=*/false);
  const LayerCall later = recorded.Call(/*accumulate=*/true);
  LayerLaunches launches;
  launches.name = decl.name;
  layer.Forward(later);
  launches.forward = record->Take();
  layer.Restore(later);
  launches.restore = record->Take();
  LayerCall again = later;
  again.output = nullptr;
  layer.Forward(again);
  launches.forward_again = record->Take();
  layer.BackwardInput(later);
  launches.input_grad = record->Take();
  RecordWeightGrads(layer, first, later, record, &launches);
  Update update(training.optimizer), without_tied(training.optimizer);
  for (const ParameterDecl& parameter : decl.parameters) {
    update.Add(parameter);
    if (parameter.tied_to.empty()) without_tied.Add(parameter);
  }
  update.Run(RecordedKernels());
  launches.update = record->Take();
  without_tied.Run(RecordedKernels());
  launches.update_without_tied = record->Take();
  for (const ParameterDecl& parameter : decl.parameters) {
    if (parameter.tied_to.empty() || parameter.frozen) continue;
    const AddedTensor sum = {.n = TrainedElements(parameter)};
    RecordedKernels().accumulate({}, {&sum, 1}, /*add=*/true);
  }
  launches.sum_tied = record->Take();
  layer.Pack(later);
  launches.pack = record->Take();
  return launches;
}

}  // namespace

Launches LayerLaunches::OneMicroBatch() const {
  Launches all = forward;
  Append(input_grad, &all);
  Append(weight_grad, &all);
  return all;
}

Launches StepLaunches::Step(int micro_batches, Recompute recompute) const {
  Launches step;
  Append(batch, &step, micro_batches);
  for (const LayerLaunches& layer : layers) {
    Append(layer.forward, &step, micro_batches);
    if (recompute == Recompute::kSelective) Append(layer.restore, &step, micro_batches);
    if (recompute == Recompute::kFull) Append(layer.forward_again, &step, micro_batches);
    Append(layer.input_grad, &step, micro_batches);
    Append(layer.first_weight_grad, &step);
    if (micro_batches > 1) Append(layer.weight_grad, &step, micro_batches - 1);
  }
  Append(end, &step);
  return step;
}

absl::Status CheckOnGpus(const std::optional<MasterWeights>& weights, CudaAttention attention,
                         bool documents) {
  if (weights == MasterWeights::kWhole) {
    return absl::InvalidArgumentError(
        "--master-weights whole is a choice that processors have; sluice runs GPUs with split "
        "ones");
  }
  if (attention != CudaAttention::kCudnn || !documents) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--attention cudnn does not keep the documents of a packed sample apart; leave one of it and "
      "--pack out");
}

absl::StatusOr<StepLaunches> RecordStep(const ModelSpec& spec, const RecordedTraining& training) {
  const Kernels& kernels = RecordedKernels(training.attention);
  LaunchRecord record;
  StepLaunches step;
  Update update(training.optimizer);
  Launches tied;
  for (int i = 0; i < spec.layer_count(); ++i) {
    const absl::StatusOr<std::unique_ptr<Layer>> layer =
        MakeLayer(spec, i, training.batch, DType::kBFloat16, kernels, training.adaptation);
    if (!layer.ok()) return layer.status();
    step.layers.push_back(RecordLayer(**layer, training, &record));
    for (const ParameterDecl& parameter : (*layer)->decl().parameters) {
      // A tied one is updated as the one that it equals.
      if (parameter.tied_to.empty()) update.Add(parameter);
    }
    Append(step.layers.back().sum_tied, &tied);
  }
  // Tokens and targets, and where documents begin.
  for (int tensors = training.documents ? 3 : 2; tensors > 0; --tensors) {
    kernels.copy({}, nullptr, nullptr,
                 static_cast<size_t>(training.batch.rows() * SizeOf(DType::kInt32)));
  }
  step.batch = record.Take();
  update.Run(kernels);
  step.end = tied;
  Append(record.Take(), &step.end);
  for (const LayerLaunches& layer : step.layers) Append(layer.pack, &step.end);
  return step;
}

}  // namespace sluice
