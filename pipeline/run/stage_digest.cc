#include "pipeline/run/stage_digest.h"

#include "models/spec/dtype.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {
namespace {

uint64_t HashOutput(const LayerDecl& decl, const LayerCall& call) {
  if (!decl.output_shape.empty()) {
    return HashBytes(call.output, ElementCount(decl.output_shape) * SizeOf(decl.output_dtype));
  }
  return HashAll(
      {HashBytes(call.loss, sizeof(*call.loss)), HashBytes(call.correct, sizeof(*call.correct))});
}

uint64_t HashGradients(const LayerDecl& decl, const LayerCall& call) {
  std::vector<uint64_t> hashes;
  for (size_t p = 0; p < decl.parameters.size(); ++p) {
    const int64_t bytes = TrainedElements(decl.parameters[p]) * SizeOf(DType::kFloat32);
    if (bytes > 0) hashes.push_back(HashBytes(call.gradients[p], bytes));
  }
  return HashAll(hashes);
}

}  // namespace

uint64_t HashBytes(const void* data, int64_t bytes) {
  return XXH3_64bits(data, static_cast<size_t>(bytes));
}

uint64_t HashAll(const std::vector<uint64_t>& hashes) {
  return XXH3_64bits(hashes.data(), hashes.size() * sizeof(uint64_t));
}

void StageDigest::Begin(size_t layers) {
  gradients_.assign(layers, 0);
  has_output_ = false;
  output_ = input_grad_ = 0;
}

void StageDigest::Note(Step step, size_t layer, const LayerDecl& decl, const LayerCall& call) {
  switch (step) {
    case Step::kForward:
      if (layer + 1 < gradients_.size() || has_output_) return;
      has_output_ = true;
      output_ = HashOutput(decl, call);
      return;
    case Step::kBackwardInput:
      if (layer > 0 || call.input_grad == nullptr) return;
      input_grad_ =
          HashBytes(call.input_grad, ElementCount(decl.input_shape) * SizeOf(decl.input_dtype));
      return;
    case Step::kBackwardWeight:
      gradients_[layer] = HashGradients(decl, call);
      return;
    default:
      return;
  }
}

StageHashes StageDigest::Hashes() const {
  return {.output = output_, .input_grad = input_grad_, .gradients = HashAll(gradients_)};
}

}  // namespace sluice
