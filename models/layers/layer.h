#ifndef SLUICE_MODELS_LAYERS_LAYER_H_
#define SLUICE_MODELS_LAYERS_LAYER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "models/kernels/kernels.h"
#include "models/spec/adaptation.h"
#include "models/spec/bfloat16.h"
#include "models/spec/dtype.h"
#include "models/spec/layer_spec.h"
#include "models/spec/model_spec.h"

namespace sluice {

using Shape = std::vector<int64_t>;
int64_t ElementCount(const Shape& shape);

// The period in which one micro-batch's tensor must keep its bytes. I and W may be one action (B)
// or far apart.
enum class Lifetime : uint8_t {
  kForwardToInputGrad,     // written by F (or its recomputation), last read by I
  kForwardToWeightGrad,    // written by F (or its recomputation), last read by W
  kInputGradToWeightGrad,  // written by I, last read by W
  kForwardScratch,         // work areas of one call: of Forward or Restore, ...
  kInputGradScratch,       // ... of BackwardInput, ...
  kWeightGradScratch,      // ... of BackwardWeight
};

// A tensor besides input and output that a layer needs for each micro-batch.
struct TensorDecl {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  Lifetime lifetime = Lifetime::kForwardScratch;
  // Dropped after F and rebuilt by Restore() under selective recomputation: it takes little time to
  // compute and much memory to keep.
  bool restorable = false;

  int64_t bytes() const { return ElementCount(shape) * SizeOf(dtype); }
};

struct ParameterDecl {
  enum class Init : uint8_t { kZeros, kOnes, kNormal, kUniform };
  std::string name;  // Hugging Face's, over the whole model: "transformer.h.0.attn.c_attn.weight"
  Shape shape;
  Init init = Init::kZeros;
  float stddev = 0;     // of kNormal; of kUniform the largest value, whose negative is the least
  bool decay = false;   // weight decay applies (matrices; not biases, norms)
  std::string tied_to;  // name of the parameter that this one always equals; its gradients are
                        // summed with that one's
  bool frozen = false;  // never changes: no gradient, no optimizer state; LayerCall::gradients has
                        // null in its place
  // kBFloat16 of what is frozen (Adaptation::base_dtype), or where master weights are split.
  DType dtype = DType::kFloat32;
  // Elements behind those of the shape, in the memory that LayerCall::parameters points at: 0, and
  // only read. Neither gradients nor optimizers' states have them, nor what a rank audits.
  int64_t padding = 0;

