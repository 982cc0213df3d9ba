#include "pipeline/run/stage_digest.h"

#include "models/spec/dtype.h"

namespace sluice {
namespace {

// Input, output, which may be a loss and a count, and their gradients.
constexpr size_t kBesideParameters = 5;

std::vector<HashedTensor> OutputOf(const LayerDecl& decl, const LayerCall& call) {
  if (!decl.output_shape.empty()) {
    return {{call.output, ElementCount(decl.output_shape) * SizeOf(decl.output_dtype)}};
  }
  return {{call.loss, sizeof(*call.loss)}, {call.correct, sizeof(*call.correct)}};
}

std::vector<HashedTensor> GradientsOf(const LayerDecl& decl, const LayerCall& call) {
  std::vector<HashedTensor> gradients;
  for (size_t p = 0; p < decl.parameters.size(); ++p) {
    const int64_t bytes = TrainedElements(decl.parameters[p]) * SizeOf(DType::kFloat32);
    if (bytes > 0) gradients.push_back({call.gradients[p], bytes});
  }
  return gradients;
}

}  // namespace

absl::Status StageDigest::Open(const RankState& state, size_t most_parameters) {
  return hashes_.Open(state, 2 * most_parameters + kBesideParameters);
}

void StageDigest::Begin(size_t layers) {
  hashes_.Clear();
  gradients_.assign(layers, {});
  has_output_ = false;
  weights_ = input_ = output_grad_ = output_ = input_grad_ = {};
}

StageDigest::Range StageDigest::Take(const std::vector<HashedTensor>& tensors) {
  const size_t first = hashes_.size();
  for (const HashedTensor& tensor : tensors) {
    if (tensor.data != nullptr) hashes_.Add(tensor.data, tensor.bytes);
  }
  hashes_.Queue();
  return {.first = first, .end = hashes_.size()};
}

void StageDigest::NoteWeights(const std::vector<HashedTensor>& weights) {
  weights_ = Take(weights);
}

void StageDigest::NoteInput(const void* input, int64_t bytes) { input_ = Take({{input, bytes}}); }

void StageDigest::NoteOutputGrad(const void* output_grad, int64_t bytes) {
  output_grad_ = Take({{output_grad, bytes}});
}

void StageDigest::Note(Step step, size_t layer, const LayerDecl& decl, const LayerCall& call) {
  switch (step) {
    case Step::kForward:
      if (layer + 1 < gradients_.size() || has_output_) return;
      has_output_ = true;
      output_ = Take(OutputOf(decl, call));
      return;
    case Step::kBackwardInput:
      if (layer > 0 || call.input_grad == nullptr) return;
      input_grad_ =
          Take({{call.input_grad, ElementCount(decl.input_shape) * SizeOf(decl.input_dtype)}});
      return;
    case Step::kBackwardWeight:
      gradients_[layer] = Take(GradientsOf(decl, call));
      return;
    default:
      return;
  }
}

// Of one tensor it is that tensor's, so that what a rank has sent can be compared with what another
// has.
uint64_t StageDigest::Of(const Range& range) const {
  std::vector<uint64_t> all;
  for (size_t i = range.first; i < range.end; ++i) all.push_back(hashes_[i]);
  return HashAll(all);
}

StageHashes StageDigest::Hashes() const {
  std::vector<uint64_t> gradients;
  for (const Range& of_layer : gradients_) gradients.push_back(Of(of_layer));
  return {.weights = Of(weights_),
          .input = Of(input_),
          .output_grad = Of(output_grad_),
          .output = Of(output_),
          .input_grad = Of(input_grad_),
          .gradients = HashAll(gradients)};
}

}  // namespace sluice
