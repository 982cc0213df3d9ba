#ifndef SLUICE_MODELS_KERNELS_KERNELS_H_
#define SLUICE_MODELS_KERNELS_KERNELS_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "models/device/device.h"
#include "models/kernels/dropout_mask.h"
#include "models/spec/dtype.h"
#include "models/spec/head_blocks.h"

namespace sluice {

enum class Activation : uint8_t {
  kNone,
  kGelu,  // the tanh form (GPT-2's "gelu_new")
  kRelu,
  kSilu  // x * sigmoid(x) (Elfwing et al. 2017)
};

// y[rows, out] = x[rows, in] * W + bias. W is stored [in, out], or [out, in] where
// `weight_transposed`, in fp32 or in bf16, of which no copy is made.
struct LinearShape {
  int64_t rows = 0;
  int64_t in = 0;
  int64_t out = 0;
  DType dtype = DType::kFloat32;         // of x, y and their gradients
  DType weight_dtype = DType::kFloat32;  // of W; kBFloat16 only where dtype is
  bool weight_transposed = false;
  bool bias = true;
  Activation activation = Activation::kNone;        // applied to y; see Forward
  Activation input_activation = Activation::kNone;  // what made x; see BackwardInput
  bool add_input_grad = false;  // see BackwardInput; not with an input_activation
  // Where not 0: the length of a row of y and dy, more than `out`, and the rows of W, which is stored
  // [padded_out, in]. Rows of W behind the outputs are 0, and so is what lies behind them in y and
  // must be in dy. Only of kernels whose HeadLimits have a width_unit, where W is transposed, without
  // a bias, activations and residuals. The gradient of W is not padded.
  int64_t padded_out = 0;

  int64_t out_width() const { return padded_out == 0 ? out : padded_out; }
};

// One matrix product with its two gradients, its algorithms fixed at creation. Objects are not
// thread-safe (a layer owns its own); the same shape gives the same bits in every object. Work
// areas are the caller's: 64-byte aligned, of at least the size asked for, contents undefined
// before and after. No call allocates tensor or workspace memory.
class Linear {
 public:
  virtual ~Linear() = default;
  // Bytes of the compute copy of the weights (cast, re-laid out) and of the bias; 0 where both are
  // used as they are.
  virtual size_t packed_bytes() const = 0;
  virtual size_t forward_workspace() const = 0;
  virtual size_t input_grad_workspace() const = 0;
  virtual size_t weight_grad_workspace() const = 0;