  int64_t bytes() const { return ElementCount(shape) * SizeOf(dtype); }
  int64_t stored_bytes() const { return bytes() + padding * SizeOf(dtype); }
  // Trained, and bf16: the other half of the fp32 value is part of the optimizer's state.
  bool is_split() const { return !frozen && dtype == DType::kBFloat16; }
  int64_t low_half_bytes() const {
    return is_split() ? ElementCount(shape) * static_cast<int64_t>(sizeof(SplitFloat::low)) : 0;
  }
};

// Elements that are trained: 0 of what is frozen.
int64_t TrainedElements(const ParameterDecl& parameter);

// Which of F, I, W is the last to read a boundary tensor.
enum class LastUse : uint8_t { kForward, kInputGrad, kWeightGrad };

struct LayerDecl {
  std::string name;  // "block 3"
  std::vector<ParameterDecl> parameters;
  std::vector<TensorDecl> tensors;
  size_t packed_bytes = 0;  // compute copy of the weights, rebuilt by Pack()
  DType input_dtype = DType::kFloat32;
  Shape input_shape;
  Shape output_shape;  // empty for the last layer: its output is the loss
  DType output_dtype = DType::kFloat32;
  LastUse input_use = LastUse::kForward;          // until when the input is read
  LastUse output_grad_use = LastUse::kInputGrad;  // until when the gradient of the output is read
  LastUse targets_use = LastUse::kForward;  // until when the last layer reads targets, loss_scale
  bool uses_starts = false;    // every call of it reads LayerCall::starts, where documents have any
  bool has_input_grad = true;  // false for the first layer: I computes nothing to send on
};

// The memory of one call; every pointer stays the caller's. Arrays are indexed as in the LayerDecl.
struct LayerCall {
  Stream stream;
  const void* input = nullptr;
  void* output = nullptr;
  const void* output_grad = nullptr;
  void* input_grad = nullptr;
  absl::Span<void* const> tensors;
  absl::Span<void* const> parameters;  // each of its declaration's type
  absl::Span<float* const> gradients;  // null of a frozen parameter
  void* packed = nullptr;
  // [rows], on the device: where in its sequence the document of a row begins, so that positions
  // count from there and no row sees another document. Null: every sequence is one document.
  const int32_t* starts = nullptr;
  // For what is dropped at random: the run's seed, and the number of the call's first row among all
  // rows of all steps. Negative: nothing is dropped.
  uint64_t seed = 0;
  int64_t first_row = -1;
  // Of a layer that continues a sequence (cached_layer.h): the tokens that came before.
  int64_t first_position = 0;
  bool accumulate =
      true;  // W adds to the gradients; false on a step's first micro-batch, which overwrites them
  // Last layer only.
  // [rows], below 0: kNoTarget, which counts in neither loss nor gradient. Null: F computes no loss.
  const int32_t* targets = nullptr;
  float loss_scale =
      0;  // gradient of the step's loss by one row's loss: 1 / (rows * micro-batches); 0: none
  double* loss = nullptr;      // sum over rows; F needs it with targets
  int64_t* correct = nullptr;  // rows whose largest logit is the target; F needs it with targets
};

// One layer for one micro-batch shape and compute type. Holds no tensors: it says what it needs
// (decl) and works on what it is given. Not thread-safe. Same call, same bits.
class Layer {
 public:
  virtual ~Layer() = default;
  const LayerDecl& decl() const { return decl_; }

  // Rebuilds call.packed from call.parameters; uses nothing else of the call.
  virtual void Pack(const LayerCall& call) = 0;
  // input -> output, writing every kForwardTo... tensor. A null output is not computed: enough for
  // a recomputation, as backward never reads its own layer's output.
  virtual void Forward(const LayerCall& call) = 0;
  // Rebuilds the restorable tensors from the input and the others, to the same bits as Forward.
  virtual void Restore(const LayerCall& call) = 0;
  // output_grad -> input_grad, writing the kInputGradToWeightGrad tensors. The last layer takes its
  // gradient from its own tensors. input_grad is not written where has_input_grad is false.
  virtual void BackwardInput(const LayerCall& call) = 0;
  // Adds to (or overwrites) the gradients.
  virtual void BackwardWeight(const LayerCall& call) = 0;
  // After a Forward without targets, with the same memory: the logits of rows first_row ...
  // first_row + count - 1 into `out`, [count, classes] of the compute type. Only the last layer has
  // logits; all others write nothing.
  virtual void Logits(const LayerCall& /*call*/, int64_t /*first_row*/, int64_t /*count*/,
                      void* /*out*/) {}

 protected:
  LayerDecl decl_;
};

// Layer `index` of `spec`. `adaptation` says which parameters are frozen, and which maps have an
// adapter. `kernels` must outlive the layer. InvalidArgument as CheckTrainable (trainable.h), or
// where the index is out of range, batch.seq is larger than the model's (1 for an MLP), `dtype` is
// no compute type, frozen weights are bf16 and `dtype` is not, or the kernels' attention does not
// take the heads.
absl::StatusOr<std::unique_ptr<Layer>> MakeLayer(const ModelSpec& spec, int index,
                                                 const BatchShape& batch, DType dtype,
                                                 const Kernels& kernels,
                                                 const Adaptation& adaptation = {});

// Writes a parameter's initial value, of its type, and of a split one the low halves: Philox keyed
// by `seed` and the parameter's name (by tied_to, where it has one), so it does not depend on where
// the parameter lives, and tied parameters are equal from the start.
void InitializeParameter(const ParameterDecl& decl, uint64_t seed, void* values,
                         const LowHalves& low_halves = {});

}  // namespace sluice

#endif  // SLUICE_MODELS_LAYERS_LAYER_H_
