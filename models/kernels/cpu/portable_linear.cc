#include "models/kernels/cpu/portable_linear.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <oneapi/dnnl/dnnl.hpp>

#include "models/kernels/cpu/functions.h"
#include "models/kernels/cpu/linear_bytes.h"
#include "models/kernels/cpu/threads.h"
#include "models/kernels/cpu/widen.h"
#include "models/kernels/kernel_threads.h"

namespace sluice::cpu {
namespace {

// The range of a tile along one dimension.
struct Range {
  int64_t first = 0;
  int64_t count = 0;
};

int64_t TilesOf(int64_t n, int64_t tile) { return (n + tile - 1) / tile; }

Range TileAt(int64_t index, int64_t n, int64_t tile) {
  return {index * tile, std::min(tile, n - index * tile)};
}

// [rows, columns], dense, of x's type.
struct Operand {
  const void* data = nullptr;
  int64_t columns = 0;

  Tile<const void> At(DType dtype, Range row, Range column) const {
    const int64_t first = row.first * columns + column.first;
    return {.rows = row.count,
            .columns = column.count,
            .stride = columns,
            .data = static_cast<const std::byte*>(data) + first * SizeOf(dtype)};
  }
};

// Weights of a product [rows, k] * [k, n]; stored [n, k] where `transposed`.
struct Weights {
  const void* data = nullptr;
  DType dtype = DType::kFloat32;
  int64_t k = 0, n = 0;
  bool transposed = false;

  // As they are stored: rows are columns where `transposed`.
  Tile<const void> At(Range row, Range column) const {
    return transposed ? Operand{data, k}.At(dtype, column, row)
                      : Operand{data, n}.At(dtype, row, column);
  }
};

// Of a tile of results: its rows, and its columns, as many as of the sum it takes at a time.
struct TileSize {
  int64_t rows = kTileRows;
  int64_t columns = kTileColumns;
};

// The tallest tiles for [rows, k] * [k, n] whose work area has no more than `floats`: oneDNN copies
// the weights of each. Tiles of 512 x 256 take a sixth less time than those of 128 x 1024.
TileSize TallestTile(int64_t rows, int64_t k, int64_t n, bool widens, int64_t floats) {
  TileSize best;
  for (int64_t factor : {2, 4}) {
    const TileSize tall{factor * kTileRows, kTileColumns / factor};
    const int64_t tile_k = std::min(k, tall.columns), tile_n = std::min(n, tall.columns);
    const int64_t used =
        std::min(rows, tall.rows) * (tile_k + tile_n) + (widens ? tile_k * tile_n : 0);
    if (rows > best.rows && used <= floats) best = tall;
  }
  return best;
}

// c[m, n] = a * b (+ c), row-major; 'T': stored transposed. On the calling thread.
void Multiply(char a_transposed, char b_transposed, int64_t m, int64_t n, int64_t k, const float* a,
              int64_t a_stride, const float* b, int64_t b_stride, bool adds, float* c,
              int64_t c_stride) {
  const dnnl_status_t status = dnnl_sgemm(a_transposed, b_transposed, m, n, k, 1.0f, a, a_stride, b,
                                          b_stride, adds ? 1.0f : 0.0f, c, c_stride);
  if (status != dnnl_success) throw std::bad_alloc();  // for its copies of the operands
}

// Products that need only the fp32 instructions of a processor: tile by tile, operands are
// converted to fp32, multiplied by oneDNN and added in fp32, and the result is rounded once. The
// threads divide the tiles of a result, so their number does not change its bits. bf16 with fp32
// weights keeps one copy of them: their values rounded to bf16, stored as fp32 or, of narrow weights,
// as bf16.
class PortableLinear : public Linear {
 public:
  explicit PortableLinear(const LinearShape& shape)
      : shape_(shape), threads_(ThreadsNow()), bytes_(BytesOf(shape, threads_)) {}

  size_t packed_bytes() const override { return bytes_.packed(); }
  size_t forward_workspace() const override { return bytes_.forward_work; }
  size_t input_grad_workspace() const override { return bytes_.input_grad_work; }
  size_t weight_grad_workspace() const override { return bytes_.weight_grad_work; }

  void Pack(Stream, const void* weight, const float* /*bias*/, void* packed) override {
    if (packed_bytes() == 0) return;
    if (HasPlainCopy(shape_)) {
      Narrow(shape_.dtype, static_cast<const float*>(weight), nullptr, nullptr,
             {.rows = shape_.in, .columns = shape_.out, .stride = shape_.out, .data = packed});
      return;
    }
    RoundToBFloat16Values(static_cast<size_t>(shape_.in * shape_.out),
                          static_cast<const float*>(weight), static_cast<float*>(packed));
  }

  void Forward(Stream stream, const void* x, const void* weight, const void* packed,
               const float* bias, const void* residual, void* y, void* activated,
               void* workspace) override {
    const Weights w = {Values(weight, packed), ValuesDType(), shape_.in, shape_.out,
                       shape_.weight_transposed};
    MultiplyRows(x, w, shape_.bias ? bias : nullptr, residual, y, workspace, bytes_.forward_work);
    if (activated == nullptr) return;
    ActivationForward(stream, shape_.dtype, shape_.activation, shape_.rows * shape_.out, y,
                      activated);
  }

  void BackwardInput(Stream stream, const void* dy, const void* weight, const void* packed,
                     const void* input_before_activation, void* dx, void* workspace) override {
    const Weights w = {Values(weight, packed), ValuesDType(), shape_.out, shape_.in,
                       !shape_.weight_transposed};
    MultiplyRows(dy, w, nullptr, shape_.add_input_grad ? dx : nullptr, dx, workspace,
                 bytes_.input_grad_work);
    if (shape_.input_activation == Activation::kNone) return;
    ActivationBackward(stream, shape_.dtype, shape_.input_activation, shape_.rows * shape_.in,
                       input_before_activation, dx, dx);
  }