  // Must be called before the first product, and after every change of the weights, which have the
  // shape's weight_dtype, or of the bias (null without one). `packed` has packed_bytes() bytes.
  virtual void Pack(Stream stream, const void* weight, const float* bias, void* packed) = 0;
  // y = x * W + bias (+ residual where not null, [rows, out] in dtype). With an activation, y is
  // the value before it and `activated` = activation(y) ([rows, out]); otherwise `activated` is
  // null.
  virtual void Forward(Stream stream, const void* x, const void* weight, const void* packed,
                       const float* bias, const void* residual, void* y, void* activated,
                       void* workspace) = 0;
  // dx[rows, in] = dy * W^T, times input_activation'(input_before_activation) element by element
  // where the shape has one. With add_input_grad, dx += dy * W^T, rounded once; but cuBLASLt rounds
  // some products, as it does in Forward before it adds a residual.
  virtual void BackwardInput(Stream stream, const void* dy, const void* weight, const void* packed,
                             const void* input_before_activation, void* dx, void* workspace) = 0;
  // dW (+)= x^T * dy in W's own layout, fp32; overwrites unless `accumulate`. The gradient of the
  // bias is Kernels::column_sums of dy.
  virtual void BackwardWeight(Stream stream, const void* x, const void* dy, float* dw,
                              bool accumulate, void* workspace) = 0;
};

// Causal self-attention of grouped queries (Ainslie et al. 2023): query head h reads key/value head
// h / (heads / kv_heads); kv_heads divides heads. A row of q has `heads` heads of `width` values
// side by side, one of k and of v has `kv_heads`; rows are position by position, sequence by
// sequence. score = scale * q . k, capped where there is a soft cap, and weights are its softmax
// over the keys that the query sees: the `window` last positions, its own included, of its
// document.
struct AttentionShape {
  int64_t batch = 0;
  int64_t seq = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t width = 0;      // of a head
  int64_t q_stride = 0;   // elements from a row of q (and dq) to the next
  int64_t kv_stride = 0;  // of k and v (and dk, dv)
  int64_t window = 0;     // 0: all positions before
  float scale = 0;        // of the scores; 0: 1 / sqrt(width) (Vaswani et al. 2017, section 3.2.1)
  // Scores become cap * tanh(score / cap) (Gemma Team 2024, Gemma 2, section 2); 0: none.
  float soft_cap = 0;
  DType dtype = DType::kFloat32;
};
inline float ScoreScale(const AttentionShape& shape) {
  return shape.scale != 0 ? shape.scale : 1.0f / std::sqrt(static_cast<float>(shape.width));
}

struct AttentionInput {
  // The first row of each; they may be parts of one tensor.
  const void* q = nullptr;
  const void* k = nullptr;
  const void* v = nullptr;
  // [batch * seq], where the device reads it: the position within its sequence of the first token
  // of each row's document. A document's rows follow each other. Null: a sequence is one document.
  const int32_t* starts = nullptr;
};

class Attention {
 public:
  virtual ~Attention() = default;
  virtual size_t forward_workspace() const = 0;
  virtual size_t backward_workspace() const = 0;
  // Must be called when weights are packed, before the first pass: a device may have to compile and
  // load kernels, which waits for everything that it runs.
  virtual void Prepare(Stream) {}
  // out is [batch * seq, heads * width]; lse is fp32 [batch, heads, seq] (log of the softmax's
  // denominator).
  virtual void Forward(Stream stream, const AttentionInput& in, void* out, float* lse,
                       void* workspace) = 0;
  // dq, dk and dv are overwritten; their rows lie as those of q, k and v do. Those of a key/value
  // head are summed over its query heads in their order and rounded once.
  virtual void Backward(Stream stream, const AttentionInput& in, const void* out, const float* lse,
                        const void* dout, void* dq, void* dk, void* dv, void* workspace) = 0;
};

// Heads of queries or keys that rotary positions turn: `heads` of `width` (even) values lie side by
// side at the start of each row, and the next row starts `stride` elements later.
struct RopeShape {
  int64_t rows = 0;
  int64_t seq = 0;
  int64_t heads = 0;
  int64_t width = 0;
  int64_t stride = 0;
  DType dtype = DType::kFloat32;
};

// A target below 0 (kNoTarget, models/spec/targets.h): nothing is expected in this row, so it counts
// neither in the loss nor among the correct, and its gradient is 0.
struct CrossEntropyShape {
  DType dtype = DType::kFloat32;
  int64_t rows = 0;
  int64_t classes = 0;
  int64_t padding = 0;  // rows behind them that have no target, but a gradient, which is 0
  // Where not 0: the length of a row. What lies in it behind the classes is not read, and its gradient
  // is 0.
  int64_t width = 0;
  // Where not 0, the logits have been through soft_cap, and their gradient is that of before.
  float soft_cap = 0;

