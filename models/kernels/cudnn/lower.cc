#include "models/kernels/cudnn/lower.h"

#include <vector>

namespace sluice::cudnn {
namespace {

cudnnDataType_t DataType(Element element) {
  switch (element) {
    case Element::kFloat32:
      return CUDNN_DATA_FLOAT;
    case Element::kBFloat16:
      return CUDNN_DATA_BFLOAT16;
    case Element::kInt32:
      return CUDNN_DATA_INT32;
    case Element::kBoolean:
      return CUDNN_DATA_BOOLEAN;
  }
  return CUDNN_DATA_FLOAT;
}

cudnnPointwiseMode_t Mode(GraphOp op) {
  switch (op) {
    case GraphOp::kAdd:
      return CUDNN_POINTWISE_ADD;
    case GraphOp::kSubtract:
      return CUDNN_POINTWISE_SUB;
    case GraphOp::kDivide:
      return CUDNN_POINTWISE_DIV;
    case GraphOp::kExp:
      return CUDNN_POINTWISE_EXP;
    case GraphOp::kLog:
      return CUDNN_POINTWISE_LOG;
    case GraphOp::kIndex:
      return CUDNN_POINTWISE_GEN_INDEX;
    case GraphOp::kAtLeast:
      return CUDNN_POINTWISE_CMP_GE;
    case GraphOp::kSelect:
      return CUDNN_POINTWISE_BINARY_SELECT;
    default:
      return CUDNN_POINTWISE_MUL;
  }
}

class Lowering {
 public:
  Lowering(const TensorGraph& graph, Descriptors* make) : make_(*make) {
    for (size_t i = 0; i < graph.tensors.size(); ++i) {
      tensors_.push_back(LowerTensor(graph.tensors[i], UniqueId(static_cast<int>(i))));
    }
  }

  cudnnBackendDescriptor_t LowerNode(const GraphNode& node) {
    switch (node.op) {
      case GraphOp::kMatmul:
        return LowerMatmul(node);
      case GraphOp::kReshape:
        return LowerReshape(node);
      case GraphOp::kMaximum:
      case GraphOp::kSum:
        return LowerReduction(node);
      default:
        return LowerPointwise(node);
    }
  }

 private:
  static constexpr int64_t kAlignment = 16;  // bytes, of every tensor

  cudnnBackendDescriptor_t LowerTensor(const GraphTensor& tensor, int64_t id) {
    cudnnBackendDescriptor_t made = make_.New(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    make_.Set(made, CUDNN_ATTR_TENSOR_DATA_TYPE, DataType(tensor.element));
    make_.Set(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, tensor.dims.data());
    make_.Set(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, tensor.strides.data());
    make_.Set(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
    make_.Set(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
    if (tensor.is_virtual) make_.Set(made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, true);
    if (tensor.constant.has_value()) make_.Set(made, CUDNN_ATTR_TENSOR_IS_BY_VALUE, true);
    make_.Finish(made, "a tensor");
    return made;
  }

  cudnnBackendDescriptor_t At(int position) const {
    return tensors_[static_cast<size_t>(position)];
  }

  cudnnBackendDescriptor_t LowerMatmul(const GraphNode& node) {
    cudnnBackendDescriptor_t matmul = make_.New(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    make_.Set(matmul, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    make_.Finish(matmul, "a product");
    cudnnBackendDescriptor_t made = make_.New(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    make_.Set(made, CUDNN_ATTR_OPERATION_MATMUL_ADESC, At(node.a));
    make_.Set(made, CUDNN_ATTR_OPERATION_MATMUL_BDESC, At(node.b));
    make_.Set(made, CUDNN_ATTR_OPERATION_MATMUL_CDESC, At(node.result));
    make_.Set(made, CUDNN_ATTR_OPERATION_MATMUL_DESC, matmul);
    make_.Finish(made, "a product of tensors");
    return made;
  }

  cudnnBackendDescriptor_t LowerReshape(const GraphNode& node) {
    cudnnBackendDescriptor_t made = make_.New(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    make_.Set(made, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, At(node.a));
    make_.Set(made, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, At(node.result));
    make_.Finish(made, "a transposed tensor");
    return made;
  }

  cudnnBackendDescriptor_t LowerReduction(const GraphNode& node) {
    const cudnnReduceTensorOp_t op =
        node.op == GraphOp::kSum ? CUDNN_REDUCE_TENSOR_ADD : CUDNN_REDUCE_TENSOR_MAX;
    cudnnBackendDescriptor_t reduction = make_.New(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    make_.Set(reduction, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &op);
    make_.Set(reduction, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    make_.Finish(reduction, "a reduction");
    cudnnBackendDescriptor_t made = make_.New(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    make_.Set(made, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, At(node.a));
    make_.Set(made, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, At(node.result));
    make_.Set(made, CUDNN_ATTR_OPERATION_REDUCTION_DESC, reduction);
    make_.Finish(made, "a reduced tensor");
    return made;
  }

  cudnnBackendDescriptor_t LowerPointwise(const GraphNode& node) {
    const cudnnPointwiseMode_t mode = Mode(node.op);
    cudnnBackendDescriptor_t pointwise = make_.New(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    make_.Set(pointwise, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    make_.Set(pointwise, CUDNN_ATTR_POINTWISE_MATH_PREC,
              node.op == GraphOp::kAtLeast ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT);
    if (node.op == GraphOp::kIndex) {
      make_.Set(pointwise, CUDNN_ATTR_POINTWISE_AXIS, int64_t{node.axis});
    }
    make_.Finish(pointwise, "an operation on elements");
    cudnnBackendDescriptor_t made = make_.New(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    make_.Set(made, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise);
    make_.Set(made, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, At(node.a));
    if (node.b >= 0) make_.Set(made, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, At(node.b));
    if (node.choice >= 0) make_.Set(made, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, At(node.choice));
    make_.Set(made, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, At(node.result));
    make_.Finish(made, "a tensor element by element");
    return made;
  }

  Descriptors& make_;
  std::vector<cudnnBackendDescriptor_t> tensors_;
};

}  // namespace

cudnnBackendDescriptor_t Lower(const TensorGraph& graph, cudnnHandle_t handle, Descriptors* make) {
  Lowering lowering(graph, make);
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const GraphNode& node : graph.nodes) operations.push_back(lowering.LowerNode(node));
  cudnnBackendDescriptor_t made = make->New(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  make->Set(made, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            static_cast<int64_t>(operations.size()), operations.data());
  if (handle != nullptr) make->Set(made, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, handle);
  make->Finish(made, "an operation graph");
  return made;
}

}  // namespace sluice::cudnn
