#include "tests/models/kernels/cudnn/evaluate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace sluice::cudnn {
namespace {

using Place = std::array<int64_t, 4>;

// Elements in row-major order.
struct Value {
  Place dims = {};
  std::vector<double> elements = {};

  int64_t Index(const Place& at) const {
    int64_t index = 0;
    for (size_t d = 0; d < 4; ++d) index = index * dims[d] + (dims[d] == 1 ? 0 : at[d]);
    return index;
  }
  double At(const Place& at) const { return elements[static_cast<size_t>(Index(at))]; }
};

void ForEach(const Place& dims, const std::function<void(const Place&)>& visit) {
  for (int64_t b = 0; b < dims[0]; ++b)
    for (int64_t h = 0; h < dims[1]; ++h)
      for (int64_t r = 0; r < dims[2]; ++r)
        for (int64_t c = 0; c < dims[3]; ++c) visit({b, h, r, c});
}

Value Fill(const Place& dims, const std::function<double(const Place&)>& element) {
  Value value = {.dims = dims};
  ForEach(dims, [&](const Place& at) { value.elements.push_back(element(at)); });
  return value;
}

int64_t Offset(const GraphTensor& tensor, const Place& at) {
  int64_t offset = 0;
  for (size_t d = 0; d < 4; ++d) offset += at[d] * tensor.strides[d];
  return offset;
}

double Elementwise(GraphOp op, double a, double b) {
  switch (op) {
    case GraphOp::kMultiply:
      return a * b;
    case GraphOp::kAdd:
      return a + b;
    case GraphOp::kSubtract:
      return a - b;
    case GraphOp::kDivide:
      return a / b;
    case GraphOp::kExp:
      return std::exp(a);
    case GraphOp::kLog:
      return std::log(a);
    case GraphOp::kAtLeast:
      return a >= b ? 1 : 0;
    default:
      ADD_FAILURE() << "not an operation on elements";
      return std::numeric_limits<double>::quiet_NaN();
  }
}

class Evaluation {
 public:
  Evaluation(const TensorGraph& graph, const std::map<int, double*>& memory)
      : graph_(graph), memory_(memory) {}

  void Run(const GraphNode& node) {
    const GraphTensor& tensor = graph_.tensors[static_cast<size_t>(node.result)];
    const Value result = Compute(node, tensor.dims);
    values_[node.result] = result;
    if (tensor.is_virtual) return;
    double* const to = memory_.at(node.result);
    ForEach(tensor.dims, [&](const Place& at) { to[Offset(tensor, at)] = result.At(at); });
  }

 private:
  const Value& Get(int position) {
    const auto known = values_.find(position);
    if (known != values_.end()) return known->second;
    const GraphTensor& tensor = graph_.tensors[static_cast<size_t>(position)];
    EXPECT_FALSE(tensor.is_virtual) << "read before it is made";
    return values_[position] = Fill(tensor.dims, [&](const Place& at) {
             if (tensor.constant.has_value()) return static_cast<double>(*tensor.constant);
             return memory_.at(position)[Offset(tensor, at)];
           });
  }

  Value Compute(const GraphNode& node, const Place& dims) {
    const Value a = Get(node.a);
    switch (node.op) {
      case GraphOp::kMatmul: {
        const Value& b = Get(node.b);
        const int64_t group = a.dims[1] / b.dims[1];
        return Fill(dims, [&](const Place& at) {
          double sum = 0;
          for (int64_t k = 0; k < a.dims[3]; ++k)
            sum += a.At({at[0], at[1], at[2], k}) * b.At({at[0], at[1] / group, k, at[3]});
          return sum;
        });
      }
      case GraphOp::kReshape:
        return Fill(dims, [&](const Place& at) { return a.At({at[0], at[1], at[3], at[2]}); });
      case GraphOp::kIndex:
        return Fill(dims, [&](const Place& at) {
          return static_cast<double>(at[static_cast<size_t>(node.axis)]);
        });
      case GraphOp::kSelect: {
        const Value &b = Get(node.b), &choice = Get(node.choice);
        return Fill(dims,
                    [&](const Place& at) { return choice.At(at) != 0 ? a.At(at) : b.At(at); });
      }
      case GraphOp::kMaximum:
      case GraphOp::kSum:
        return Reduce(node.op, a, dims);
      default: {
        const Value* const b = node.b < 0 ? nullptr : &Get(node.b);
        return Fill(dims, [&](const Place& at) {
          return Elementwise(node.op, a.At(at), b == nullptr ? 0 : b->At(at));
        });
      }
    }
  }

  static Value Reduce(GraphOp op, const Value& a, const Place& dims) {
    const size_t axis = dims[3] < a.dims[3] ? 3 : 1;
    const int64_t count = a.dims[axis] / dims[axis];
    return Fill(dims, [&](Place at) {
      double result = op == GraphOp::kSum ? 0 : -std::numeric_limits<double>::infinity();
      const int64_t first = at[axis] * count;
      for (int64_t k = first; k < first + count; ++k) {
        at[axis] = k;
        result = op == GraphOp::kSum ? result + a.At(at) : std::max(result, a.At(at));
      }
      return result;
    });
  }

  const TensorGraph& graph_;
  const std::map<int, double*>& memory_;
  std::map<int, Value> values_;
};

}  // namespace

void Evaluate(const TensorGraph& graph, const std::map<int, double*>& memory) {
  Evaluation evaluation(graph, memory);
  for (const GraphNode& node : graph.nodes) evaluation.Run(node);
}

}  // namespace sluice::cudnn
