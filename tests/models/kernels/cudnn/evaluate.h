#ifndef SLUICE_TESTS_MODELS_KERNELS_CUDNN_EVALUATE_H_
#define SLUICE_TESTS_MODELS_KERNELS_CUDNN_EVALUATE_H_

#include <map>

#include "models/kernels/cudnn/tensor_graph.h"

namespace sluice::cudnn {

// What the graph means, in fp64 and without rounding: reads and writes the memory of its tensors
// that are neither virtual nor constant, given by position, element by element as strides say.
void Evaluate(const TensorGraph& graph, const std::map<int, double*>& memory);

}  // namespace sluice::cudnn

#endif  // SLUICE_TESTS_MODELS_KERNELS_CUDNN_EVALUATE_H_
