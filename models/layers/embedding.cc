#include "models/layers/decoder_names.h"
#include "models/layers/layers.h"

namespace sluice {
namespace {

// y[r] = scale * wte[token r], plus wpe[position r] where the model has such a table. There is no
// input gradient, so W reads the output's gradient and the tokens.
class Embedding : public LayerBase {
 public:
  Embedding(const DecoderConfig& config, const LayerContext& context)
      : LayerBase(context),
        dim_(config.dim),
        vocab_(config.vocab),
        max_seq_(config.max_seq),
        scale_(config.embedding_scale) {
    decl_.name = "embedding";
    const DecoderNames names = NamesOf(config);
    // A head that has this very table reads as many rows as it pads its own to.
    const int64_t rows_of_head =
        config.tied_head ? PaddedWidth(vocab_, kernels().head_limits) : vocab_;
    tokens_table_ =
        AddTable(names.token_table, vocab_, rows_of_head - vocab_, config.initializer_range);
    if (config.learned_positions)
      positions_table_ = AddTable(names.position_table, max_seq_, 0, config.initializer_range);
    const bool frozen = IsFrozen(tokens_table_);  // and with it the positions (trainable.h)
    const size_t work = frozen ? 0 : kernels().embedding_backward_workspace(rows(), dim_);
    weight_workspace_ = AddWorkspace("weight_grad_workspace", Lifetime::kWeightGradScratch, {work});
    decl_.input_dtype = DType::kInt32;
    decl_.input_shape = {rows()};
    decl_.output_dtype = dtype();
    decl_.output_shape = {rows(), dim_};
    decl_.input_use = frozen ? LastUse::kForward : LastUse::kWeightGrad;
    decl_.output_grad_use = frozen ? LastUse::kInputGrad : LastUse::kWeightGrad;
    decl_.has_input_grad = false;
    decl_.uses_starts = config.learned_positions;
  }

  void Forward(const LayerCall& call) override {
    if (call.output == nullptr) return;
    kernels().embedding_forward(call.stream, dtype(), Tokens(call), call.starts, rows(),
                                batch().seq, dim_, scale_, TypeOf(tokens_table_),
                                Parameter(call, tokens_table_), Parameter(call, positions_table_),
                                call.output);
  }
  void BackwardInput(const LayerCall&) override {}
  void BackwardWeight(const LayerCall& call) override {
    if (IsFrozen(tokens_table_)) return;
    kernels().embedding_backward(call.stream, dtype(), Tokens(call), call.starts, rows(),
                                 batch().seq, dim_, vocab_, max_seq_, scale_, call.output_grad,
                                 Gradient(call, tokens_table_), Gradient(call, positions_table_),
                                 call.accumulate, Tensor(call, weight_workspace_));
  }

 private:
  int AddTable(const char* name, int64_t entries, int64_t padding, float stddev) {
    return AddParameter({.name = name,
                         .shape = {entries, dim_},
                         .init = ParameterDecl::Init::kNormal,
                         .stddev = stddev,
                         .decay = true,
                         .tied_to = "",
                         .padding = padding * dim_});
  }
  static const int32_t* Tokens(const LayerCall& call) {
    return static_cast<const int32_t*>(call.input);
  }

  int64_t dim_, vocab_, max_seq_;
  float scale_;
  int tokens_table_ = kAbsent, positions_table_ = kAbsent;
  int weight_workspace_;
};

}  // namespace

std::unique_ptr<Layer> MakeEmbedding(const DecoderConfig& config, const LayerContext& context) {
  return std::make_unique<Embedding>(config, context);
}

}  // namespace sluice
