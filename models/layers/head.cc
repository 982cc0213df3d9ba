#include <algorithm>
#include <cstddef>

#include "models/layers/decoder_names.h"
#include "models/layers/layers.h"
#include "models/layers/norm.h"

namespace sluice {
namespace {

// What both heads have: logits = norm(x) * lm_head of one block of rows, and their cross-entropy.
class Head : public NormedLayer {
 public:
  void Restore(const LayerCall& call) override {
    if (trains_map()) Normalise(call);
  }

 protected:
  Head(const DecoderConfig& config, const LayerContext& context, const HeadBlocks& blocks)
      : NormedLayer(context, config),
        vocab_(config.vocab),
        soft_cap_(config.final_soft_cap),
        blocks_(blocks) {
    decl_.name = "head";
    const DecoderNames names = NamesOf(config);
    norm_ = AddNorm("", names.final_norm);
    const LinearParameters parameters{names.head_table, "", config.initializer_range,
                                      config.tied_head ? names.token_table : ""};
    lm_head_ = AddLinear(dim(), vocab_, parameters,
                         {.rows = blocks.rows,
                          .weight_transposed = true,
                          .padded_out = PaddedWidth(vocab_, kernels().head_limits)});
    normed_ = AddTensor("a", dtype(), {blocks.padded_rows(), dim()}, lm_head_->input_life(),
                        /*restorable=*/trains_map());
    decl_.input_dtype = dtype();
    decl_.input_shape = {rows(), dim()};
    decl_.input_use = LastUse::kInputGrad;  // the norm's backward
  }

  // Of a block's logits; rows may be longer than the vocabulary, with zeros at their end.
  Shape logits_shape() const { return {blocks_.rows, width()}; }
  bool trains_map() const { return lm_head_->weight_grad_reads_input(); }
  const HeadBlocks& blocks() const { return blocks_; }
  const Norm& norm() const { return norm_; }
  const Map& map() const { return *lm_head_; }
  size_t entropy_workspace() const {
    return kernels().cross_entropy_workspace(blocks_.rows, vocab_);
  }

  // Rows of `block`, whose tensor has dim values a row.
  void* Rows(const LayerCall& call, int tensor, int64_t block) const {
    return At(Tensor(call, tensor), block * blocks_.rows * dim());
  }
  void* Normed(const LayerCall& call, int64_t block) const { return Rows(call, normed_, block); }

  // The padding repeats the first rows: finite where they are, and its gradients are 0.
  void Normalise(const LayerCall& call) {
    void* const normed = Tensor(call, normed_);
    norm_.Forward(call, call.input, normed);
    const int64_t padding = blocks_.padded_rows() - rows();
    if (padding == 0) return;
    kernels().copy(call.stream, At(normed, rows() * dim()), normed,
                   static_cast<size_t>(padding * dim() * SizeOf(dtype())));
  }

  void Multiply(const LayerCall& call, int64_t block, void* logits, void* workspace) {
    lm_head_->Forward(call, Normed(call, block), nullptr, logits, nullptr, workspace);
    if (soft_cap_ == 0) return;
    kernels().soft_cap(call.stream, dtype(), blocks_.rows * width(), soft_cap_, logits);
  }

  // Turns a block's logits into their gradient, unless the loss has no scale, and adds its losses;
  // without a place for them only the former.
  void CrossEntropy(const LayerCall& call, int64_t block, double* loss, void* logits,
                    void* workspace) {
    const int64_t first = block * blocks_.rows;
    const int64_t real = std::min(blocks_.rows, rows() - first);
    const CrossEntropyShape shape{.dtype = dtype(),
                                  .rows = real,
                                  .classes = vocab_,
                                  .padding = blocks_.rows - real,
                                  .width = width(),
                                  .soft_cap = soft_cap_};
    kernels().cross_entropy(call.stream, shape, logits, call.targets + first, call.loss_scale,
                            /*accumulate=*/block > 0, loss, call.correct, workspace);
  }

