#include "partitioner/planning/profiling/layer_bench.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "pipeline/compile/memory/memory_plan.h"

namespace sluice {
namespace {

constexpr uint64_t kSeed = 1;

int64_t BytesOf(const Shape& shape, DType dtype) { return ElementCount(shape) * SizeOf(dtype); }

bool IsBrief(const TensorDecl& tensor) {
  return tensor.lifetime != Lifetime::kForwardToInputGrad &&
         tensor.lifetime != Lifetime::kForwardToWeightGrad;
}

// Values as activations have them: neither zeros, which some processors multiply faster, nor
// anything that overflows.
void Draw(DType dtype, int64_t elements, int vocabulary, void* data) {
  std::mt19937 random(kSeed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int64_t i = 0; i < elements; ++i) {
    if (dtype == DType::kInt32) {
      static_cast<int32_t*>(data)[i] =
          static_cast<int32_t>(random() % static_cast<unsigned>(vocabulary));
      continue;
    }
    const float value = uniform(random);
    if (dtype == DType::kFloat32) {
      static_cast<float*>(data)[i] = value;
    } else {
      uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof(bits));
      static_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(bits >> 16);
    }
  }
}

}  // namespace

int64_t BriefBytes(const LayerDecl& decl) {
  int64_t bytes = 0;
  for (const TensorDecl& tensor : decl.tensors) {
    if (IsBrief(tensor)) bytes += AlignUp(tensor.bytes());
  }
  return bytes;
}

// Where everything of one layer and micro-batch lies in an arena, but for what is brief: that lies
// in another one.
struct LayerBench::Offsets {
  explicit Offsets(const LayerDecl& decl, const BatchShape& batch) {
    int64_t brief = 0;
    for (const TensorDecl& tensor : decl.tensors) {
      tensors.push_back(IsBrief(tensor) ? brief : Take(tensor.bytes()));
      const bool waits = tensor.lifetime == Lifetime::kInputGradToWeightGrad;
      apart.push_back(waits ? Take(tensor.bytes()) : kNotApart);
      if (IsBrief(tensor)) brief += AlignUp(tensor.bytes());
    }
    int64_t blocks = 0;
    for (const ParameterDecl& parameter : decl.parameters) {
      const int64_t trained = TrainedElements(parameter);
      parameters.push_back(Take(parameter.stored_bytes()));
      for (std::vector<int64_t>* of : {&gradients, &moments1, &moments2})
        of->push_back(Take(trained * SizeOf(DType::kFloat32)));
      const int64_t tied = parameter.tied_to.empty() ? 0 : trained;
      other_gradients.push_back(Take(tied * SizeOf(DType::kFloat32)));
      low_halves.push_back(Take(parameter.low_half_bytes()));
      blocks += trained / kSquaresBlock + 1;
    }
    squares = Take(blocks * static_cast<int64_t>(sizeof(double)));
    packed = Take(static_cast<int64_t>(decl.packed_bytes));
    input = Take(BytesOf(decl.input_shape, decl.input_dtype));
    input_grad = Take(BytesOf(decl.input_shape, decl.input_dtype));
    if (decl.output_shape.empty()) {
      targets = Take(batch.rows() * SizeOf(DType::kInt32));
    } else {
      output = Take(BytesOf(decl.output_shape, decl.output_dtype));
      output_grad = Take(BytesOf(decl.output_shape, decl.output_dtype));
    }
  }
  int64_t Take(int64_t size) {
    const int64_t offset = bytes;
    bytes += AlignUp(size);
    return offset;
  }

  static constexpr int64_t kNotApart = -1;
  int64_t bytes = 0;
  std::vector<int64_t> tensors, parameters, gradients, moments1, moments2, low_halves;
  std::vector<int64_t> other_gradients;
  std::vector<int64_t> apart;  // [tensor] its place where W is run apart from I
  int64_t packed = 0, input = 0, input_grad = 0, output = 0, output_grad = 0, targets = 0;
  int64_t squares = 0;
};

