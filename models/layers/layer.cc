#include "models/layers/layer.h"

#include <functional>
#include <numeric>

namespace sluice {

int64_t ElementCount(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

int64_t TrainedElements(const ParameterDecl& parameter) {
  return parameter.frozen ? 0 : ElementCount(parameter.shape);
}

}  // namespace sluice