  // Rows first_row ... of the logits, a block at a time.
  void CopyLogits(const LayerCall& call, int64_t first_row, int64_t count, void* logits,
                  void* workspace, void* out) {
    for (int64_t row = first_row; row < first_row + count;) {
      const int64_t block = row / blocks_.rows, in_block = row % blocks_.rows;
      const int64_t some = std::min(blocks_.rows - in_block, first_row + count - row);
      Multiply(call, block, logits, workspace);
      CopyRows(call, some, At(logits, in_block * width()), At(out, (row - first_row) * vocab_));
      row += some;
    }
  }

 private:
  int64_t width() const { return lm_head_->out_width(); }

  // Without what is behind the vocabulary.
  void CopyRows(const LayerCall& call, int64_t rows, void* logits, void* out) const {
    const int64_t at_once = width() == vocab_ ? rows : 1;
    for (int64_t row = 0; row < rows; row += at_once) {
      kernels().copy(call.stream, At(out, row * vocab_), At(logits, row * width()),
                     static_cast<size_t>(at_once * vocab_ * SizeOf(dtype())));
    }
  }

  void* At(void* tensor, int64_t element) const {
    return static_cast<std::byte*>(tensor) + element * SizeOf(dtype());
  }

  int64_t vocab_;
  float soft_cap_;
  HeadBlocks blocks_;
  Norm norm_;
  const Map* lm_head_;
  int normed_;
};

// Cross-entropy turns the logits into their gradient where they lie, so one tensor serves F, I and
// W.
class WholeHead : public Head {
 public:
  WholeHead(const DecoderConfig& config, const LayerContext& context)
      : Head(config, context, {.rows = context.batch.rows(), .count = 1}) {
    logits_ =
        AddTensor("logits", dtype(), logits_shape(),
                  trains_map() ? Lifetime::kForwardToWeightGrad : Lifetime::kForwardToInputGrad);
    d_normed_ = AddTensor("da", dtype(), {rows(), dim()}, Lifetime::kInputGradScratch);
    const Linear& kernel = map().kernel();
    forward_workspace_ = AddWorkspace("forward_workspace", Lifetime::kForwardScratch,
                                      {kernel.forward_workspace(), entropy_workspace()});
    input_workspace_ = AddWorkspace("input_grad_workspace", Lifetime::kInputGradScratch,
                                    {kernel.input_grad_workspace(), norm().backward_workspace()});
    weight_workspace_ = AddWorkspace("weight_grad_workspace", Lifetime::kWeightGradScratch,
                                     {map().weight_grad_workspace()});
  }

  void Forward(const LayerCall& call) override {
    Normalise(call);
    if (call.targets == nullptr) return;
    Multiply(call, 0, Tensor(call, logits_), Tensor(call, forward_workspace_));
    CrossEntropy(call, 0, call.loss, Tensor(call, logits_), Tensor(call, forward_workspace_));
  }
  void BackwardInput(const LayerCall& call) override {
    map().BackwardInput(call, Tensor(call, logits_), nullptr, Tensor(call, d_normed_),
                        Tensor(call, input_workspace_));
    norm().Backward(call, Tensor(call, d_normed_), call.input, nullptr, call.input_grad,
                    Tensor(call, input_workspace_));
  }
  void BackwardWeight(const LayerCall& call) override {
    WeightPass pass{.workspace = Tensor(call, weight_workspace_),
                    .biases = {}};  // there is no bias
    map().BackwardWeight(call, Normed(call, 0), Tensor(call, logits_), &pass);
    AddNormGradients(call);
  }
  void Logits(const LayerCall& call, int64_t first_row, int64_t count, void* out) override {
    CopyLogits(call, first_row, count, Tensor(call, logits_), Tensor(call, forward_workspace_),
               out);
  }