absl::StatusOr<std::unique_ptr<LayerBench>> LayerBench::Create(
    std::unique_ptr<Layer> layer, const BatchShape& batch, int vocabulary, const BenchPlace& place,
    const Arena& brief, StreamStopwatch* stopwatch) {
  const Offsets offsets(layer->decl(), batch);
  absl::StatusOr<Arena> arena = Arena::Allocate(*place.device, offsets.bytes);
  if (!arena.ok()) return arena.status();
  absl::StatusOr<DeviceMemory> results =
      place.device->AllocateShared(sizeof(double) + sizeof(int64_t));
  if (!results.ok()) return results.status();
  std::unique_ptr<LayerBench> bench(
      new LayerBench(std::move(layer), place, *std::move(arena), *std::move(results), stopwatch));
  bench->call_.stream = place.stream;
  bench->BindWeights(offsets, brief);
  bench->BindBoundary(offsets, batch, vocabulary);
  bench->layer_->Pack(bench->call_);
  return bench;
}

void LayerBench::Follow(LayerBench* before) {
  call_.input = before->call_.output;
  before->call_.output_grad = call_.input_grad;
}

void LayerBench::Forward() {
  stopwatch_.Measure([this] { layer_->Forward(call_); }, &forward_);
}

void LayerBench::Backward() {
  stopwatch_.Measure([this] { layer_->Restore(call_); }, &restore_);
  stopwatch_.Measure([this] { layer_->BackwardInput(call_); }, &input_grad_);
  stopwatch_.Measure([this] { layer_->BackwardWeight(call_); }, &weight_grad_);
}

void LayerBench::InputGradApart() {
  layer_->Restore(call_);
  stopwatch_.Measure([this] { layer_->BackwardInput(Apart()); }, &apart_input_grad_);
}

void LayerBench::WeightGradApart() {
  stopwatch_.Measure([this] { layer_->BackwardWeight(Apart()); }, &apart_weight_grad_);
}

void LayerBench::EndStep() {
  if (TrainsTied()) {
    stopwatch_.Measure([this] { SumTied(); }, &tied_sum_);
    stopwatch_.Measure([this] { Update(/*tied=*/true); }, &tied_update_);
  }
  stopwatch_.Measure([this] { Update(/*tied=*/false); }, &own_update_);
}

void LayerBench::Forget() {
  for (std::vector<double>* times :
       {&forward_, &restore_, &input_grad_, &weight_grad_, &apart_input_grad_, &apart_weight_grad_,
        &own_update_, &tied_update_, &tied_sum_}) {
    times->clear();
  }
}

LayerTimings LayerBench::Summary() const {
  std::vector<double> update = own_update_;
  for (size_t i = 0; i < tied_update_.size(); ++i) update[i] += tied_update_[i];
  return {.forward = Summarise(forward_),
          .input_grad = Summarise(input_grad_),
          .weight_grad = Summarise(weight_grad_),
          .restore = Summarise(restore_),
          .apart_input_grad = Summarise(apart_input_grad_),
          .apart_weight_grad = Summarise(apart_weight_grad_),
          .update = Summarise(update),
          .tied_update = tied_update_.empty() ? Timing() : Summarise(tied_update_),
          .tied_sum = tied_sum_.empty() ? Timing() : Summarise(tied_sum_)};
}

LayerCall LayerBench::Apart() const {
  LayerCall call = call_;
  call.tensors = apart_tensors_;
  return call;
}

bool LayerBench::TrainsTied() const {
  const std::vector<ParameterDecl>& parameters = layer_->decl().parameters;
  return std::any_of(parameters.begin(), parameters.end(), [](const ParameterDecl& decl) {
    return !decl.frozen && !decl.tied_to.empty();
  });
}

// Adds to the gradients of weights that are another layer's, too, what that one has. Nothing here.
void LayerBench::SumTied() {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const ParameterDecl& decl = layer_->decl().parameters[i];
    if (decl.frozen || decl.tied_to.empty()) continue;
    const AddedTensor sum = {ElementCount(decl.shape), other_gradients_[i], gradients_[i]};
    place_.kernels->accumulate(place_.stream, {&sum, 1}, /*add=*/true);
  }
}

