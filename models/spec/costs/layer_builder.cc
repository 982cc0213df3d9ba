#include "models/spec/costs/layer_builder.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

// A dropped-out input differs from the map's own, which the adapter then does not read.
bool ReadsOwnInput(const PartTraining& trained) {
  return trained.weight || (trained.adapted() && !trained.adapter_dropout);
}

}  // namespace

LayerBuilder::LayerBuilder(std::string name, const BatchShape& batch, DType dtype,
                           const DecoderKernels& kernels, const TrainedParts& parts, int64_t block)
    : rows_(batch.rows()),
      own_rows_(kernels.sequence ? Share(rows_, kernels.tensor) : rows_),
      element_(SizeOf(dtype)),
      sequence_(kernels.sequence),
      shared_(kernels.tensor > 1),
      parts_(parts),
      block_(block) {
  layer_.spec.name = std::move(name);
}

PartTraining LayerBuilder::Of(DecoderPart part) const {
  return parts_ && part != DecoderPart::kOther ? parts_(part, block_) : PartTraining();
}

double LayerBuilder::Flops(const DecoderMap& linear) const {
  return 2 * static_cast<double>(rows_) * linear.multiply_adds();
}

MatrixProduct LayerBuilder::Product(const DecoderMap& linear) const {
  const auto copies = static_cast<double>(linear.copies);
  return {.rows = static_cast<double>(rows_) * linear.used / copies,
          .out = static_cast<double>(linear.out),
          .in = static_cast<double>(linear.in),
          .count = copies,
          .trained = Of(linear.part).weight};
}

void LayerBuilder::CountParameters(const DecoderMap& linear, const PartTraining& trained) {
  layer_.spec.parameters += linear.parameters();
  if (!trained.weight) layer_.frozen_parameters += linear.weights();
  if (!trained.bias) layer_.frozen_parameters += linear.biases();
}

void LayerBuilder::CountWeightGrad(const DecoderMap& linear, const PartTraining& trained) {
  const int64_t in = rows_ * element_ * linear.width(linear.in);
  const int64_t out = rows_ * element_ * linear.width(linear.out);
  layer_.whole_weight_grad_bytes += (linear.same_input ? 0 : in) + out;
  if (!linear.same_input) input_read_ = false;
  if (ReadsOwnInput(trained) && !std::exchange(input_read_, true)) layer_.weight_grad_bytes += in;
  const bool bias = linear.bias && trained.bias;
  if (trained.weight || bias || trained.adapted()) layer_.weight_grad_bytes += out;
}

void LayerBuilder::AddLinear(const DecoderMap& linear) {
  const PartTraining trained = Of(linear.part);
  CountParameters(linear, trained);
  const double flops = Flops(linear);
  layer_.spec.forward_flops += flops;
  layer_.spec.product_flops += flops;
  layer_.spec.input_grad_flops += flops;
  if (trained.weight) layer_.spec.weight_grad_flops += flops;
  layer_.products.push_back(Product(linear));
  CountWeightGrad(linear, trained);
  const int64_t out = rows_ * element_ * linear.width(linear.out);
  NeedWorkspace(out, 2 * out);
  if (trained.adapted()) AddAdapter(linear, trained);
}

void LayerBuilder::AddInBlocks(const DecoderMap& linear, const HeadBlocks& blocks) {
  const PartTraining trained = Of(linear.part);
  CountParameters(linear, trained);
  const double flops = Flops(linear);
  layer_.spec.forward_flops += 2 * flops;
  layer_.spec.product_flops += flops;
  if (trained.weight) {
    layer_.spec.weight_grad_flops += 2 * flops;
    layer_.spec.repeated_flops += flops;
  }
  layer_.products.push_back(Product(linear));
  layer_.products.back().in_blocks = true;
  const int64_t in = rows_ * element_ * linear.in;
  layer_.whole_weight_grad_bytes += in;
  if (trained.weight) layer_.weight_grad_bytes += in;
  const int64_t block = blocks.rows * element_ * linear.out;
  NeedWorkspace(block, block);
}

void LayerBuilder::NeedWorkspace(int64_t forward, int64_t any) {
  layer_.forward_workspace_bytes = std::max(layer_.forward_workspace_bytes, forward);
  layer_.workspace_bytes = std::max(layer_.workspace_bytes, any);
}

