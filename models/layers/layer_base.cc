#include "models/layers/layer_base.h"

#include <algorithm>
#include <utility>

namespace sluice {
namespace {

// Work areas and packed weights start on cache lines (and on a vector's width).
constexpr size_t kAlignment = 64;

size_t AlignUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

int LayerBase::AddParameter(ParameterDecl parameter) {
  const std::string& stored = parameter.tied_to.empty() ? parameter.name : parameter.tied_to;
  parameter.frozen = context_.adaptation.Freezes(stored);
  const bool matrix = parameter.shape.size() > 1;
  const bool splits = kernels().master_weights == MasterWeights::kSplit;
  if (matrix && parameter.frozen) {
    parameter.dtype = context_.adaptation.base_dtype;
  } else if (matrix && splits) {
    parameter.dtype = dtype();
  }
  decl_.parameters.push_back(std::move(parameter));
  return static_cast<int>(decl_.parameters.size()) - 1;
}

int LayerBase::AddTensor(std::string name, DType dtype, Shape shape, Lifetime lifetime,
                         bool restorable) {
  decl_.tensors.push_back({std::move(name), dtype, std::move(shape), lifetime, restorable});
  return static_cast<int>(decl_.tensors.size()) - 1;
}

int LayerBase::AddWorkspace(std::string name, Lifetime lifetime,
                            std::initializer_list<size_t> sizes) {
  const size_t bytes = AlignUp(std::max(sizes));
  if (bytes == 0) return kAbsent;
  const auto elements = static_cast<int64_t>(bytes) / SizeOf(DType::kFloat32);
  return AddTensor(std::move(name), DType::kFloat32, {elements}, lifetime);
}

size_t LayerBase::AddPacked(size_t bytes) {
  const size_t offset = decl_.packed_bytes;
  decl_.packed_bytes += AlignUp(bytes);
  return offset;
}

}  // namespace sluice
