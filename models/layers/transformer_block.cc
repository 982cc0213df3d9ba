#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/layers/layers.h"
#include "models/layers/norm.h"

namespace sluice {
namespace {

// A pre-norm block (Radford et al. 2019). Forward, top to bottom; backward runs the same lines
// upwards:
//
//   a1      = norm1(x)                      x ───────┐
//   qkv     = a1 * c_attn                            │
//   att     = attention(qkv)                         │
//   x_mid   = att * attn.c_proj + x        ◀─────────┤
//   a2      = norm2(x_mid)                           │
//   h, g    = a2 * c_fc, gelu(h)                     │
//   y       = g * mlp.c_proj + x_mid       ◀─────────┘
//
// I needs x, the norms' statistics, qkv, att, lse, x_mid and h; W needs each product's input (a1,
// att, a2, g) and the gradient of its output (dqkv, dx_mid, dh, dy). Of these a1, att, lse, a2 and
// g are cheap to rebuild.
class TransformerBlock : public NormedLayer {
 public:
  TransformerBlock(const DecoderConfig& config, int block, const LayerContext& context,
                   std::unique_ptr<Attention> attention);

  void Pack(const LayerCall& call) override;
  void Forward(const LayerCall& call) override;
  void Restore(const LayerCall& call) override;
  void BackwardInput(const LayerCall& call) override;
  void BackwardWeight(const LayerCall& call) override;

 private:
  void AddParameters(const DecoderConfig& config, int block);
  void AddTensors();
  void AddWorkspaces();
  // The first rows of the three parts of qkv or dqkv.
  struct QueriesKeysValues {
    void *q, *k, *v;
  };
  QueriesKeysValues Parts(const LayerCall& call, int tensor) const;
  void Attend(const LayerCall& call);

