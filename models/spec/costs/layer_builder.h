#ifndef SLUICE_MODELS_SPEC_COSTS_LAYER_BUILDER_H_
#define SLUICE_MODELS_SPEC_COSTS_LAYER_BUILDER_H_

#include <cstdint>
#include <initializer_list>
#include <string>

#include "models/spec/costs/decoder_layer.h"
#include "models/spec/costs/decoder_parts.h"
#include "models/spec/dtype.h"
#include "models/spec/head_blocks.h"
#include "models/spec/layer_spec.h"

namespace sluice {

// `whole` over `parts`, of the fullest.
inline int64_t Share(int64_t whole, int64_t parts) { return (whole + parts - 1) / parts; }

// What the ranks that share a layer have slices of: a map's outputs, or its inputs, after which
// they sum what they have (Shoeybi et al., Megatron-LM, 2019, section 3).
enum class MapCut : uint8_t { kOutputs, kInputs };

// One map with weights, a rank's part of it: every row of its input costs in x out multiply-adds.
struct DecoderMap {
  int64_t in = 0;
  int64_t out = 0;
  bool bias = false;
  int64_t copies = 1;       // experts
  double used = 1;          // how many of the copies a token goes through
  bool same_input = false;  // as the map before it, which keeps it
  DecoderPart part = DecoderPart::kOther;
  MapCut cut = MapCut::kOutputs;

  int64_t parameters() const { return weights() + biases(); }
  int64_t weights() const { return copies * in * out; }
  int64_t biases() const { return bias ? copies * out : 0; }
  // Elements of one side that a token brings along.
  int64_t width(int64_t side) const {
    return static_cast<int64_t>(used * static_cast<double>(side));
  }
  double multiply_adds() const { return used * static_cast<double>(in) * static_cast<double>(out); }
};

// Collects what one layer of a decoder has: parameters, FLOPs, and what it keeps.
//
// Adapters are cut as PEFT cuts those of Megatron-LM's maps (src/peft/tuners/lora/tp_layer.py,
// LoraParallelLinear). Beside a map whose outputs are cut, every rank has all of A, and of B the
// rows of its outputs; I sums the gradient of u = A x (tokens x rank). Beside a map whose inputs
// are cut, A is cut like them, F sums u, and every rank has all of B. With sequence parallelism
// what is whole on every rank works on a slice of the tokens, and each sum is a reduce-scatter one
// way and an all-gather the other way.
class LayerBuilder {
 public:
  // `parts`, which may be empty, is asked about `block`, and outlives the builder.
  LayerBuilder(std::string name, const BatchShape& batch, DType dtype,
               const DecoderKernels& kernels, const TrainedParts& parts, int64_t block = 0);

  // With its adapter, if it has one.
  void AddLinear(const DecoderMap& linear);
  // A map whose output is there for one block of rows at a time, with its gradient in its place.
  void AddInBlocks(const DecoderMap& linear, const HeadBlocks& blocks);
  // A gain per element of `width` and, where `centered`, a bias.
  void AddNorm(DecoderPart part, int64_t width, bool centered);
  // Other parameters; less than none takes away what an AddLinear after it adds, but is elsewhere.
  void AddWeights(DecoderPart part, int64_t count);
  // Products of activations, as attention's: both their gradients belong to the input gradient.
  // `multiply_adds` are those that count as FLOPs; kernels may do more.
  void AddProduct(double multiply_adds, const MatrixProduct& done);
  void AddSums(int forward, int input_grad);
  // `width` elements of the compute type a row.
  void Keep(const char* op, int64_t width, bool rebuilt = false, bool kept = true);
  // Like Keep(), for tensors that are not split over the tensor-parallel ranks (with sequence
  // parallelism: this rank's tokens).
  void KeepWhole(const char* op, int64_t width, bool rebuilt = false, bool kept = true);
  void KeepMask(const char* op, int64_t width);
  void KeepBytes(const char* op, int64_t bytes, bool rebuilt = false, bool kept = true);

  // Whether W of any of the maps reads the map's input.
  bool ReadsInput(std::initializer_list<DecoderPart> maps) const;
  void set_output(int64_t width) { layer_.spec.output_elements = rows_ * width; }
  int64_t rows() const { return rows_; }
  int64_t element() const { return element_; }
  DecoderLayer Take() { return std::move(layer_); }

 private:
  PartTraining Of(DecoderPart part) const;
  double Flops(const DecoderMap& linear) const;
  MatrixProduct Product(const DecoderMap& linear) const;
  void CountParameters(const DecoderMap& linear, const PartTraining& trained);
  void CountWeightGrad(const DecoderMap& linear, const PartTraining& trained);
  void AddAdapter(const DecoderMap& linear, const PartTraining& trained);
  // A or B: `rows` of `in` values each become `out`.
  void AddNarrow(int64_t rows, int64_t in, int64_t out);
  void AddPasses(MapCut cut, int64_t rank);
  void KeepDropped(const DecoderMap& linear);
  // Bytes that an F needs on top of what is kept, and that any call does.
  void NeedWorkspace(int64_t forward, int64_t any);

  int64_t rows_, own_rows_, element_;
  bool sequence_, shared_;
  const TrainedParts& parts_;
  int64_t block_;
  // Whether W reads the input of the map added last, and of those before it with the same.
  bool input_read_ = false;
  DecoderLayer layer_;
};

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_COSTS_LAYER_BUILDER_H_