void LayerBuilder::AddAdapter(const DecoderMap& linear, const PartTraining& trained) {
  const int64_t rank = trained.adapter_rank;
  const int64_t a = rank * linear.in, b = rank * linear.out;
  const bool outputs = linear.cut == MapCut::kOutputs;
  if (!trained.continues_adapter) {
    layer_.adapter_parameters += a;
    AddNarrow(outputs ? own_rows_ : rows_, linear.in, rank);
    AddPasses(linear.cut, rank);
    if (trained.adapter_dropout) KeepDropped(linear);
    KeepWhole("adapter", rank);                                   // u
    layer_.weight_grad_bytes += 2 * own_rows_ * element_ * rank;  // with its gradient
  }
  layer_.adapter_parameters += b;
  AddNarrow(outputs ? rows_ : own_rows_, rank, linear.out);
  if (!sequence_ || !shared_) return;
  if (!outputs) layer_.sliced_adapter_parameters += b;
  if (outputs && !trained.continues_adapter) layer_.sliced_adapter_parameters += a;
}

void LayerBuilder::AddNarrow(int64_t rows, int64_t in, int64_t out) {
  const MatrixProduct product = {.rows = static_cast<double>(rows),
                                 .out = static_cast<double>(out),
                                 .in = static_cast<double>(in)};
  const double flops = 2 * product.rows * product.in * product.out;
  layer_.spec.forward_flops += flops;
  layer_.spec.product_flops += flops;
  layer_.spec.input_grad_flops += flops;
  layer_.spec.weight_grad_flops += flops;
  layer_.products.push_back(product);
}

void LayerBuilder::AddPasses(MapCut cut, int64_t rank) {
  if (!shared_) return;
  AdapterPasses& passes = layer_.adapter_passes;
  passes.elements = rows_ * rank;
  if (sequence_) {
    ++passes.forward;
    ++passes.input_grad;
  } else {
    (cut == MapCut::kOutputs ? passes.input_grad : passes.forward) += 2;
  }
}

// Each adapter drops others, and W of its A reads what was left.
void LayerBuilder::KeepDropped(const DecoderMap& linear) {
  const int64_t rows = linear.cut == MapCut::kOutputs ? own_rows_ : rows_;
  const int64_t bytes = rows * linear.in * element_;
  KeepBytes("adapter: input", bytes);
  KeepBytes("adapter: mask", rows * linear.in);
  layer_.weight_grad_bytes += bytes;
}

void LayerBuilder::AddNorm(DecoderPart part, int64_t width, bool centered) {
  const PartTraining trained = Of(part);
  layer_.spec.parameters += width * (centered ? 2 : 1);
  if (!trained.weight) layer_.frozen_parameters += width;
  if (!trained.bias && centered) layer_.frozen_parameters += width;
}

void LayerBuilder::AddWeights(DecoderPart part, int64_t count) {
  layer_.spec.parameters += count;
  if (!Of(part).weight) layer_.frozen_parameters += count;
}

void LayerBuilder::AddProduct(double multiply_adds, const MatrixProduct& done) {
  layer_.spec.forward_flops += 2 * multiply_adds;
  layer_.spec.attention_flops += 2 * multiply_adds;
  layer_.spec.input_grad_flops += 4 * multiply_adds;
  layer_.products.push_back(done);
}

void LayerBuilder::AddSums(int forward, int input_grad) {
  layer_.forward_sums += forward;
  layer_.input_grad_sums += input_grad;
}

void LayerBuilder::Keep(const char* op, int64_t width, bool rebuilt, bool kept) {
  KeepBytes(op, rows_ * width * element_, rebuilt, kept);
}

void LayerBuilder::KeepWhole(const char* op, int64_t width, bool rebuilt, bool kept) {
  KeepBytes(op, own_rows_ * width * element_, rebuilt, kept);
}

void LayerBuilder::KeepMask(const char* op, int64_t width) { KeepBytes(op, own_rows_ * width); }

void LayerBuilder::KeepBytes(const char* op, int64_t bytes, bool rebuilt, bool kept) {
  if (bytes > 0) layer_.saved.push_back({op, bytes, rebuilt, kept});
}

bool LayerBuilder::ReadsInput(std::initializer_list<DecoderPart> maps) const {
  return std::any_of(maps.begin(), maps.end(),
                     [this](DecoderPart part) { return ReadsOwnInput(Of(part)); });
}

}  // namespace sluice
