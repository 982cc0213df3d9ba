#include "models/kernels/cudnn/attention_graph.h"

#include <limits>

namespace sluice::cudnn {
namespace {

// Tensors of one shape of attention.
class Builder {
 public:
  Builder(const AttentionShape& shape, TensorGraph* graph)
      : s_(shape), width_(shape.width), graph_(*graph) {}

  int Queries() { return graph_.Add(Rows(s_.heads, s_.q_stride)); }
  int Keys() { return graph_.Add(Rows(s_.kv_heads, s_.kv_stride)); }
  // The same, as the second factor of a product with its transposed.
  int KeysTransposed() {
    const GraphTensor rows = Rows(s_.kv_heads, s_.kv_stride);
    return graph_.Add({.dims = {s_.batch, s_.kv_heads, width_, s_.seq},
                       .strides = {rows.strides[0], rows.strides[1], 1, rows.strides[2]},
                       .element = Element::kBFloat16});
  }
  int Output() { return graph_.Add(Rows(s_.heads, s_.heads * width_)); }
  // One number for each row and head; in memory, or virtual.
  int PerRow(bool is_virtual) {
    return graph_.Add({.dims = {s_.batch, s_.heads, s_.seq, 1},
                       .strides = {s_.heads * s_.seq, s_.seq, 1, 1},
                       .is_virtual = is_virtual});
  }
  int Scores() { return graph_.Add(Square(Element::kFloat32)); }
  int Scale() { return graph_.AddConstant(ScoreScale(s_)); }

  // -infinity where the key comes after the query.
  int Masked(int scores) {
    const int minus_infinity = graph_.AddConstant(-std::numeric_limits<float>::infinity());
    const int row = graph_.Apply({.op = GraphOp::kIndex, .a = scores, .axis = 2}, Element::kInt32);
    const int column =
        graph_.Apply({.op = GraphOp::kIndex, .a = scores, .axis = 3}, Element::kInt32);
    const int seen =
        graph_.Apply({.op = GraphOp::kAtLeast, .a = row, .b = column}, Element::kBoolean);
    return graph_.Apply({.op = GraphOp::kSelect, .a = scores, .b = minus_infinity, .choice = seen});
  }

  // bf16, with its last two dimensions exchanged.
  int Transposed(int square) {
    GraphTensor transposed = Square(Element::kBFloat16);
    std::swap(transposed.strides[2], transposed.strides[3]);
    return graph_.Apply({.op = GraphOp::kReshape, .a = square, .result = graph_.Add(transposed)});
  }
  // Keys in their original layout, from KeysTransposed().
  int Upright(int keys) {
    GraphTensor upright = Rows(s_.kv_heads, s_.kv_stride);
    upright.is_virtual = true;
    upright.element = Element::kFloat32;
    return graph_.Apply({.op = GraphOp::kReshape, .a = keys, .result = graph_.Add(upright)});
  }
  // The fp32 products of the outputs before they are added up.
  int OutputProducts() {
    GraphTensor products = Rows(s_.heads, s_.heads * width_);
    products.strides[1] = s_.seq * width_;  // as the pattern requires; no data are stored there
    products.is_virtual = true;
    products.element = Element::kFloat32;
    return graph_.Add(products);
  }

  // result = a * b, the gradient of keys or values: of grouped queries the sum over those of each
  // query head, which the pattern has in bf16.
  void KeyGradient(int a, int b, int result) {
    if (s_.kv_heads == s_.heads) {
      graph_.Apply({.op = GraphOp::kMatmul, .a = a, .b = b, .result = result});
      return;
    }
    const int of_heads =
        graph_.Add({.dims = {s_.batch, s_.heads, s_.seq, width_},
                    .strides = {s_.heads * s_.seq * width_, s_.seq * width_, width_, 1},
                    .element = Element::kBFloat16,
                    .is_virtual = true});
    graph_.Apply({.op = GraphOp::kMatmul, .a = a, .b = b, .result = of_heads});
    graph_.Apply({.op = GraphOp::kSum, .a = of_heads, .result = result});
  }