  int64_t hidden_, heads_;
  Norm norm1_, norm2_;
  const Map *c_attn_, *attn_proj_, *c_fc_, *mlp_proj_;
  std::unique_ptr<Attention> attention_;
  // Indices of tensors.
  int a1_, qkv_, att_, lse_, x_mid_, a2_, h_, g_;  // by F
  int dh_, dx_mid_, dqkv_;                         // by I
  int d_norm_;  // I's scratch: da2, then datt, then da1, each dead before the next is written
  int forward_workspace_, input_workspace_, weight_workspace_;
};

TransformerBlock::TransformerBlock(const DecoderConfig& config, int block,
                                   const LayerContext& context,
                                   std::unique_ptr<Attention> attention)
    : NormedLayer(context, config),
      hidden_(config.mlp_width()),
      heads_(config.heads),
      attention_(std::move(attention)) {
  decl_.name = absl::StrCat("block ", block);
  AddParameters(config, block);
  AddTensors();
  AddWorkspaces();
  decl_.input_dtype = decl_.output_dtype = dtype();
  decl_.input_shape = decl_.output_shape = {rows(), dim()};
  decl_.input_use = LastUse::kInputGrad;         // norm1's backward
  decl_.output_grad_use = LastUse::kWeightGrad;  // it is mlp.c_proj's dy
}

void TransformerBlock::AddParameters(const DecoderConfig& config, int block) {
  const std::string prefix = absl::StrCat("transformer.h.", block, ".");
  const auto parameters = [&prefix](const char* map, float stddev) {
    const std::string name = prefix + map;
    return LinearParameters{name + ".weight", name + ".bias", stddev, ""};
  };
  // Maps onto the residual stream start smaller: 2 of them a block add up (Radford et al. 2019,
  // section 2.3).
  const float residual_stddev = kGptStddev / std::sqrt(2.0f * static_cast<float>(config.layers));
  norm1_ = AddNorm("1", prefix + "ln_1");
  c_attn_ = AddLinear(dim(), 3 * dim(), parameters("attn.c_attn", kGptStddev));
  attn_proj_ = AddLinear(dim(), dim(), parameters("attn.c_proj", residual_stddev));
  norm2_ = AddNorm("2", prefix + "ln_2");
  c_fc_ = AddLinear(dim(), hidden_, parameters("mlp.c_fc", kGptStddev),
                    {.activation = Activation::kGelu});
  mlp_proj_ = AddLinear(hidden_, dim(), parameters("mlp.c_proj", residual_stddev),
                        {.input_activation = Activation::kGelu});
}

void TransformerBlock::AddTensors() {
  constexpr bool kRestorable = true;
  const auto add = [this](const char* name, int64_t width, Lifetime lifetime,
                          bool restorable = false) {
    return AddTensor(name, dtype(), {rows(), width}, lifetime, restorable);
  };
  a1_ = add("a1", dim(), Lifetime::kForwardToWeightGrad, kRestorable);
  qkv_ = add("qkv", 3 * dim(), Lifetime::kForwardToInputGrad);
  att_ = add("att", dim(), Lifetime::kForwardToWeightGrad, kRestorable);
  lse_ = AddTensor("lse", DType::kFloat32, {batch().size, heads_, batch().seq},
                   Lifetime::kForwardToInputGrad, kRestorable);
  x_mid_ = add("x_mid", dim(), Lifetime::kForwardToInputGrad);
  a2_ = add("a2", dim(), Lifetime::kForwardToWeightGrad, kRestorable);
  h_ = add("h", hidden_, Lifetime::kForwardToInputGrad);
  g_ = add("g", hidden_, Lifetime::kForwardToWeightGrad, kRestorable);
  dh_ = add("dh", hidden_, Lifetime::kInputGradToWeightGrad);
  dx_mid_ = add("dx_mid", dim(), Lifetime::kInputGradToWeightGrad);
  dqkv_ = add("dqkv", 3 * dim(), Lifetime::kInputGradToWeightGrad);
  d_norm_ = add("d_norm", dim(), Lifetime::kInputGradScratch);
}

void TransformerBlock::AddWorkspaces() {
  const Linear &c_attn = c_attn_->kernel(), &attn_proj = attn_proj_->kernel(),
               &c_fc = c_fc_->kernel(), &mlp_proj = mlp_proj_->kernel();
  forward_workspace_ = AddWorkspace(
      "forward_workspace", Lifetime::kForwardScratch,
      {c_attn.forward_workspace(), attn_proj.forward_workspace(), c_fc.forward_workspace(),
       mlp_proj.forward_workspace(), attention_->forward_workspace()});
  input_workspace_ = AddWorkspace("input_grad_workspace", Lifetime::kInputGradScratch,
                                  {c_attn.input_grad_workspace(), attn_proj.input_grad_workspace(),
                                   c_fc.input_grad_workspace(), mlp_proj.input_grad_workspace(),
                                   attention_->backward_workspace(), norm1_.backward_workspace()});
  weight_workspace_ =
      AddWorkspace("weight_grad_workspace", Lifetime::kWeightGradScratch,
                   {c_attn.weight_grad_workspace(), attn_proj.weight_grad_workspace(),
                    c_fc.weight_grad_workspace(), mlp_proj.weight_grad_workspace()});
}

void TransformerBlock::Pack(const LayerCall& call) {
  NormedLayer::Pack(call);
  attention_->Prepare(call.stream);
}

TransformerBlock::QueriesKeysValues TransformerBlock::Parts(const LayerCall& call,
                                                            int tensor) const {
  auto* const first = static_cast<char*>(Tensor(call, tensor));
  const int64_t part = dim() * SizeOf(dtype());
  return {first, first + part, first + 2 * part};
}

void TransformerBlock::Attend(const LayerCall& call) {
  const auto [q, k, v] = Parts(call, qkv_);
  attention_->Forward(call.stream, {.q = q, .k = k, .v = v}, Tensor(call, att_),
                      FloatTensor(call, lse_), Tensor(call, forward_workspace_));
}

void TransformerBlock::Forward(const LayerCall& call) {
  void* workspace = Tensor(call, forward_workspace_);
  norm1_.Forward(call, call.input, Tensor(call, a1_));
  c_attn_->Forward(call, Tensor(call, a1_), nullptr, Tensor(call, qkv_), nullptr, workspace);
  Attend(call);
  attn_proj_->Forward(call, Tensor(call, att_), call.input, Tensor(call, x_mid_), nullptr,
                      workspace);
  norm2_.Forward(call, Tensor(call, x_mid_), Tensor(call, a2_));
  c_fc_->Forward(call, Tensor(call, a2_), nullptr, Tensor(call, h_), Tensor(call, g_), workspace);
  if (call.output == nullptr) return;
  mlp_proj_->Forward(call, Tensor(call, g_), Tensor(call, x_mid_), call.output, nullptr, workspace);
}

void TransformerBlock::Restore(const LayerCall& call) {
  norm1_.Forward(call, call.input, Tensor(call, a1_));
  Attend(call);
  norm2_.Forward(call, Tensor(call, x_mid_), Tensor(call, a2_));
  kernels().activation_forward(call.stream, dtype(), Activation::kGelu, rows() * hidden_,
                               Tensor(call, h_), Tensor(call, g_));
}

void TransformerBlock::BackwardInput(const LayerCall& call) {
  void* workspace = Tensor(call, input_workspace_);
  void* d_norm = Tensor(call, d_norm_);
  mlp_proj_->BackwardInput(call, call.output_grad, Tensor(call, h_), Tensor(call, dh_), workspace);
  c_fc_->BackwardInput(call, Tensor(call, dh_), nullptr, d_norm, workspace);
  norm2_.Backward(call, d_norm, Tensor(call, x_mid_), call.output_grad, Tensor(call, dx_mid_),
                  workspace);
  attn_proj_->BackwardInput(call, Tensor(call, dx_mid_), nullptr, d_norm, workspace);
  const auto [q, k, v] = Parts(call, qkv_);
  const auto [dq, dk, dv] = Parts(call, dqkv_);
  attention_->Backward(call.stream, {.q = q, .k = k, .v = v}, Tensor(call, att_),
                       FloatTensor(call, lse_), d_norm, dq, dk, dv, workspace);
  c_attn_->BackwardInput(call, Tensor(call, dqkv_), nullptr, d_norm, workspace);
  norm1_.Backward(call, d_norm, call.input, Tensor(call, dx_mid_), call.input_grad, workspace);
}

void TransformerBlock::BackwardWeight(const LayerCall& call) {
  void* workspace = Tensor(call, weight_workspace_);
  mlp_proj_->BackwardWeight(call, Tensor(call, g_), call.output_grad, workspace);
  c_fc_->BackwardWeight(call, Tensor(call, a2_), Tensor(call, dh_), workspace);
  attn_proj_->BackwardWeight(call, Tensor(call, att_), Tensor(call, dx_mid_), workspace);
  c_attn_->BackwardWeight(call, Tensor(call, a1_), Tensor(call, dqkv_), workspace);
  norm1_.AddWeightGradients(call);
  norm2_.AddWeightGradients(call);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Layer>> MakeTransformerBlock(const DecoderConfig& config, int block,
                                                            const LayerContext& context) {
  absl::StatusOr<std::unique_ptr<Attention>> attention =
      context.kernels->make_attention({.batch = context.batch.size,
                                       .seq = context.batch.seq,
                                       .heads = config.heads,
                                       .kv_heads = config.heads,
                                       .width = config.dim / config.heads,
                                       .q_stride = 3 * config.dim,
                                       .kv_stride = 3 * config.dim,
                                       .dtype = context.dtype});
  if (!attention.ok()) return attention.status();
  return std::make_unique<TransformerBlock>(config, block, context, *std::move(attention));
}

}  // namespace sluice