// What a step does at its end to those weights of this layer that are another layer's, too, or to
// its others; with a learning rate that leaves them alone.
void LayerBench::Update(bool tied) {
  const Kernels& kernels = *place_.kernels;
  std::vector<SquaredTensor> gradients;
  std::vector<OptimizerTensor> tensors;
  double* sums = squares_;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const ParameterDecl& decl = layer_->decl().parameters[i];
    if (decl.frozen || decl.tied_to.empty() == tied) continue;
    const int64_t n = ElementCount(decl.shape);
    gradients.push_back({.n = n, .values = gradients_[i], .sums = sums});
    tensors.push_back({.n = n,
                       .weight = parameters_[i],
                       .low_halves = low_halves_[i],
                       .gradient = gradients_[i],
                       .moment1 = moments1_[i],
                       .moment2 = moments2_[i]});
    sums += n / kSquaresBlock + 1;
  }
  kernels.block_squares(place_.stream, gradients);
  kernels.adamw(place_.stream, AdamWStep(), tensors);
  if (!tied) layer_->Pack(call_);
}

void LayerBench::BindWeights(const Offsets& offsets, const Arena& brief) {
  for (size_t i = 0; i < offsets.tensors.size(); ++i) {
    const Arena& arena = IsBrief(layer_->decl().tensors[i]) ? brief : arena_;
    tensors_.push_back(arena.at(offsets.tensors[i]));
    const bool waits = offsets.apart[i] != Offsets::kNotApart;
    apart_tensors_.push_back(waits ? arena_.at(offsets.apart[i]) : tensors_.back());
  }
  std::vector<std::byte> values;
  std::vector<uint16_t> low_halves;
  for (size_t i = 0; i < offsets.parameters.size(); ++i) {
    const ParameterDecl& decl = layer_->decl().parameters[i];
    parameters_.push_back(arena_.at(offsets.parameters[i]));
    gradients_.push_back(decl.frozen ? nullptr : arena_.at<float>(offsets.gradients[i]));
    other_gradients_.push_back(arena_.at<float>(offsets.other_gradients[i]));
    moments1_.push_back(arena_.at<float>(offsets.moments1[i]));
    moments2_.push_back(arena_.at<float>(offsets.moments2[i]));
    low_halves_.push_back(decl.is_split() ? arena_.at<uint16_t>(offsets.low_halves[i]) : nullptr);
    values.resize(static_cast<size_t>(decl.bytes()));
    low_halves.resize(decl.is_split() ? static_cast<size_t>(ElementCount(decl.shape)) : 0);
    InitializeParameter(decl, kSeed, values.data(),
                        {.values = low_halves.data(), .count = std::ssize(low_halves)});
    Upload(parameters_.back(), values.data(), decl.bytes());
    if (!decl.is_split()) continue;
    Upload(low_halves_.back(), low_halves.data(), decl.low_half_bytes());
  }
  squares_ = arena_.at<double>(offsets.squares);
  call_.tensors = tensors_;
  call_.parameters = parameters_;
  call_.gradients = gradients_;
  call_.packed = arena_.at(offsets.packed);
}

void LayerBench::BindBoundary(const Offsets& offsets, const BatchShape& batch, int vocabulary) {
  const LayerDecl& decl = layer_->decl();
  call_.input = arena_.at(offsets.input);
  call_.input_grad = arena_.at(offsets.input_grad);
  FillActivations(decl.input_dtype, ElementCount(decl.input_shape), vocabulary,
                  arena_.at(offsets.input));
  if (decl.output_shape.empty()) {
    FillActivations(DType::kInt32, batch.rows(), vocabulary, arena_.at(offsets.targets));
    call_.targets = arena_.at<int32_t>(offsets.targets);
    call_.loss = static_cast<double*>(static_cast<void*>(results_.data()));
    call_.correct = static_cast<int64_t*>(static_cast<void*>(results_.data() + sizeof(double)));
    call_.loss_scale = 1.0f / static_cast<float>(batch.rows());
    return;
  }
  call_.output = arena_.at(offsets.output);
  call_.output_grad = arena_.at(offsets.output_grad);
  FillActivations(decl.output_dtype, ElementCount(decl.output_shape), vocabulary,
                  arena_.at(offsets.output_grad));
}

void LayerBench::FillActivations(DType dtype, int64_t elements, int vocabulary, void* data) {
  const int64_t bytes = elements * SizeOf(dtype);
  const auto values = std::make_unique<std::byte[]>(static_cast<size_t>(bytes));
  Draw(dtype, elements, vocabulary, values.get());
  Upload(data, values.get(), bytes);
}

void LayerBench::Upload(void* to, const void* from, int64_t bytes) {
  place_.device->Copy(place_.stream, to, from, static_cast<size_t>(bytes));
}

}  // namespace sluice
