#include "tools/layer_timing.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "comm/in_process.h"
#include "models/kernels/kernels.h"
#include "models/layer.h"
#include "pipeline/arena.h"
#include "pipeline/memory_plan.h"
#include "pipeline/rank_threads.h"
#include "tools/stopwatch.h"

namespace sluice {
namespace {

constexpr uint64_t kSeed = 1;
// Of a step: the optimizer fills the caches with its own state, so it must not come too often.
constexpr int kMicroBatches = 4;

int64_t BytesOf(const Shape& shape, DType dtype) { return ElementCount(shape) * SizeOf(dtype); }

// Values as activations have them: neither zeros, which some processors multiply faster, nor
// anything that overflows.
void FillActivations(DType dtype, int64_t elements, int vocabulary, void* data) {
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

// Tensors that live only within a layer's F or its B: all layers of a stage use the same memory for
// them, as in training, and find it in the cache.
bool IsBrief(const TensorDecl& tensor) {
  return tensor.lifetime != Lifetime::kForwardToInputGrad &&
         tensor.lifetime != Lifetime::kForwardToWeightGrad;
}

int64_t BriefBytes(const LayerDecl& decl) {
  int64_t bytes = 0;
  for (const TensorDecl& tensor : decl.tensors) {
    if (IsBrief(tensor)) bytes += AlignUp(tensor.bytes());
  }
  return bytes;
}

// Where everything of one layer and micro-batch lies in an arena, but for what is brief: that lies
// in another one.
struct Offsets {
  explicit Offsets(const LayerDecl& decl, const BatchShape& batch) {
    int64_t brief = 0;
    for (const TensorDecl& tensor : decl.tensors) {
      tensors.push_back(IsBrief(tensor) ? brief : Take(tensor.bytes()));
      const bool waits = tensor.lifetime == Lifetime::kInputGradToWeightGrad;
      apart.push_back(waits ? Take(tensor.bytes()) : kNotApart);
      if (IsBrief(tensor)) brief += AlignUp(tensor.bytes());
    }
    for (const ParameterDecl& parameter : decl.parameters) {
      parameters.push_back(Take(BytesOf(parameter.shape, DType::kFloat32)));
      gradients.push_back(Take(BytesOf(parameter.shape, DType::kFloat32)));
    }
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
  std::vector<int64_t> tensors, parameters, gradients;
  std::vector<int64_t> apart;  // [tensor] its place where W is run apart from I
  int64_t packed = 0, input = 0, input_grad = 0, output = 0, output_grad = 0, targets = 0;
};

// A layer with all the memory of one micro-batch.
class Bench {
 public:
  // `brief` has room for BriefBytes() and must outlive the bench.
  static absl::StatusOr<std::unique_ptr<Bench>> Create(std::unique_ptr<Layer> layer,
                                                       const BatchShape& batch, int vocabulary,
                                                       const Arena& brief) {
    const Offsets offsets(layer->decl(), batch);
    absl::StatusOr<Arena> arena = Arena::Allocate(CpuDevice(), offsets.bytes);
    if (!arena.ok()) return arena.status();
    auto bench = std::unique_ptr<Bench>(new Bench(std::move(layer), *std::move(arena)));
    bench->BindWeights(offsets, brief);
    bench->BindBoundary(offsets, batch, vocabulary);
    bench->layer_->Pack(bench->call_);
    return bench;
  }

  // Takes its input from the layer before, and gives it the gradient: what one layer has just
  // written is in the cache when the next one reads it.
  void Follow(Bench* before) {
    call_.input = before->call_.output;
    before->call_.output_grad = call_.input_grad;
  }

  void Forward() {
    forward_.push_back(SecondsOf([&] { layer_->Forward(call_); }));
  }
  void Backward() {
    restore_.push_back(SecondsOf([&] { layer_->Restore(call_); }));
    input_grad_.push_back(SecondsOf([&] { layer_->BackwardInput(call_); }));
    weight_grad_.push_back(SecondsOf([&] { layer_->BackwardWeight(call_); }));
  }
  // As Backward, with other layers' between the two.
  void InputGradApart() {
    layer_->Restore(call_);
    apart_input_grad_.push_back(SecondsOf([&] { layer_->BackwardInput(Apart()); }));
  }
  void WeightGradApart() {
    apart_weight_grad_.push_back(SecondsOf([&] { layer_->BackwardWeight(Apart()); }));
  }
  void EndStep() {
    update_.push_back(SecondsOf([&] { Update(); }));
  }
  void Forget() {
    for (std::vector<double>* times : {&forward_, &restore_, &input_grad_, &weight_grad_,
                                       &apart_input_grad_, &apart_weight_grad_, &update_}) {
      times->clear();
    }
  }
  LayerTimings Summary() const {
    return {.forward = Summarise(forward_),
            .input_grad = Summarise(input_grad_),
            .weight_grad = Summarise(weight_grad_),
            .restore = Summarise(restore_),
            .apart_input_grad = Summarise(apart_input_grad_),
            .apart_weight_grad = Summarise(apart_weight_grad_),
            .update = Summarise(update_)};
  }

 private:
  Bench(std::unique_ptr<Layer> layer, Arena arena)
      : layer_(std::move(layer)), arena_(std::move(arena)) {}

  LayerCall Apart() const {
    LayerCall call = call_;
    call.tensors = apart_tensors_;
    return call;
  }

  // What a step does to this layer at its end, with a learning rate that leaves the weights alone.
  void Update() {
    const Kernels& kernels = CpuKernels();
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const OptimizerTensor tensor = {.n = ElementCount(layer_->decl().parameters[i].shape),
                                      .weight = parameters_[i],
                                      .gradient = gradients_[i],
                                      .moment1 = moments1_[i].data(),
                                      .moment2 = moments2_[i].data()};
      squares_.resize(static_cast<size_t>(tensor.n / kSquaresBlock + 1));
      kernels.block_squares({}, tensor.n, tensor.gradient, squares_.data());
      kernels.adamw({}, AdamWStep(), {&tensor, 1});
    }
    layer_->Pack(call_);
  }

  void BindWeights(const Offsets& offsets, const Arena& brief) {
    for (size_t i = 0; i < offsets.tensors.size(); ++i) {
      const Arena& arena = IsBrief(layer_->decl().tensors[i]) ? brief : arena_;
      tensors_.push_back(arena.at(offsets.tensors[i]));
      const bool waits = offsets.apart[i] != Offsets::kNotApart;
      apart_tensors_.push_back(waits ? arena_.at(offsets.apart[i]) : tensors_.back());
    }
    for (size_t i = 0; i < offsets.parameters.size(); ++i) {
      parameters_.push_back(arena_.at<float>(offsets.parameters[i]));
      gradients_.push_back(arena_.at<float>(offsets.gradients[i]));
      InitializeParameter(layer_->decl().parameters[i], kSeed, parameters_.back());
      const auto count = static_cast<size_t>(ElementCount(layer_->decl().parameters[i].shape));
      moments1_.emplace_back(count);
      moments2_.emplace_back(count);
    }
    call_.tensors = tensors_;
    call_.parameters = parameters_;
    call_.gradients = gradients_;
    call_.packed = arena_.at(offsets.packed);
  }

  void BindBoundary(const Offsets& offsets, const BatchShape& batch, int vocabulary) {
    const LayerDecl& decl = layer_->decl();
    call_.input = arena_.at(offsets.input);
    call_.input_grad = arena_.at(offsets.input_grad);
    FillActivations(decl.input_dtype, ElementCount(decl.input_shape), vocabulary,
                    arena_.at(offsets.input));
    if (decl.output_shape.empty()) {
      FillActivations(DType::kInt32, batch.rows(), vocabulary, arena_.at(offsets.targets));
      call_.targets = arena_.at<int32_t>(offsets.targets);
      call_.loss = &loss_;
      call_.correct = &correct_;
      call_.loss_scale = 1.0f / static_cast<float>(batch.rows());
      return;
    }
    call_.output = arena_.at(offsets.output);
    call_.output_grad = arena_.at(offsets.output_grad);
    FillActivations(decl.output_dtype, ElementCount(decl.output_shape), vocabulary,
                    arena_.at(offsets.output_grad));
  }

  std::unique_ptr<Layer> layer_;
  Arena arena_;
  std::vector<void*> tensors_, apart_tensors_;
  std::vector<float*> parameters_, gradients_;
  std::vector<std::vector<float>> moments1_, moments2_;
  LayerCall call_;
  std::vector<double> squares_;  // of the gradients' blocks
  std::vector<double> forward_, restore_, input_grad_, weight_grad_, update_;  // seconds
  std::vector<double> apart_input_grad_, apart_weight_grad_;
  double loss_ = 0;
  int64_t correct_ = 0;
};

int VocabularyOf(const ModelSpec& spec) {
  return spec.gpt() != nullptr ? spec.gpt()->vocab : spec.mlp()->widths.back();
}

// One stage of a pipeline: consecutive layers, each handing on what it makes.
struct Stage {
  std::unique_ptr<Arena> brief;
  std::vector<std::unique_ptr<Bench>> layers;
};

absl::StatusOr<Stage> MakeStage(const ModelSpec& spec, const BatchShape& batch, DType dtype,
                                int first, int end) {
  std::vector<std::unique_ptr<Layer>> layers;
  int64_t brief_bytes = 0;
  for (int index = first; index < end; ++index) {
    absl::StatusOr<std::unique_ptr<Layer>> layer =
        MakeLayer(spec, index, batch, dtype, CpuKernels());
    if (!layer.ok()) return layer.status();
    brief_bytes = std::max(brief_bytes, BriefBytes((*layer)->decl()));
    layers.push_back(*std::move(layer));
  }
  absl::StatusOr<Arena> brief = Arena::Allocate(CpuDevice(), brief_bytes);
  if (!brief.ok()) return brief.status();
  Stage stage;
  stage.brief = std::make_unique<Arena>(*std::move(brief));
  for (std::unique_ptr<Layer>& layer : layers) {
    absl::StatusOr<std::unique_ptr<Bench>> bench =
        Bench::Create(std::move(layer), batch, VocabularyOf(spec), *stage.brief);
    if (!bench.ok()) return bench.status();
    if (!stage.layers.empty()) (*bench)->Follow(stage.layers.back().get());
    stage.layers.push_back(*std::move(bench));
  }
  return stage;
}

void RunStep(const std::vector<std::unique_ptr<Bench>>& layers, bool apart) {
  for (int micro_batch = 0; micro_batch < kMicroBatches; ++micro_batch) {
    for (const auto& layer : layers) layer->Forward();
    for (size_t k = layers.size(); k-- > 0;) {
      if (apart) layers[k]->InputGradApart();
      if (!apart) layers[k]->Backward();
    }
    for (size_t k = layers.size(); k-- > 0 && apart;) layers[k]->WeightGradApart();
  }
  for (const auto& layer : layers) layer->EndStep();
}

// All stages start every step together. Every second step runs W apart from I, as zero-bubble
// schedules do: the gradients that W needs, brief in a B, then wait in memory of their own.
absl::Status RunStage(const Stage& stage, int repetitions, Communicator& others) {
  const std::vector<std::unique_ptr<Bench>>& layers = stage.layers;
  for (int i = 0; i <= 2 * repetitions; ++i) {
    if (absl::Status status = others.Barrier(absl::InfiniteFuture()); !status.ok()) return status;
    RunStep(layers, /*apart=*/i % 2 == 1);
    if (i > 0) continue;  // the first step warms up
    for (const auto& layer : layers) layer->Forget();
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<LayerTimings>> TimeLayers(const ModelSpec& spec, const BatchShape& batch,
                                                     DType dtype, int stages, int repetitions) {
  const int count = spec.layer_count();
  if (stages < 1 || stages > count) {
    return absl::InvalidArgumentError(
        absl::StrCat("stages must be 1 to ", count, ", the number of layers, not ", stages));
  }
  std::vector<Stage> pipeline;
  for (int s = 0; s < stages; ++s) {
    absl::StatusOr<Stage> stage =
        MakeStage(spec, batch, dtype, count * s / stages, count * (s + 1) / stages);
    if (!stage.ok()) return stage.status();
    pipeline.push_back(*std::move(stage));
  }
  InProcessGroup group(stages);
  const absl::Status ran =
      RunRanks(group, stages, RankThreadOptions(), [&](int rank, Communicator& others) {
        return RunStage(pipeline[static_cast<size_t>(rank)], repetitions, others);
      });
  if (!ran.ok()) return ran;
  std::vector<LayerTimings> timings;
  for (const Stage& stage : pipeline) {
    for (const auto& layer : stage.layers) timings.push_back(layer->Summary());
  }
  return timings;
}

}  // namespace sluice