 private:
  int logits_, d_normed_;
  int forward_workspace_, input_workspace_, weight_workspace_;
};

// A block of rows at a time. F already takes the gradient of the normed rows, while their logits
// are there, and W computes the logits once more. Blocks are of rows, not of words, so that each
// row's softmax and its gradient, a sum over all words, are those of one product.
class BlockedHead : public Head {
 public:
  BlockedHead(const DecoderConfig& config, const LayerContext& context, const HeadBlocks& blocks)
      : Head(config, context, blocks) {
    d_normed_ =
        AddTensor("da", dtype(), {blocks.padded_rows(), dim()}, Lifetime::kForwardToInputGrad);
    forward_logits_ = AddTensor("logits", dtype(), logits_shape(), Lifetime::kForwardScratch);
    const Linear& kernel = map().kernel();
    forward_workspace_ = AddWorkspace(
        "forward_workspace", Lifetime::kForwardScratch,
        {kernel.forward_workspace(), entropy_workspace(), kernel.input_grad_workspace()});
    input_workspace_ = AddWorkspace("input_grad_workspace", Lifetime::kInputGradScratch,
                                    {norm().backward_workspace()});
    if (!trains_map()) return;
    weight_logits_ = AddTensor("logits", dtype(), logits_shape(), Lifetime::kWeightGradScratch);
    weight_workspace_ = AddWorkspace(
        "weight_grad_workspace", Lifetime::kWeightGradScratch,
        {kernel.forward_workspace(), entropy_workspace(), kernel.weight_grad_workspace()});
    decl_.targets_use = LastUse::kWeightGrad;
  }

  void Forward(const LayerCall& call) override {
    Normalise(call);
    if (call.targets == nullptr) return;
    void* const logits = Tensor(call, forward_logits_);
    void* const workspace = Tensor(call, forward_workspace_);
    for (int64_t block = 0; block < blocks().count; ++block) {
      Multiply(call, block, logits, workspace);
      CrossEntropy(call, block, call.loss, logits, workspace);
      if (call.loss_scale == 0) continue;
      map().BackwardInput(call, logits, nullptr, Rows(call, d_normed_, block), workspace);
    }
  }
  void BackwardInput(const LayerCall& call) override {
    norm().Backward(call, Tensor(call, d_normed_), call.input, nullptr, call.input_grad,
                    Tensor(call, input_workspace_));
  }
  void BackwardWeight(const LayerCall& call) override {
    void* const logits = Tensor(call, weight_logits_);
    void* const workspace = Tensor(call, weight_workspace_);
    WeightPass pass{.workspace = workspace, .biases = {}};  // there is no bias
    LayerCall of_block = call;
    const int64_t count = trains_map() ? blocks().count : 0;
    for (int64_t block = 0; block < count; ++block) {
      Multiply(call, block, logits, workspace);
      CrossEntropy(call, block, /*loss=*/nullptr, logits, workspace);
      of_block.accumulate = call.accumulate || block > 0;
      map().BackwardWeight(of_block, Normed(call, block), logits, &pass);
    }
    AddNormGradients(call);
  }
  void Logits(const LayerCall& call, int64_t first_row, int64_t count, void* out) override {
    CopyLogits(call, first_row, count, Tensor(call, forward_logits_),
               Tensor(call, forward_workspace_), out);
  }

 private:
  int d_normed_, forward_logits_;
  int forward_workspace_, input_workspace_;
  // Only where the map is trained.
  int weight_logits_ = kAbsent, weight_workspace_ = kAbsent;
};

}  // namespace

std::unique_ptr<Layer> MakeHead(const DecoderConfig& config, const LayerContext& context) {
  return MakeHead(config, context,
                  config.head_blocks(context.batch.rows(), context.kernels->head_limits));
}

std::unique_ptr<Layer> MakeHead(const DecoderConfig& config, const LayerContext& context,
                                const HeadBlocks& blocks) {
  if (blocks.whole()) return std::make_unique<WholeHead>(config, context);
  return std::make_unique<BlockedHead>(config, context, blocks);
}

}  // namespace sluice
