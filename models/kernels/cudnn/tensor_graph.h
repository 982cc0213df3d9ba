#ifndef SLUICE_MODELS_KERNELS_CUDNN_TENSOR_GRAPH_H_
#define SLUICE_MODELS_KERNELS_CUDNN_TENSOR_GRAPH_H_

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

// Operations on tensors in the form of cuDNN's graph API, as plain data: plan.h makes a kernel of a
// graph, and a test evaluates it without cuDNN.
namespace sluice::cudnn {

enum class Element : uint8_t { kFloat32, kBFloat16, kInt32, kBoolean };

// A tensor always has four dimensions. A virtual one exists only inside the kernel.
struct GraphTensor {
  std::array<int64_t, 4> dims = {};
  std::array<int64_t, 4> strides = {};  // elements
  Element element = Element::kFloat32;
  bool is_virtual = false;
  std::optional<float> constant = std::nullopt;  // its only value
};

// Products and sums in fp32. A dimension of `b` that is 1 is repeated; of a product's second one, the
// heads, each element is, as often as `a` has more of them.
enum class GraphOp : uint8_t {
  kMatmul,    // result = a * b, of the last two dimensions
  kReshape,   // result = a, with its last two dimensions exchanged
  kMultiply,  // element by element, like all that follow
  kAdd,
  kSubtract,
  kDivide,
  kExp,
  kLog,      // natural
  kIndex,    // the place of an element of a along `axis`
  kAtLeast,  // a >= b
  kSelect,   // a where `choice`, else b
  kMaximum,  // along the last dimension
  kSum,      // along the last dimension, or of neighbouring heads, as the result has fewer
};

// Positions of tensors; -1 where there is none.
struct GraphNode {
  GraphOp op = GraphOp::kMatmul;
  int a = -1, b = -1, choice = -1;
  int result = -1;
  int axis = 0;
};

struct TensorGraph {
  std::vector<GraphTensor> tensors;
  std::vector<GraphNode> nodes;

  // Each returns a position in `tensors`.
  int Add(const GraphTensor& tensor) {
    tensors.push_back(tensor);
    return static_cast<int>(tensors.size()) - 1;
  }
  int AddConstant(float value) {
    return Add({.dims = {1, 1, 1, 1}, .strides = {1, 1, 1, 1}, .constant = value});
  }
  // Adds the node and, where it has no result yet, a virtual one like `a`, of type `element`.
  int Apply(GraphNode node, Element element = Element::kFloat32) {
    if (node.result < 0) {
      GraphTensor like = tensors[static_cast<size_t>(node.a)];
      like.is_virtual = true;
      like.element = element;
      node.result = Add(like);
    }
    nodes.push_back(node);
    return node.result;
  }
};

}  // namespace sluice::cudnn

#endif  // SLUICE_MODELS_KERNELS_CUDNN_TENSOR_GRAPH_H_
