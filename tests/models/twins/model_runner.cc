#include "tests/models/twins/model_runner.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "tests/models/twins/reference_kernels.h"

namespace sluice {
namespace {

int64_t InputWidth(const ModelSpec& spec) {
  return spec.decoder() ? 1 : spec.mlp()->widths.front();
}

std::vector<int32_t> RandomIds(int64_t count, int classes, std::mt19937_64& random) {
  std::uniform_int_distribution<int32_t> id(0, classes - 1);
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& value : ids) value = id(random);
  return ids;
}

std::vector<std::byte> RandomValues(int64_t count, DType dtype, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::vector<std::byte> values(static_cast<size_t>(count * SizeOf(dtype)));
  for (int64_t i = 0; i < count; ++i) reference::Set(dtype, values.data(), i, normal(random));
  return values;
}

std::vector<std::byte> BytesOf(const std::vector<int32_t>& ids) {
  const auto* bytes = reinterpret_cast<const std::byte*>(ids.data());
  return {bytes, bytes + ids.size() * sizeof(int32_t)};
}

}  // namespace

std::vector<MicroBatch> RandomMicroBatches(const ModelSpec& spec, const BatchShape& batch,
                                           DType dtype, int count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<MicroBatch> micro_batches(static_cast<size_t>(count));
  for (MicroBatch& micro_batch : micro_batches) {
    const int64_t values = batch.rows() * InputWidth(spec);
    micro_batch.input = spec.decoder() ? BytesOf(RandomIds(values, spec.classes(), random))
                                       : RandomValues(values, dtype, random);
    micro_batch.targets = RandomIds(batch.rows(), spec.classes(), random);
  }
  return micro_batches;
}

ModelRunner::ModelRunner(const ModelSpec& spec, const BatchShape& batch, DType dtype,
                         const Kernels& kernels, uint64_t seed, const Adaptation& adaptation)
    : spec_(spec), batch_(batch), dtype_(dtype) {
  const auto init = [seed](const ParameterDecl& parameter, void* values) {
    InitializeParameter(parameter, seed, values);
  };
  for (int index = 0; index < spec.layer_count(); ++index) {
    auto layer = MakeLayer(spec, index, batch, dtype, kernels, adaptation);
    if (!layer.ok()) {
      std::fprintf(stderr, "%s\n", layer.status().ToString().c_str());
      std::abort();
    }
    layers_.emplace_back(*std::move(layer), init);
  }
}

void ModelRunner::Pack() {
  for (LayerRunner& layer : layers_) layer.Pack();
}

std::pair<OwnBuffer*, const ParameterDecl*> ModelRunner::Find(const std::string& name) {
  for (LayerRunner& layer : layers_) {
    for (size_t i = 0; i < layer.parameters().size(); ++i) {
      const ParameterDecl& decl = layer.decl().parameters[i];
      if (decl.name == name) return {&layer.parameters()[i], &decl};
    }
  }
  std::fprintf(stderr, "no parameter '%s'\n", name.c_str());
  std::abort();
}

absl::Span<float> ModelRunner::parameter(const std::string& name) {
  const auto [values, decl] = Find(name);
  return {values->floats(), static_cast<size_t>(ElementCount(decl->shape))};
}

void ModelRunner::SetParameter(const std::string& name, absl::Span<const float> values) {
  const auto [place, decl] = Find(name);
  if (decl->dtype == DType::kFloat32) {
    std::copy(values.begin(), values.end(), place->floats());
    return;
  }
  SplitFloats(0, static_cast<int64_t>(values.size()), values.data(),
              static_cast<uint16_t*>(place->data()), {});
}

// boundaries[l] is the input of layer l; after them come the gradients of the inputs of layers 1,
// 2, ....
std::unique_ptr<ModelRunner::Flight> ModelRunner::MakeFlight(const MicroBatch& micro_batch) {
  auto flight = std::make_unique<Flight>();
  flight->micro_batch = &micro_batch;
  for (LayerRunner& layer : layers_) {
    flight->layers.emplace_back(layer.decl());
    const int64_t bytes = ElementCount(layer.decl().input_shape) * SizeOf(layer.decl().input_dtype);
    flight->boundaries.push_back(std::make_unique<OwnBuffer>(bytes));
    flight->layers.back().input = flight->boundaries.back().get();
  }
  for (size_t l = 1; l < layers_.size(); ++l) {
    LayerState &before = flight->layers[l - 1], &after = flight->layers[l];
    before.output = after.input;
    flight->boundaries.push_back(std::make_unique<OwnBuffer>(after.input->bytes()));
    before.output_grad = after.input_grad = flight->boundaries.back().get();
  }
  std::memcpy(flight->layers[0].input->data(), micro_batch.input.data(), micro_batch.input.size());
  return flight;
}

