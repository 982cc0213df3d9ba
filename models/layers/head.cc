#include "models/layers/decoder_names.h"
#include "models/layers/layers.h"
#include "models/layers/norm.h"

namespace sluice {
namespace {

// logits = norm(x) * lm_head, and the loss. Cross-entropy turns the logits into their gradient
// where they lie, so one tensor serves F, I and W.
class Head : public NormedLayer {
 public:
  Head(const DecoderConfig& config, const LayerContext& context)
      : NormedLayer(context, config), vocab_(config.vocab) {
    decl_.name = "head";
    const DecoderNames names = NamesOf(config);
    norm_ = AddNorm("", names.final_norm);
    const LinearParameters parameters{names.head_table, "", config.initializer_range,
                                      config.tied_head ? names.token_table : ""};
    lm_head_ = AddLinear(dim(), vocab_, parameters, {.weight_transposed = true});
    normed_ = AddTensor("a", dtype(), {rows(), dim()}, Lifetime::kForwardToWeightGrad,
                        /*restorable=*/true);
    logits_ = AddTensor("logits", dtype(), {rows(), vocab_}, Lifetime::kForwardToWeightGrad);
    d_normed_ = AddTensor("da", dtype(), {rows(), dim()}, Lifetime::kInputGradScratch);
    const Linear& kernel = lm_head_->kernel();
    forward_workspace_ = AddWorkspace(
        "forward_workspace", Lifetime::kForwardScratch,
        {kernel.forward_workspace(), kernels().cross_entropy_workspace(rows(), vocab_)});
    input_workspace_ = AddWorkspace("input_grad_workspace", Lifetime::kInputGradScratch,
                                    {kernel.input_grad_workspace(), norm_.backward_workspace()});
    weight_workspace_ = AddWorkspace("weight_grad_workspace", Lifetime::kWeightGradScratch,
                                     {kernel.weight_grad_workspace()});
    decl_.input_dtype = dtype();
    decl_.input_shape = {rows(), dim()};
    decl_.input_use = LastUse::kInputGrad;  // the norm's backward
  }

  int logits_tensor() const override { return logits_; }

  void Forward(const LayerCall& call) override {
    norm_.Forward(call, call.input, Tensor(call, normed_));
    lm_head_->Forward(call, Tensor(call, normed_), nullptr, Tensor(call, logits_), nullptr,
                      Tensor(call, forward_workspace_));
    if (call.targets == nullptr) return;
    kernels().cross_entropy(call.stream, dtype(), rows(), vocab_, Tensor(call, logits_),
                            call.targets, call.loss_scale, call.loss, call.correct,
                            Tensor(call, forward_workspace_));
  }
  void Restore(const LayerCall& call) override {
    norm_.Forward(call, call.input, Tensor(call, normed_));
  }
  void BackwardInput(const LayerCall& call) override {
    lm_head_->BackwardInput(call, Tensor(call, logits_), nullptr, Tensor(call, d_normed_),
                            Tensor(call, input_workspace_));
    norm_.Backward(call, Tensor(call, d_normed_), call.input, nullptr, call.input_grad,
                   Tensor(call, input_workspace_));
  }
  void BackwardWeight(const LayerCall& call) override {
    lm_head_->BackwardWeight(call, Tensor(call, normed_), Tensor(call, logits_),
                             Tensor(call, weight_workspace_));
    norm_.AddWeightGradients(call);
  }

 private:
  int64_t vocab_;
  Norm norm_;
  const Map* lm_head_;
  int normed_, logits_, d_normed_;
  int forward_workspace_, input_workspace_, weight_workspace_;
};

}  // namespace

std::unique_ptr<Layer> MakeHead(const DecoderConfig& config, const LayerContext& context) {
  return std::make_unique<Head>(config, context);
}

}  // namespace sluice
