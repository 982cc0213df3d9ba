#include "tools/layer_timing.h"

#include <omp.h>

#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "models/layer.h"
#include "pipeline/arena.h"
#include "pipeline/memory_plan.h"
#include "tools/stopwatch.h"

namespace sluice {
namespace {

constexpr uint64_t kSeed = 1;

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

// A layer with all the memory of one micro-batch.
class Bench {
 public:
  static absl::StatusOr<std::unique_ptr<Bench>> Create(std::unique_ptr<Layer> layer,
                                                       const BatchShape& batch, int vocabulary) {
    const LayerDecl& decl = layer->decl();
    int64_t bytes = 0;
    const auto take = [&bytes](int64_t size) {
      const int64_t offset = bytes;
      bytes += AlignUp(size);
      return offset;
    };
    std::vector<int64_t> tensors, parameters, gradients;
    for (const TensorDecl& tensor : decl.tensors) tensors.push_back(take(tensor.bytes()));
    for (const ParameterDecl& parameter : decl.parameters) {
      parameters.push_back(take(BytesOf(parameter.shape, DType::kFloat32)));
      gradients.push_back(take(BytesOf(parameter.shape, DType::kFloat32)));
    }
    const int64_t packed = take(static_cast<int64_t>(decl.packed_bytes));
    const int64_t input_bytes = BytesOf(decl.input_shape, decl.input_dtype);
    const int64_t output_bytes =
        decl.output_shape.empty() ? 0 : BytesOf(decl.output_shape, decl.output_dtype);
    const int64_t input = take(input_bytes), input_grad = take(input_bytes);
    const int64_t output = take(output_bytes), output_grad = take(output_bytes);
    const int64_t targets = take(batch.rows() * SizeOf(DType::kInt32));

    absl::StatusOr<Arena> arena = Arena::Allocate(bytes);
    if (!arena.ok()) return arena.status();
    auto bench = std::unique_ptr<Bench>(new Bench(std::move(layer), *std::move(arena)));
    bench->Bind(tensors, parameters, gradients);
    LayerCall& call = bench->call_;
    call.packed = bench->arena_.at(packed);
    call.input = bench->arena_.at(input);
    call.input_grad = bench->arena_.at(input_grad);
    if (output_bytes > 0) {
      call.output = bench->arena_.at(output);
      call.output_grad = bench->arena_.at(output_grad);
      FillActivations(decl.output_dtype, ElementCount(decl.output_shape), vocabulary,
                      bench->arena_.at(output_grad));
    } else {
      FillActivations(DType::kInt32, batch.rows(), vocabulary, bench->arena_.at(targets));
      call.targets = bench->arena_.at<int32_t>(targets);
      call.loss = &bench->loss_;
      call.correct = &bench->correct_;
      call.loss_scale = 1.0f / static_cast<float>(batch.rows());
    }
    FillActivations(decl.input_dtype, ElementCount(decl.input_shape), vocabulary,
                    bench->arena_.at(input));
    bench->layer_->Pack(call);
    return bench;
  }

  LayerTimings Time(int repetitions) {
    Layer& layer = *layer_;
    std::vector<double> forward, restore, input_grad, weight_grad;
    for (int i = 0; i <= repetitions; ++i) {
      const double f = SecondsOf([&] { layer.Forward(call_); });
      const double r = SecondsOf([&] { layer.Restore(call_); });
      const double d = SecondsOf([&] { layer.BackwardInput(call_); });
      const double w = SecondsOf([&] { layer.BackwardWeight(call_); });
      if (i == 0) continue;  // the first one warms up
      forward.push_back(f);
      restore.push_back(r);
      input_grad.push_back(d);
      weight_grad.push_back(w);
    }
    return {Summarise(forward), Summarise(input_grad), Summarise(weight_grad), Summarise(restore)};
  }

 private:
  Bench(std::unique_ptr<Layer> layer, Arena arena)
      : layer_(std::move(layer)), arena_(std::move(arena)) {}

  void Bind(const std::vector<int64_t>& tensors, const std::vector<int64_t>& parameters,
            const std::vector<int64_t>& gradients) {
    for (int64_t offset : tensors) tensors_.push_back(arena_.at(offset));
    for (size_t i = 0; i < parameters.size(); ++i) {
      parameters_.push_back(arena_.at<float>(parameters[i]));
      gradients_.push_back(arena_.at<float>(gradients[i]));
      ParameterDecl source = layer_->decl().parameters[i];
      InitializeParameter(source, kSeed, parameters_.back());
    }
    call_.tensors = tensors_;
    call_.parameters = parameters_;
    call_.gradients = gradients_;
  }

  std::unique_ptr<Layer> layer_;
  Arena arena_;
  std::vector<void*> tensors_;
  std::vector<float*> parameters_, gradients_;
  LayerCall call_;
  double loss_ = 0;
  int64_t correct_ = 0;
};

int VocabularyOf(const ModelSpec& spec) {
  return spec.gpt() != nullptr ? spec.gpt()->vocab : spec.mlp()->widths.back();
}

}  // namespace

absl::StatusOr<LayerTimings> TimeLayer(const ModelSpec& spec, int index, const BatchShape& batch,
                                       DType dtype, int repetitions) {
  omp_set_num_threads(1);
  absl::StatusOr<std::unique_ptr<Layer>> layer = MakeLayer(spec, index, batch, dtype, CpuKernels());
  if (!layer.ok()) return layer.status();
  absl::StatusOr<std::unique_ptr<Bench>> bench =
      Bench::Create(*std::move(layer), batch, VocabularyOf(spec));
  if (!bench.ok()) return bench.status();
  return (*bench)->Time(repetitions);
}

}  // namespace sluice