LayerCall ModelRunner::Call(Flight& flight, size_t layer, float loss_scale) {
  LayerCall call = layers_[layer].Call(flight.layers[layer]);
  if (layer + 1 == layers_.size()) {
    call.targets = flight.micro_batch->targets.data();
    call.loss_scale = loss_scale;
    call.loss = &flight.loss;
    call.correct = &flight.correct;
  }
  return call;
}

void ModelRunner::Forward(Flight& flight, float loss_scale, const StepOptions& options) {
  for (size_t l = 0; l < layers_.size(); ++l) {
    layers_[l].layer().Forward(Call(flight, l, loss_scale));
    if (!options.poison) continue;
    flight.layers[l].Expire(Moment::kForward);
    flight.layers[l].Drop(options.recompute);
  }
}

void ModelRunner::BackwardInput(Flight& flight, size_t l, float loss_scale,
                                const StepOptions& options) {
  Layer& layer = layers_[l].layer();
  LayerCall call = Call(flight, l, loss_scale);
  if (options.recompute == Recompute::kSelective) layer.Restore(call);
  if (options.recompute == Recompute::kFull) {
    LayerCall again = call;
    again.output = nullptr;
    layer.Forward(again);
  }
  if (options.poison) flight.layers[l].Expire(Moment::kRestore);
  layer.BackwardInput(call);
  if (options.poison) flight.layers[l].Expire(Moment::kInputGrad);
}

void ModelRunner::BackwardWeight(Flight& flight, size_t l, float loss_scale, bool accumulate,
                                 const StepOptions& options) {
  LayerCall call = Call(flight, l, loss_scale);
  call.accumulate = accumulate;
  layers_[l].layer().BackwardWeight(call);
  if (options.poison) flight.layers[l].Expire(Moment::kWeightGrad);
}

StepResult ModelRunner::Step(const std::vector<MicroBatch>& micro_batches,
                             const StepOptions& options) {
  const auto rows = static_cast<double>(batch_.rows()) * static_cast<double>(micro_batches.size());
  const auto loss_scale = static_cast<float>(1 / rows);
  std::vector<std::unique_ptr<Flight>> flights;
  flights.reserve(micro_batches.size());
  for (const MicroBatch& micro_batch : micro_batches) flights.push_back(MakeFlight(micro_batch));

  for (size_t m = 0; m < flights.size(); ++m) {
    Forward(*flights[m], loss_scale, options);
    for (size_t l = layers_.size(); !options.weight_gradients_last && l-- > 0;) {
      BackwardInput(*flights[m], l, loss_scale, options);
      BackwardWeight(*flights[m], l, loss_scale, m > 0, options);
    }
  }
  for (size_t m = 0; options.weight_gradients_last && m < flights.size(); ++m) {
    for (size_t l = layers_.size(); l-- > 0;) {
      BackwardInput(*flights[m], l, loss_scale, options);
    }
  }
  for (size_t m = 0; options.weight_gradients_last && m < flights.size(); ++m) {
    for (size_t l = 0; l < layers_.size(); ++l) {
      BackwardWeight(*flights[m], l, loss_scale, m > 0, options);
    }
  }

  StepResult result;
  for (const auto& flight : flights) {
    result.losses.push_back(flight->loss);
    result.correct.push_back(flight->correct);
  }
  for (LayerRunner& layer : layers_) {
    for (size_t i = 0; i < layer.gradients().size(); ++i) {
      const ParameterDecl& decl = layer.decl().parameters[i];
      if (decl.frozen) continue;
      const float* values = layer.gradients()[i].floats();
      result.gradients[decl.name].assign(values, values + ElementCount(decl.shape));
    }
  }
  return result;
}

double ModelRunner::Loss(const std::vector<MicroBatch>& micro_batches) {
  double sum = 0;
  for (const MicroBatch& micro_batch : micro_batches) {
    const auto flight = MakeFlight(micro_batch);
    Forward(*flight, /*loss_scale=*/0, {});
    sum += flight->loss;
  }
  return sum;
}

std::vector<float> ModelRunner::Logits(const MicroBatch& micro_batch) {
  const auto flight = MakeFlight(micro_batch);
  for (size_t l = 0; l < layers_.size(); ++l) {
    LayerCall call = Call(*flight, l, 0);
    call.targets = nullptr;
    layers_[l].layer().Forward(call);
  }
  const int64_t classes =
      spec_.decoder() != nullptr ? spec_.decoder()->vocab : spec_.mlp()->widths.back();
  OwnBuffer values(batch_.rows() * classes * SizeOf(dtype_));
  layers_.back().layer().Logits(Call(*flight, layers_.size() - 1, 0), 0, batch_.rows(),
                                values.data());
  std::vector<float> logits(static_cast<size_t>(batch_.rows() * classes));
  for (size_t i = 0; i < logits.size(); ++i) {
    logits[i] = static_cast<float>(reference::Get(dtype_, values.data(), static_cast<int64_t>(i)));
  }
  return logits;
}

}  // namespace sluice
