#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/layers/block_mlp.h"
#include "models/layers/decoder_names.h"
#include "models/layers/layers.h"
#include "models/layers/norm.h"
#include "models/layers/self_attention.h"

namespace sluice {
namespace {

// A decoder's block, of any family. Forward, top to bottom; backward runs the same lines upwards:
//
//   a1      = norm1(x)                      x ───────┐
//   o       = attention(a1)                          │    self_attention.h
//   x_mid   = after1(o) + x                ◀─────────┤
//   a2      = norm2(x_mid)                           │
//   m       = mlp(a2)                                │    block_mlp.h
//   y       = after2(m) + x_mid            ◀─────────┘
//
// Most families have no norms after the parts (Gemma 2 and 3 do). Then the parts add the residual
// themselves, o and m do not exist, and dx_mid and the gradient of y are the gradients of the
// parts' outputs. I needs x, the norms' statistics, x_mid, o and m; W needs a1 and a2, and the
// gradients of the parts' outputs. Of these a1, a2 and, with norms after the parts, x_mid are cheap
// to rebuild.
class DecoderBlock : public NormedLayer {
 public:
  DecoderBlock(const DecoderConfig& config, int block, const LayerContext& context,
               std::unique_ptr<Attention> attention);

  void Pack(const LayerCall& call) override;
  void Forward(const LayerCall& call) override;
  void Restore(const LayerCall& call) override;
  void BackwardInput(const LayerCall& call) override;
  void BackwardWeight(const LayerCall& call) override;

 private:
  // A norm after one of the parts, the part's output, and the gradient of that.
  struct NormAfter {
    Norm norm;
    int part = kAbsent;       // by F until I
    int part_grad = kAbsent;  // by I until W, if that reads it
  };

  NormAfter AddNormAfter(const std::string& name, const std::string& parameters,
                         Lifetime part_grad_life);
  void AddParts(const DecoderConfig& config, int block, std::unique_ptr<Attention> attention);
  void AddTensors();
  void AddWorkspaces();
  // Their parts with all that follows, up to the residual stream.
  void ForwardAttention(const LayerCall& call, void* workspace) const;
  void ForwardMlp(const LayerCall& call, void* workspace) const;
  // Of a tensor that I writes.
  static Lifetime GradLife(bool weight_grad_reads_it) {
    return weight_grad_reads_it ? Lifetime::kInputGradToWeightGrad : Lifetime::kInputGradScratch;
  }
  // The gradient of the part's output, given that of what is added to the residual stream.
  const void* BackwardNormAfter(const LayerCall& call, const std::optional<NormAfter>& after,
                                const void* grad, void* workspace) const;
  static const void* PartGradient(const LayerCall& call, const std::optional<NormAfter>& after,
                                  const void* grad) {
    return after ? Tensor(call, after->part_grad) : grad;
  }