  void BackwardWeight(Stream, const void* x, const void* dy, float* dw, bool accumulate,
                      void* workspace) override {
    const Operand in = {x, shape_.in}, out = {dy, shape_.out};
    const bool transposed = shape_.weight_transposed;
    AddOuterProducts(transposed ? out : in, transposed ? in : out, dw, accumulate, workspace);
  }

 private:
  const void* Values(const void* weight, const void* packed) const {
    return packed_bytes() == 0 ? weight : packed;
  }

  DType ValuesDType() const { return HasPlainCopy(shape_) ? shape_.dtype : shape_.weight_dtype; }

  size_t FloatsPerThread(size_t bytes) const {
    return bytes / static_cast<size_t>(threads_) / sizeof(float);
  }

  // Calls body(tile, work) for each of `tiles`, each thread with its own part of the work area.
  template <class Body>
  void ShareOut(int64_t tiles, void* workspace, size_t bytes, const Body& body) const {
    const size_t part = FloatsPerThread(bytes);
    OnThreads(threads_, [&](int thread, int count) {
      const KernelThreads inside(1);  // oneDNN would divide a sum among threads, which changes bits
      float* work = static_cast<float*>(workspace) + static_cast<size_t>(thread) * part;
      for (int64_t tile = thread; tile < tiles; tile += count) body(tile, work);
    });
  }

  // y[rows, n] = x[rows, k] * w (+ bias) (+ residual).
  void MultiplyRows(const void* x, const Weights& w, const float* bias, const void* residual,
                    void* y, void* workspace, size_t bytes) const {
    const TileSize size = TallestTile(shape_.rows, w.k, w.n, w.dtype != DType::kFloat32,
                                      static_cast<int64_t>(FloatsPerThread(bytes)));
    const int64_t across = TilesOf(w.n, size.columns);
    ShareOut(TilesOf(shape_.rows, size.rows) * across, workspace, bytes,
             [&](int64_t tile, float* work) {
               const Range row = TileAt(tile / across, shape_.rows, size.rows);
               const Range column = TileAt(tile % across, w.n, size.columns);
               float* sums = work + row.count * std::min(w.k, size.columns);
               SumTile({x, w.k}, row, w, column, size.columns, work, sums);
               Round(sums, bias, residual, {y, w.n}, row, column);
             });
  }

  // sums[rows, columns] = those rows of x times those columns of w, `at_a_time` terms together;
  // `converted` holds a tile of x, and what lies behind the sums one of w.
  void SumTile(const Operand& x, Range row, const Weights& w, Range column, int64_t at_a_time,
               float* converted, float* sums) const {
    for (int64_t t = 0; t < TilesOf(w.k, at_a_time); ++t) {
      const Range k = TileAt(t, w.k, at_a_time);
      Widen(shape_.dtype, x.At(shape_.dtype, row, k), converted);
      Tile<const void> weights = w.At(k, column);
      if (w.dtype != DType::kFloat32) {
        float* const widened = sums + row.count * column.count;
        Widen(w.dtype, weights, widened);
        weights = {weights.rows, weights.columns, weights.columns, widened};
      }
      Multiply('N', w.transposed ? 'T' : 'N', row.count, column.count, k.count, converted, k.count,
               static_cast<const float*>(weights.data), weights.stride, t > 0, sums, column.count);
    }
  }

  void Round(const float* sums, const float* bias, const void* residual, const Operand& y,
             Range row, Range column) const {
    const Tile<const void> to = y.At(shape_.dtype, row, column);
    const void* added = residual == nullptr
                            ? nullptr
                            : Operand{residual, y.columns}.At(shape_.dtype, row, column).data;
    Narrow(shape_.dtype, sums, bias == nullptr ? nullptr : bias + column.first, added,
           {to.rows, to.columns, to.stride, const_cast<void*>(to.data)});
  }

  // dw[a's columns, b's columns] (+)= a^T * b.
  void AddOuterProducts(const Operand& a, const Operand& b, float* dw, bool accumulate,
                        void* workspace) const {
    const int64_t across = TilesOf(b.columns, kTileColumns);
    ShareOut(TilesOf(a.columns, kTileColumns) * across, workspace, bytes_.weight_grad_work,
             [&](int64_t tile, float* work) {
               const Range m = TileAt(tile / across, a.columns, kTileColumns);
               const Range n = TileAt(tile % across, b.columns, kTileColumns);
               float* of_b = work + std::min(shape_.rows, kTileRows) * m.count;
               for (int64_t t = 0; t < TilesOf(shape_.rows, kTileRows); ++t) {
                 const Range row = TileAt(t, shape_.rows, kTileRows);
                 Widen(shape_.dtype, a.At(shape_.dtype, row, m), work);
                 Widen(shape_.dtype, b.At(shape_.dtype, row, n), of_b);
                 Multiply('T', 'N', m.count, n.count, row.count, work, m.count, of_b, n.count,
                          accumulate || t > 0, dw + m.first * b.columns + n.first, b.columns);
               }
             });
  }

  const LinearShape shape_;
  const int threads_;
  const LinearBytes bytes_;
};

}  // namespace

std::unique_ptr<Linear> MakePortableLinear(const LinearShape& shape) {
  return std::make_unique<PortableLinear>(shape);
}

}  // namespace sluice::cpu