  int64_t row_width() const { return width == 0 ? classes : width; }
};

struct AdamWStep {
  float lr = 0, beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f;
  int64_t step = 1;      // from 1, for the bias correction
  float grad_scale = 1;  // gradients are multiplied by it first (clipping)
};

struct SgdStep {
  float lr = 0, momentum = 0;
  float grad_scale = 1;  // gradients are multiplied by it first (clipping)
};

// The arrays that an optimizer changes: `n` weights and the values that belong to them. A weight is an
// fp32, or, where there are low halves, the two parts of a SplitFloat (models/spec/bfloat16.h).
struct OptimizerTensor {
  int64_t n = 0;
  void* weight = nullptr;
  uint16_t* low_halves = nullptr;
  const float* gradient = nullptr;
  float* moment1 = nullptr;  // AdamW's m, SGD's momentum
  float* moment2 = nullptr;  // AdamW's v; null for SGD
  float weight_decay = 0;
};

// x[rows, columns], and where the sums down its columns go, fp32 [columns].
struct SummedColumns {
  int64_t rows = 0;
  int64_t columns = 0;
  const void* x = nullptr;
  float* sums = nullptr;
};

// `n` values, and where they are added.
struct AddedTensor {
  int64_t n = 0;
  const float* values = nullptr;
  float* sums = nullptr;
};

// Elements of a block of block_squares.
inline constexpr int64_t kSquaresBlock = 1024;
// `n` values, and where the sums of the squares of their blocks go: each has kSquaresBlock of them,
// the last one maybe fewer.
struct SquaredTensor {
  int64_t n = 0;
  const float* values = nullptr;
  double* sums = nullptr;  // [blocks]
};
// Values per group of add_in_groups: few enough that an addition does not wait for many others, and
// enough that even the largest tensors have few groups.
inline constexpr int64_t kSumGroup = 256;

// Neighbouring values of a row that is being added up, and the state of its sum.
struct GroupedSum {
  int64_t first = 0;  // index of values[0] in the row
  int64_t n = 0;
  const double* values = nullptr;
  // The sum of the complete groups of kSumGroup, and of the incomplete group: 0 where there is
  // none.
  double* sums = nullptr;
};

// Bytes of which `hash` takes the hash.
struct HashedTensor {
  const void* data = nullptr;
  int64_t bytes = 0;
};
// Values of its work area per tensor.
inline constexpr int64_t kHashParts = 256;

// One table of free functions per device; `dtype` is the type of every void* tensor. All sums run
// in an order that depends only on the shape, whatever the number of threads. Tensors are row-major
// and do not overlap unless said. Work is queued on the stream: tensors and results are read and
// written when the stream reaches it, so they must be where the device can access them. Work areas
// as in Linear.
//
// `starts` is int32 [rows], or null where every sequence is one document: the position within its
// sequence of the first token of the row's document. So the position of row r within its document
// is r mod seq - starts[r].
struct Kernels {
  // The name of everything that decides the bits of a result. All ranks of a run must have the
  // same.
  const char* device;
  MasterWeights master_weights;
  HeadLimits head_limits;

  std::unique_ptr<Linear> (*make_linear)(const LinearShape& shape);
  // InvalidArgument where these kernels do not take the shape.
  absl::StatusOr<std::unique_ptr<Attention>> (*make_attention)(const AttentionShape& shape);

  // Attention of the next tokens of one sequence to themselves and to all tokens before them, whose
  // keys and values lie in a cache with room for `positions` tokens (CacheElements,
  // cached_attention.h). Puts keys and values of the new rows, `seq` of them, into the cache, from
  // position `first` on, and writes out [seq, heads * width]; first + seq <= positions, and `batch`
  // is 1. A row's result does not depend on `positions`, nor on how many rows come in one call.
  // in.starts is not read. Takes what make_attention takes.
  void (*attend_cached)(Stream, const AttentionShape& shape, int64_t positions, int64_t first,
                        const AttentionInput& in, void* cache, void* out, void* workspace);
  size_t (*attend_cached_workspace)(const AttentionShape& shape, int64_t positions);

  // y[r, :] = scale * wte[tokens[r], :] + wpe[position of r, :]; without the second term where wpe
  // is null. Tokens are within the vocabulary (the data set checks). Both tables are of
  // `table_dtype`, fp32 or bf16.
  void (*embedding_forward)(Stream, DType dtype, const int32_t* tokens, const int32_t* starts,
                            int64_t rows, int64_t seq, int64_t dim, float scale, DType table_dtype,
                            const void* wte, const void* wpe, void* y);
  // dwte[vocab, dim], times scale, and dwpe[max_seq, dim] (+)= their rows' gradients; dwpe may be
  // null.
  void (*embedding_backward)(Stream, DType dtype, const int32_t* tokens, const int32_t* starts,
                             int64_t rows, int64_t seq, int64_t dim, int64_t vocab, int64_t max_seq,
                             float scale, const void* dy, float* dwte, float* dwpe, bool accumulate,
                             void* workspace);
  size_t (*embedding_backward_workspace)(int64_t rows, int64_t dim);