  Norm norm1_, norm2_;
  std::optional<NormAfter> after1_, after2_;
  std::optional<SelfAttention> attention_;
  std::optional<BlockMlp> mlp_;
  // Indices of tensors.
  int a1_, x_mid_, a2_;  // by F
  int dx_mid_;           // by I
  // I's scratch: da2, then da1 (and within attention's backward the gradient of its heads), each
  // dead before the next is written.
  int d_norm_;
  int forward_workspace_, input_workspace_, weight_workspace_;
};

DecoderBlock::DecoderBlock(const DecoderConfig& config, int block, const LayerContext& context,
                           std::unique_ptr<Attention> attention)
    : NormedLayer(context, config) {
  decl_.name = absl::StrCat("block ", block);
  AddParts(config, block, std::move(attention));
  AddTensors();
  AddWorkspaces();
  decl_.input_dtype = decl_.output_dtype = dtype();
  decl_.input_shape = decl_.output_shape = {rows(), dim()};
  decl_.input_use = LastUse::kInputGrad;  // norm1's backward
  decl_.uses_starts = true;               // attention, and positions where it has them
  // It is the MLP's last gradient, unless there is a norm in between.
  const bool weight_grad_reads_it = !after2_ && mlp_->weight_grad_reads_output_grad();
  decl_.output_grad_use = weight_grad_reads_it ? LastUse::kWeightGrad : LastUse::kInputGrad;
}

void DecoderBlock::AddParts(const DecoderConfig& config, int block,
                            std::unique_ptr<Attention> attention) {
  const BlockNames names = NamesOfBlock(config, block);
  // GPT-2's maps onto the residual stream start smaller: 2 of them a block add up (Radford et al.
  // 2019, section 2.3). Those of other families start like all maps.
  const float stddev = config.initializer_range;
  const float residual_stddev = HasGpt2Parameters(config)
                                    ? stddev / std::sqrt(2.0f * static_cast<float>(config.layers))
                                    : stddev;
  const bool norms_after = config.norms == 4;
  norm1_ = AddNorm("1", names.attention_norm);
  attention_.emplace(this, config, block, names, residual_stddev, std::move(attention));
  if (norms_after) {
    after1_ = AddNormAfter("o", names.after_attention_norm,
                           GradLife(attention_->weight_grad_reads_output_grad()));
  }
  norm2_ = AddNorm("2", names.mlp_norm);
  mlp_.emplace(this, config, names, residual_stddev);
  if (norms_after) {
    after2_ =
        AddNormAfter("m", names.after_mlp_norm, GradLife(mlp_->weight_grad_reads_output_grad()));
  }
}

DecoderBlock::NormAfter DecoderBlock::AddNormAfter(const std::string& name,
                                                   const std::string& parameters,
                                                   Lifetime part_grad_life) {
  NormAfter after;
  after.norm = AddNorm("_" + name, parameters);
  after.part = AddTensor(name, dtype(), {rows(), dim()}, Lifetime::kForwardToInputGrad);
  after.part_grad = AddTensor("d" + name, dtype(), {rows(), dim()}, part_grad_life);
  return after;
}

void DecoderBlock::AddTensors() {
  const auto add = [this](const char* name, int64_t width, Lifetime lifetime,
                          bool restorable = false) {
    return AddTensor(name, dtype(), {rows(), width}, lifetime, restorable);
  };
  // Without a W that reads them, they are work areas of F.
  const auto add_input = [&](const char* name, bool weight_grad_reads_it) {
    return add(name, dim(),
               weight_grad_reads_it ? Lifetime::kForwardToWeightGrad : Lifetime::kForwardScratch,
               weight_grad_reads_it);
  };
  a1_ = add_input("a1", attention_->weight_grad_reads_input());
  x_mid_ = add("x_mid", dim(), Lifetime::kForwardToInputGrad, after1_.has_value());
  a2_ = add_input("a2", mlp_->weight_grad_reads_input());
  dx_mid_ = add("dx_mid", dim(), GradLife(!after1_ && attention_->weight_grad_reads_output_grad()));
  d_norm_ = add("d_norm", attention_->input_grad_width(), Lifetime::kInputGradScratch);
}

void DecoderBlock::AddWorkspaces() {
  forward_workspace_ =
      AddWorkspace("forward_workspace", Lifetime::kForwardScratch,
                   {LargestWorkspace(&Map::forward_workspace), attention_->forward_workspace()});
  input_workspace_ = AddWorkspace(
      "input_grad_workspace", Lifetime::kInputGradScratch,
      {LargestWorkspace(&Map::input_grad_workspace), attention_->input_grad_workspace(),
       norm1_.backward_workspace()});  // all four norms are alike
  weight_workspace_ =
      AddWorkspace("weight_grad_workspace", Lifetime::kWeightGradScratch,
                   {LargestWorkspace(&Map::weight_grad_workspace), bias_workspace()});
}

void DecoderBlock::Pack(const LayerCall& call) {
  NormedLayer::Pack(call);
  attention_->Pack(call);
}

void DecoderBlock::ForwardAttention(const LayerCall& call, void* workspace) const {
  void *const a1 = Tensor(call, a1_), *const x_mid = Tensor(call, x_mid_);
  norm1_.Forward(call, call.input, a1);
  if (!after1_) return attention_->Forward(call, a1, call.input, x_mid, workspace);
  void* const o = Tensor(call, after1_->part);
  attention_->Forward(call, a1, nullptr, o, workspace);
  after1_->norm.Forward(call, o, x_mid, call.input);
}

void DecoderBlock::ForwardMlp(const LayerCall& call, void* workspace) const {
  void *const x_mid = Tensor(call, x_mid_), *const a2 = Tensor(call, a2_);
  norm2_.Forward(call, x_mid, a2);
  mlp_->Activate(call, a2, workspace);
  if (!after2_) {
    if (call.output == nullptr) return mlp_->KeepForBackward(call, workspace);
    return mlp_->Project(call, x_mid, call.output, workspace);
  }
  void* const m = Tensor(call, after2_->part);
  mlp_->Project(call, nullptr, m, workspace);
  if (call.output != nullptr) return after2_->norm.Forward(call, m, call.output, x_mid);
  // Backward needs the statistics of a norm whose result nobody wants: it passes through a2.
  after2_->norm.Forward(call, m, a2, x_mid);
  norm2_.Forward(call, x_mid, a2);
}

void DecoderBlock::Forward(const LayerCall& call) {
  void* const workspace = Tensor(call, forward_workspace_);
  ForwardAttention(call, workspace);
  ForwardMlp(call, workspace);
}

void DecoderBlock::Restore(const LayerCall& call) {
  if (attention_->weight_grad_reads_input()) norm1_.Forward(call, call.input, Tensor(call, a1_));
  attention_->Restore(call, Tensor(call, forward_workspace_));
  void* const x_mid = Tensor(call, x_mid_);
  if (after1_) after1_->norm.Forward(call, Tensor(call, after1_->part), x_mid, call.input);
  if (mlp_->weight_grad_reads_input()) norm2_.Forward(call, x_mid, Tensor(call, a2_));
  mlp_->Restore(call);
}

const void* DecoderBlock::BackwardNormAfter(const LayerCall& call,
                                            const std::optional<NormAfter>& after, const void* grad,
                                            void* workspace) const {
  if (after) {
    after->norm.Backward(call, grad, Tensor(call, after->part), nullptr,
                         Tensor(call, after->part_grad), workspace);
  }
  return PartGradient(call, after, grad);
}

void DecoderBlock::BackwardInput(const LayerCall& call) {
  void *const workspace = Tensor(call, input_workspace_), *const d_norm = Tensor(call, d_norm_);
  const void* const dm = BackwardNormAfter(call, after2_, call.output_grad, workspace);
  mlp_->BackwardInput(call, dm, d_norm, workspace);
  void* const dx_mid = Tensor(call, dx_mid_);
  norm2_.Backward(call, d_norm, Tensor(call, x_mid_), call.output_grad, dx_mid, workspace);
  const void* const d_o = BackwardNormAfter(call, after1_, dx_mid, workspace);
  attention_->BackwardInput(call, d_o, d_norm, workspace);
  norm1_.Backward(call, d_norm, call.input, dx_mid, call.input_grad, workspace);
}

void DecoderBlock::BackwardWeight(const LayerCall& call) {
  WeightPass pass{.workspace = Tensor(call, weight_workspace_), .biases = {}};
  mlp_->BackwardWeight(call, Tensor(call, a2_), PartGradient(call, after2_, call.output_grad),
                       &pass);
  attention_->BackwardWeight(call, Tensor(call, a1_),
                             PartGradient(call, after1_, Tensor(call, dx_mid_)), &pass);
  AddBiasGradients(call, pass);
  AddNormGradients(call);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Layer>> MakeDecoderBlock(const DecoderConfig& config, int block,
                                                        const LayerContext& context) {
  absl::StatusOr<std::unique_ptr<Attention>> attention = MakeBlockAttention(config, block, context);
  if (!attention.ok()) return attention.status();
  return std::make_unique<DecoderBlock>(config, block, context, *std::move(attention));
}

}  // namespace sluice
