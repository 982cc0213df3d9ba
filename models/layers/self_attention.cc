#include "models/layers/self_attention.h"

#include <algorithm>
#include <utility>

#include "models/kernels/cached_attention.h"
#include "models/layers/cached_layer.h"

namespace sluice {
namespace {

constexpr bool kRestorable = true;

AttentionShape ShapeOf(const DecoderConfig& config, int64_t block, const BatchShape& batch,
                       DType dtype) {
  const HeadLayout layout = HeadLayoutOf(config);
  return {.batch = batch.size,
          .seq = batch.seq,
          .heads = config.heads,
          .kv_heads = config.key_value_heads(),
          .width = config.head_width(),
          .q_stride = layout.q_stride,
          .kv_stride = layout.kv_stride,
          .window = config.HasWindow(block) ? config.window : 0,
          .scale = config.attention_scale,
          .soft_cap = config.attention_soft_cap,
          .dtype = dtype};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> MakeBlockAttention(const DecoderConfig& config,
                                                              int64_t block,
                                                              const LayerContext& context) {
  return context.kernels->make_attention(ShapeOf(config, block, context.batch, context.dtype));
}

SelfAttention::SelfAttention(NormedLayer* layer, const DecoderConfig& config, int64_t block,
                             const BlockNames& names, float output_stddev,
                             std::unique_ptr<Attention> attention)
    : layer_(layer),
      heads_(config.heads),
      kv_heads_(config.key_value_heads()),
      width_(config.head_width()),
      projections_(layer, config, names),
      shape_(ShapeOf(config, block, layer->batch(), layer->dtype())),
      attention_(std::move(attention)) {
  if (config.qk_norm) norms_ = AddHeadNorms(names);
  if (!config.learned_positions) {
    rotary_.emplace(layer, config.RopeOf(block), width_, config.max_seq);
  }
  output_map_ = layer->AddLinear(heads_ * width_, config.dim,
                                 MapParameters(names.output_map, config.output_bias, output_stddev),
                                 {.weight_transposed = !HasGpt2Parameters(config)});
  // Attention's own backward reads it, too.
  const Lifetime att_life = output_map_->weight_grad_reads_input() ? Lifetime::kForwardToWeightGrad
                                                                   : Lifetime::kForwardToInputGrad;
  att_ = layer->AddTensor("att", layer->dtype(), {layer->rows(), heads_ * width_}, att_life,
                          kRestorable);
  lse_ = layer->AddTensor("lse", DType::kFloat32, {layer->batch().size, heads_, layer->batch().seq},
                          Lifetime::kForwardToInputGrad, kRestorable);
  if (layer->cached_positions() > 0) AddCache();
}

void SelfAttention::AddCache() {
  const int64_t elements = CacheElements(shape_, layer_->cached_positions());
  cache_ =
      layer_->AddTensor(kCacheTensor, layer_->dtype(), {elements}, Lifetime::kForwardToInputGrad);
}

size_t SelfAttention::forward_workspace() const {
  return cache_ == LayerBase::kAbsent
             ? attention_->forward_workspace()
             : layer_->kernels().attend_cached_workspace(shape_, layer_->cached_positions());
}

SelfAttention::HeadNorms SelfAttention::AddHeadNorms(const BlockNames& names) const {
  const Shape q = {layer_->rows(), projections_.layout().q_width};
  const Shape k = {layer_->rows(), projections_.layout().kv_width};
  const auto add = [this](const char* name, const Shape& shape, Lifetime lifetime, bool cheap) {
    return layer_->AddTensor(name, layer_->dtype(), shape, lifetime, cheap);
  };
  HeadNorms norms;
  norms.q = layer_->AddNorm("_q", names.query_norm, layer_->rows() * heads_, width_);
  norms.k = layer_->AddNorm("_k", names.key_norm, layer_->rows() * kv_heads_, width_);
  norms.qn = add("qn", q, Lifetime::kForwardToInputGrad, kRestorable);
  norms.kn = add("kn", k, Lifetime::kForwardToInputGrad, kRestorable);
  norms.dqn = add("dqn", q, Lifetime::kInputGradScratch, false);
  norms.dkn = add("dkn", k, Lifetime::kInputGradScratch, false);
  return norms;
}

int64_t SelfAttention::input_grad_width() const { return std::max(layer_->dim(), heads_ * width_); }

size_t SelfAttention::input_grad_workspace() const {
  const size_t own = attention_->backward_workspace();
  return !norms_ ? own
                 : std::max({own, norms_->q.backward_workspace(), norms_->k.backward_workspace()});
}

Projections::Heads SelfAttention::Attended(const LayerCall& call) const {
  Projections::Heads heads = projections_.Values(call);
  if (norms_) {
    heads.q = LayerBase::Tensor(call, norms_->qn);
    heads.k = LayerBase::Tensor(call, norms_->kn);
  }
  return heads;
}

Projections::Heads SelfAttention::AttendedGradients(const LayerCall& call) const {
  Projections::Heads heads = projections_.Gradients(call);
  if (norms_) {
    heads.q = LayerBase::Tensor(call, norms_->dqn);
    heads.k = LayerBase::Tensor(call, norms_->dkn);
  }
  return heads;
}

void SelfAttention::Pack(const LayerCall& call) const {
  if (rotary_) rotary_->Pack(call);
  attention_->Prepare(call.stream);
}

Norm::Turn SelfAttention::QueryTurn(const LayerCall& call) const {
  return {rotary_->ShapeOf(heads_, projections_.layout().q_stride), rotary_->Table(call)};
}

Norm::Turn SelfAttention::KeyTurn(const LayerCall& call) const {
  return {rotary_->ShapeOf(kv_heads_, projections_.layout().kv_stride), rotary_->Table(call)};
}

void SelfAttention::NormAndTurn(const LayerCall& call) const {
  const Projections::Heads from = projections_.Values(call), to = Attended(call);
  norms_->q.ForwardTurned(call, QueryTurn(call), from.q, to.q);
  norms_->k.ForwardTurned(call, KeyTurn(call), from.k, to.k);
}

void SelfAttention::Turn(const LayerCall& call) const {
  const Projections::Heads heads = Attended(call);
  rotary_->Turn(call, heads_, projections_.layout().q_stride, heads.q);
  rotary_->Turn(call, kv_heads_, projections_.layout().kv_stride, heads.k);
}

void SelfAttention::Attend(const LayerCall& call, void* workspace) const {
  const Projections::Heads heads = Attended(call);
  if (cache_ != LayerBase::kAbsent) {
    layer_->kernels().attend_cached(call.stream, shape_, layer_->cached_positions(),
                                    call.first_position, {.q = heads.q, .k = heads.k, .v = heads.v},
                                    LayerBase::Tensor(call, cache_), LayerBase::Tensor(call, att_),
                                    workspace);
    return;
  }
  attention_->Forward(call.stream, {heads.q, heads.k, heads.v, call.starts},
                      LayerBase::Tensor(call, att_), LayerBase::FloatTensor(call, lse_), workspace);
}

void SelfAttention::Forward(const LayerCall& call, const void* input, const void* residual,
                            void* output, void* workspace) const {
  projections_.Forward(call, input, workspace);
  if (norms_) {
    NormAndTurn(call);
  } else if (rotary_) {
    Turn(call);
  }
  Attend(call, workspace);
  output_map_->Forward(call, LayerBase::Tensor(call, att_), residual, output, nullptr, workspace);
}

// Without norms the heads were turned where the maps wrote them, and were kept so.
void SelfAttention::Restore(const LayerCall& call, void* workspace) const {
  if (norms_) NormAndTurn(call);
  Attend(call, workspace);
}

void SelfAttention::BackwardInput(const LayerCall& call, const void* output_grad, void* input_grad,
                                  void* workspace) const {
  const Projections::Heads heads = Attended(call), gradients = AttendedGradients(call);
  void* const datt = input_grad;
  output_map_->BackwardInput(call, output_grad, nullptr, datt, workspace);
  attention_->Backward(call.stream, {heads.q, heads.k, heads.v, call.starts},
                       LayerBase::Tensor(call, att_), LayerBase::FloatTensor(call, lse_), datt,
                       gradients.q, gradients.k, gradients.v, workspace);
  if (norms_) {
    const Projections::Heads raw = projections_.Values(call), to = projections_.Gradients(call);
    norms_->q.BackwardTurned(call, QueryTurn(call), gradients.q, raw.q, to.q, workspace);
    norms_->k.BackwardTurned(call, KeyTurn(call), gradients.k, raw.k, to.k, workspace);
  } else if (rotary_) {
    rotary_->TurnBack(call, heads_, projections_.layout().q_stride, gradients.q);
    rotary_->TurnBack(call, kv_heads_, projections_.layout().kv_stride, gradients.k);
  }
  projections_.BackwardInput(call, input_grad, workspace);
}

void SelfAttention::BackwardWeight(const LayerCall& call, const void* input,
                                   const void* output_grad, LinearLayer::WeightPass* pass) const {
  output_map_->BackwardWeight(call, LayerBase::Tensor(call, att_), output_grad, pass);
  projections_.BackwardWeight(call, input, pass);
}

}  // namespace sluice