  // y = (x - mean) * rstd * gamma + beta over each row of [rows, dim]; mean and rstd are fp32
  // [rows], written.
  void (*layer_norm_forward)(Stream, DType dtype, int64_t rows, int64_t dim, float epsilon,
                             const void* x, const float* gamma, const float* beta, void* y,
                             float* mean, float* rstd);
  // dx = residual_grad (where not null) + the gradient through the norm; dx may be residual_grad
  // itself. partial[2, dim], fp32: this micro-batch's dgamma, then dbeta, overwritten;
  // null where nobody needs them.
  void (*layer_norm_backward)(Stream, DType dtype, int64_t rows, int64_t dim, const void* dy,
                              const void* x, const float* gamma, const float* mean,
                              const float* rstd, const void* residual_grad, void* dx,
                              float* partial, void* workspace);
  size_t (*layer_norm_backward_workspace)(int64_t rows, int64_t dim);

  // y = residual (where not null) + x * rrms * (gain_offset + gamma) over each row of [rows, dim],
  // with rrms = 1 / sqrt(mean(x^2) + epsilon) (Zhang and Sennrich 2019, equation 4), fp32 [rows],
  // written. y may be the residual.
  void (*rms_norm_forward)(Stream, DType dtype, int64_t rows, int64_t dim, float epsilon,
                           float gain_offset, const void* x, const float* gamma,
                           const void* residual, void* y, float* rrms);
  // As layer_norm_backward, of the norm without a residual, whose gradient is dy itself.
  // partial[dim], fp32: this micro-batch's dgamma, overwritten, or null.
  void (*rms_norm_backward)(Stream, DType dtype, int64_t rows, int64_t dim, float gain_offset,
                            const void* dy, const void* x, const float* gamma, const float* rrms,
                            const void* residual_grad, void* dx, float* partial, void* workspace);
  size_t (*rms_norm_backward_workspace)(int64_t rows, int64_t dim);

  void (*activation_forward)(Stream, DType dtype, Activation activation, int64_t n, const void* x,
                             void* y);
  // dx = dy * activation'(x); dx may be dy.
  void (*activation_backward)(Stream, DType dtype, Activation activation, int64_t n, const void* x,
                              const void* dy, void* dx);
  // y = activation(gate) * up over n values (Shazeer 2020, "GLU Variants Improve Transformer"); y
  // may be either.
  void (*gated_forward)(Stream, DType dtype, Activation activation, int64_t n, const void* gate,
                        const void* up, void* y);
  // dgate = dy * up * activation'(gate), dup = dy * activation(gate); either may be dy.
  void (*gated_backward)(Stream, DType dtype, Activation activation, int64_t n, const void* gate,
                         const void* up, const void* dy, void* dgate, void* dup);

  // The cosines and sines of rotary positions: table[seq, 2 * pairs], of which row p has
  // magnitude * cos(p * inverse_frequencies[i]) for each of the pairs, then magnitude * sin of the
  // same. Angles are products in fp32, as in transformers. `inverse_frequencies` is in host memory,
  // and is read before the call returns.
  void (*rope_table)(Stream, int64_t seq, int64_t pairs, const float* inverse_frequencies,
                     float magnitude, float* table);
  // Turns, in place, values i and i + width / 2 of every head of x by angle i of the row's position
  // (Su et al. 2021, "RoFormer", equation 34, in the order of transformers' rotate_half): x_i
  // becomes cos x_i - sin x_(i + width / 2), and the other one cos x_(i + width / 2) + sin x_i. The
  // table has width / 2 pairs, and a row for each position that occurs. `inverse` turns back, which
  // is also the gradient.
  void (*rope)(Stream, const RopeShape& shape, const float* table, const int32_t* starts,
               bool inverse, void* x);
  // y = rope of the RMS norm of every head of x, with the same gamma[width] for all of them, as
  // rms_norm_forward and rope in one pass. x and y are as the shape says, without gaps: its stride
  // is heads * width. rrms is fp32 [rows * heads], written.
  void (*rms_norm_rope_forward)(Stream, const RopeShape& shape, float epsilon, float gain_offset,
                                const void* x, const float* gamma, const float* table,
                                const int32_t* starts, void* y, float* rrms);
  // dx = the gradient of x, where dy is that of y; dy is undefined afterwards. partial[width],
  // fp32: this micro-batch's dgamma, overwritten, or null. The work area is that of
  // rms_norm_backward, of rows * heads rows of width values.
  void (*rms_norm_rope_backward)(Stream, const RopeShape& shape, float gain_offset, void* dy,
                                 const void* x, const float* gamma, const float* rrms,
                                 const float* table, const int32_t* starts, void* dx,
                                 float* partial, void* workspace);

