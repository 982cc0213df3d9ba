#ifndef SLUICE_MODELS_LAYERS_SELF_ATTENTION_H_
#define SLUICE_MODELS_LAYERS_SELF_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "models/layers/decoder_names.h"
#include "models/layers/norm.h"
#include "models/layers/projections.h"
#include "models/layers/rotary.h"

namespace sluice {

// InvalidArgument where the kernels' attention does not take the heads of block `block`.
absl::StatusOr<std::unique_ptr<Attention>> MakeBlockAttention(const DecoderConfig& config,
                                                              int64_t block,
                                                              const LayerContext& context);

// The first half of a block, between its norm and the residual stream:
//
//   q, k, v = input * their maps
//   qn, kn  = norm(q), norm(k), over each head       where the model has such norms
//   turned by their positions                        where positions are rotary: always with norms
//   att     = attention(qn, kn, v)
//   output  = att * its map + residual
//
// I needs q, k, v and lse, and att; W needs the input and att. What is cheap to rebuild: qn, kn,
// att and lse.
class SelfAttention {
 public:
  // Declares parameters and tensors in `layer`, which outlives this.
  SelfAttention(NormedLayer* layer, const DecoderConfig& config, int64_t block,
                const BlockNames& names, float output_stddev, std::unique_ptr<Attention> attention);

  // Whether BackwardWeight reads its input, and its output_grad.
  bool weight_grad_reads_input() const { return projections_.weight_grad_reads_input(); }
  bool weight_grad_reads_output_grad() const {
    return output_map_->weight_grad_reads_output_grad();
  }
  // Columns that input_grad needs: while it is computed, it holds the gradient of att as well.
  int64_t input_grad_width() const;
  // What attention itself and the norms of heads need; the maps are the layer's.
  size_t forward_workspace() const;
  size_t input_grad_workspace() const;

  void Pack(const LayerCall& call) const;
  // input, output, residual (nullable) and their gradients are [rows, dim].
  void Forward(const LayerCall& call, const void* input, const void* residual, void* output,
               void* workspace) const;
  void Restore(const LayerCall& call, void* workspace) const;
  void BackwardInput(const LayerCall& call, const void* output_grad, void* input_grad,
                     void* workspace) const;
  void BackwardWeight(const LayerCall& call, const void* input, const void* output_grad,
                      LinearLayer::WeightPass* pass) const;

 private:
  // Norms over each head's query and key, and what they make of both; the gradients of that are
  // I's scratch.
  struct HeadNorms {
    Norm q, k;
    int qn, kn, dqn, dkn;
  };

  HeadNorms AddHeadNorms(const BlockNames& names) const;
  // What attention reads, and where it writes the gradients of that.
  Projections::Heads Attended(const LayerCall& call) const;
  Projections::Heads AttendedGradients(const LayerCall& call) const;
  // With norms, of heads of queries and of keys.
  Norm::Turn QueryTurn(const LayerCall& call) const;
  Norm::Turn KeyTurn(const LayerCall& call) const;
  void NormAndTurn(const LayerCall& call) const;
  void Turn(const LayerCall& call) const;
  void Attend(const LayerCall& call, void* workspace) const;
  void AddCache();

  NormedLayer* layer_;
  int64_t heads_, kv_heads_, width_;
  Projections projections_;
  std::optional<HeadNorms> norms_;
  std::optional<Rotary> rotary_;
  const LinearLayer::Map* output_map_;
  AttentionShape shape_;
  std::unique_ptr<Attention> attention_;
  int att_, lse_;
  int cache_ = LayerBase::kAbsent;  // of a layer that continues a sequence
};

}  // namespace sluice

#endif  // SLUICE_MODELS_LAYERS_SELF_ATTENTION_H_