 private:
  GraphTensor Rows(int64_t heads, int64_t row) const {
    return {.dims = {s_.batch, heads, s_.seq, width_},
            .strides = {s_.seq * row, width_, row, 1},
            .element = Element::kBFloat16};
  }
  GraphTensor Square(Element element) const {
    return {.dims = {s_.batch, s_.heads, s_.seq, s_.seq},
            .strides = {s_.heads * s_.seq * s_.seq, s_.seq * s_.seq, s_.seq, 1},
            .element = element,
            .is_virtual = true};
  }

  const AttentionShape s_;
  const int64_t width_;
  TensorGraph& graph_;
};

}  // namespace

AttentionForwardGraph MakeForwardGraph(const AttentionShape& shape) {
  using enum GraphOp;
  AttentionForwardGraph made;
  TensorGraph& graph = made.graph;
  Builder build(shape, &graph);
  made.queries = build.Queries();
  made.keys = build.KeysTransposed();
  made.values = build.Keys();
  made.out = build.Output();
  made.lse = build.PerRow(false);

  const int raw =
      graph.Apply({.op = kMatmul, .a = made.queries, .b = made.keys, .result = build.Scores()});
  const int scaled = graph.Apply({.op = kMultiply, .a = raw, .b = build.Scale()});
  const int scores = build.Masked(scaled);
  const int largest = graph.Apply({.op = kMaximum, .a = scores, .result = build.PerRow(true)});
  const int shifted = graph.Apply({.op = kSubtract, .a = scores, .b = largest});
  const int powers = graph.Apply({.op = kExp, .a = shifted});
  const int sum = graph.Apply({.op = kSum, .a = powers, .result = build.PerRow(true)});
  const int log = graph.Apply({.op = kLog, .a = sum});
  graph.Apply({.op = kAdd, .a = largest, .b = log, .result = made.lse});
  const int weights = graph.Apply({.op = kDivide, .a = powers, .b = sum}, Element::kBFloat16);
  graph.Apply({.op = kMatmul, .a = weights, .b = made.values, .result = made.out});
  return made;
}

AttentionBackwardGraph MakeBackwardGraph(const AttentionShape& shape) {
  using enum GraphOp;
  AttentionBackwardGraph made;
  TensorGraph& graph = made.graph;
  Builder build(shape, &graph);
  made.queries = build.Queries();
  made.keys = build.KeysTransposed();
  made.values = build.KeysTransposed();
  made.out = build.Output();
  made.lse = build.PerRow(false);
  made.dout = build.Output();
  made.row_sums = build.PerRow(false);
  made.dqueries = build.Queries();
  made.dkeys = build.Keys();
  made.dvalues = build.Keys();
  const int scale = build.Scale();

  const int products = graph.Apply(
      {.op = kMultiply, .a = made.dout, .b = made.out, .result = build.OutputProducts()});
  const int sums = graph.Apply({.op = kSum, .a = products, .result = build.PerRow(true)});
  // The pattern multiplies by the share that dropout keeps, which is 1.
  graph.Apply({.op = kMultiply, .a = sums, .b = graph.AddConstant(1), .result = made.row_sums});

  const int raw =
      graph.Apply({.op = kMatmul, .a = made.queries, .b = made.keys, .result = build.Scores()});
  const int scaled = graph.Apply({.op = kMultiply, .a = raw, .b = scale});
  const int log_weights = graph.Apply({.op = kSubtract, .a = scaled, .b = made.lse});
  const int weights = graph.Apply({.op = kExp, .a = build.Masked(log_weights)});
  build.KeyGradient(build.Transposed(weights), made.dout, made.dvalues);

  const int dweights =
      graph.Apply({.op = kMatmul, .a = made.dout, .b = made.values, .result = build.Scores()});
  const int centered = graph.Apply({.op = kSubtract, .a = dweights, .b = made.row_sums});
  const int dscaled = graph.Apply({.op = kMultiply, .a = centered, .b = weights});
  const int dscores = graph.Apply({.op = kMultiply, .a = dscaled, .b = scale});
  build.KeyGradient(build.Transposed(dscores), made.queries, made.dkeys);
  graph.Apply(
      {.op = kMatmul, .a = dscores, .b = build.Upright(made.keys), .result = made.dqueries});
  return made;
}

}  // namespace sluice::cudnn