  // Sum over rows of -log softmax(logits)[target], in row order, in fp64; `*correct` counts rows
  // whose largest logit (the first of equals) is the target. With `accumulate`, both continue from
  // what is there, as if its rows came before; neither is written where `loss` is null. Where
  // `grad_scale` is not 0, logits [rows + padding, row_width()] become their gradients, grad_scale *
  // (softmax - onehot).
  void (*cross_entropy)(Stream, const CrossEntropyShape& shape, void* logits,
                        const int32_t* targets, float grad_scale, bool accumulate, double* loss,
                        int64_t* correct, void* workspace);
  size_t (*cross_entropy_workspace)(int64_t rows, int64_t classes);
  // x = cap * tanh(x / cap) over n values, in place (Gemma 2, 2024, section 2).
  void (*soft_cap)(Stream, DType dtype, int64_t n, float cap, void* x);

  // y = added (where not null) + x times the mask's factors, over n values, rounded once. y may be x
  // or added.
  void (*dropout)(Stream, DType dtype, int64_t n, const DropoutMask& mask, const void* x,
                  const void* added, void* y);
  // x = factor * x over n values, in place.
  void (*scale)(Stream, DType dtype, int64_t n, float factor, void* x);

  // Each one's sums (+)= the sums down its columns, in an order that its shape decides.
  void (*column_sums)(Stream, DType dtype, absl::Span<const SummedColumns> tensors, bool accumulate,
                      void* workspace);
  // By the shapes alone.
  size_t (*column_sums_workspace)(absl::Span<const SummedColumns> tensors);
  // Each tensor's sums (+)= its values.
  void (*accumulate)(Stream, absl::Span<const AddedTensor> tensors, bool add);
  // Each tensor's sums[b] = the sum of the squares, in fp64, of the values of its block b.
  void (*block_squares)(Stream, absl::Span<const SquaredTensor> tensors);
  // Continues each sum: the values of a group are added one by one, in order, starting from 0, and
  // complete groups are added to sums[0], in order. So sums[0] + sums[1] does not depend on the
  // pieces in which a row was added.
  void (*add_in_groups)(Stream, absl::Span<const GroupedSum> rows);
  // *finite = whether every value is.
  void (*all_finite)(Stream, DType dtype, int64_t n, const void* x, bool* finite);
  // hashes[i] = the hash of tensors[i]: equal bytes have equal hashes, and others the same one with
  // a probability of about 2^-64. Another kind of device may have other hashes of the same bytes.
  // `parts` has kHashParts values per tensor, undefined before and after.
  void (*hash)(Stream, absl::Span<const HashedTensor> tensors, uint64_t* parts, uint64_t* hashes);
  // Decoupled weight decay (Loshchilov & Hutter 2019): w -= lr * (m_hat / (sqrt(v_hat) + epsilon) +
  // weight_decay * w).
  void (*adamw)(Stream, const AdamWStep& step, absl::Span<const OptimizerTensor> tensors);
  // momentum = mu * momentum + grad_scale * gradient + weight_decay * w; w -= lr * momentum.
  void (*sgd)(Stream, const SgdStep& step, absl::Span<const OptimizerTensor> tensors);
  void (*copy)(Stream, void* to, const void* from, size_t bytes);
};

const Kernels& CpuKernels(MasterWeights master_weights = MasterWeights::kWhole);

}  // namespace sluice

#endif  // SLUICE_MODELS_KERNELS_KERNELS_H_
