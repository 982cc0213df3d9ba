#include "tests/models/twins/reference_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "models/spec/bfloat16.h"
#include "tests/models/twins/reference_norms.h"
#include "tests/models/twins/reference_values.h"

namespace sluice {
namespace reference {
namespace {

// GPT-2's GELU: x / 2 * (1 + tanh(u)), u = sqrt(2 / pi) * (x + 0.044715 x^3) (Hendrycks & Gimpel
// 2016).
constexpr double kGeluCubic = 0.044715;
double GeluArgument(double x) {
  return std::sqrt(2 * std::numbers::inv_pi) * (x + kGeluCubic * x * x * x);
}

// target = (accumulate ? target : 0) + sum, as one rounding of the sum and one of the addition.
void Add(float* target, double sum, bool accumulate) {
  *target = accumulate ? *target + static_cast<float>(sum) : static_cast<float>(sum);
}

// Of row r within its document.
int64_t Position(const int32_t* starts, int64_t seq, int64_t r) {
  return r % seq - (starts ? starts[r] : 0);
}

void EmbeddingForward(Stream, DType dtype, const int32_t* tokens, const int32_t* starts,
                      int64_t rows, int64_t seq, int64_t dim, float scale, DType table_dtype,
                      const void* wte, const void* wpe, void* y) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < dim; ++c) {
      const double token = double{scale} * Get(table_dtype, wte, tokens[r] * dim + c);
      const double position = wpe ? Get(table_dtype, wpe, Position(starts, seq, r) * dim + c) : 0;
      Set(dtype, y, r * dim + c, token + position);
    }
  }
}

void EmbeddingBackward(Stream, DType dtype, const int32_t* tokens, const int32_t* starts,
                       int64_t rows, int64_t seq, int64_t dim, int64_t vocab, int64_t max_seq,
                       float scale, const void* dy, float* dwte, float* dwpe, bool accumulate,
                       void*) {
  std::vector<double> token_sums(static_cast<size_t>(vocab * dim));
  std::vector<double> position_sums(static_cast<size_t>(max_seq * dim));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < dim; ++c) {
      const double value = Get(dtype, dy, r * dim + c);
      token_sums[tokens[r] * dim + c] += scale * value;
      position_sums[Position(starts, seq, r) * dim + c] += value;
    }
  }
  for (int64_t i = 0; i < vocab * dim; ++i) Add(&dwte[i], token_sums[i], accumulate);
  for (int64_t i = 0; dwpe && i < max_seq * dim; ++i) Add(&dwpe[i], position_sums[i], accumulate);
}

void ActivationForward(Stream, DType dtype, Activation activation, int64_t n, const void* x,
                       void* y) {
  for (int64_t i = 0; i < n; ++i) Set(dtype, y, i, Activate(activation, Get(dtype, x, i)));
}

void ActivationBackward(Stream, DType dtype, Activation activation, int64_t n, const void* x,
                        const void* dy, void* dx) {
  for (int64_t i = 0; i < n; ++i) {
    Set(dtype, dx, i, Get(dtype, dy, i) * ActivateGradient(activation, Get(dtype, x, i)));
  }
}

void GatedForward(Stream, DType dtype, Activation activation, int64_t n, const void* gate,
                  const void* up, void* y) {
  for (int64_t i = 0; i < n; ++i) {
    Set(dtype, y, i, Activate(activation, Get(dtype, gate, i)) * Get(dtype, up, i));
  }
}

void GatedBackward(Stream, DType dtype, Activation activation, int64_t n, const void* gate,
                   const void* up, const void* dy, void* dgate, void* dup) {
  for (int64_t i = 0; i < n; ++i) {
    const double g = Get(dtype, gate, i), u = Get(dtype, up, i), d = Get(dtype, dy, i);
    Set(dtype, dgate, i, d * u * ActivateGradient(activation, g));
    Set(dtype, dup, i, d * Activate(activation, g));
  }
}

void RopeTable(Stream, int64_t seq, int64_t pairs, const float* inverse_frequencies,
               float magnitude, float* table) {
  for (int64_t p = 0; p < seq; ++p) {
    for (int64_t i = 0; i < pairs; ++i) {
      const float angle = static_cast<float>(p) * inverse_frequencies[i];
      table[(2 * p) * pairs + i] = static_cast<float>(magnitude * std::cos(double{angle}));
      table[(2 * p + 1) * pairs + i] = static_cast<float>(magnitude * std::sin(double{angle}));
    }
  }
}

// Su et al. 2021, equation 34.
void Rope(Stream, const RopeShape& shape, const float* table, const int32_t* starts, bool inverse,
          void* x) {
  const int64_t half = shape.width / 2;
  for (int64_t r = 0; r < shape.rows; ++r) {
    const float* const angles = table + Position(starts, shape.seq, r) * shape.width;
    for (int64_t h = 0; h < shape.heads; ++h) {
      for (int64_t i = 0; i < half; ++i) {
        const int64_t first = r * shape.stride + h * shape.width + i;
        const double cos = angles[i], sin = inverse ? -angles[half + i] : angles[half + i];
        const double a = Get(shape.dtype, x, first), b = Get(shape.dtype, x, first + half);
        Set(shape.dtype, x, first, cos * a - sin * b);
        Set(shape.dtype, x, first + half, cos * b + sin * a);
      }
    }
  }
}

void RmsNormRopeForward(Stream, const RopeShape& shape, float epsilon, float gain_offset,
                        const void* x, const float* gamma, const float* table,
                        const int32_t* starts, void* y, float* rrms) {
  RmsNormForward({}, shape.dtype, shape.rows * shape.heads, shape.width, epsilon, gain_offset, x,
                 gamma, nullptr, y, rrms);
  Rope({}, shape, table, starts, /*inverse=*/false, y);
}

void RmsNormRopeBackward(Stream, const RopeShape& shape, float gain_offset, void* dy, const void* x,
                         const float* gamma, const float* rrms, const float* table,
                         const int32_t* starts, void* dx, float* partial, void* workspace) {
  Rope({}, shape, table, starts, /*inverse=*/true, dy);
  RmsNormBackward({}, shape.dtype, shape.rows * shape.heads, shape.width, gain_offset, dy, x, gamma,
                  rrms, nullptr, dx, partial, workspace);
}

void CrossEntropy(Stream, const CrossEntropyShape& shape, void* logits, const int32_t* targets,
                  float grad_scale, bool accumulate, double* loss, int64_t* correct, void*) {
  double sum_of_losses = 0;
  int64_t hits = 0;
  const int64_t classes = shape.classes, width = shape.row_width();
  const auto at = [&](int64_t row, int64_t c) { return Get(shape.dtype, logits, row * width + c); };
  for (int64_t r = 0; r < shape.rows + (grad_scale == 0 ? 0 : shape.padding); ++r) {
    const bool counts = r < shape.rows && targets[r] >= 0;
    int64_t largest = 0;
    for (int64_t c = 1; c < classes; ++c) {
      if (at(r, c) > at(r, largest)) largest = c;
    }
    const double top = at(r, largest);
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(at(r, c) - top);
    if (counts) sum_of_losses += top + std::log(sum) - at(r, targets[r]);
    if (counts) hits += largest == targets[r];
    for (int64_t c = 0; grad_scale != 0 && c < classes; ++c) {
      const double softmax = std::exp(at(r, c) - top) / sum;
      const double tanh = shape.soft_cap == 0 ? 0 : at(r, c) / shape.soft_cap;
      const double gradient =
          counts ? grad_scale * (softmax - (c == targets[r])) * (1 - tanh * tanh) : 0;
      Set(shape.dtype, logits, r * width + c, gradient);
    }
    for (int64_t c = classes; grad_scale != 0 && c < width; ++c)
      Set(shape.dtype, logits, r * width + c, 0);
  }
  if (loss == nullptr) return;
  *loss = accumulate ? *loss + sum_of_losses : sum_of_losses;
  *correct = accumulate ? *correct + hits : hits;
}

void SoftCap(Stream, DType dtype, int64_t n, float cap, void* x) {
  for (int64_t i = 0; i < n; ++i) Set(dtype, x, i, cap * std::tanh(Get(dtype, x, i) / cap));
}

void Dropout(Stream, DType dtype, int64_t n, const DropoutMask& mask, const void* x,
             const void* added, void* y) {
  for (int64_t i = 0; i < n; ++i) {
    uint64_t block = ~uint64_t{0};
    r123::Philox4x32::ctr_type drawn = {};
    const double factor = mask.Factor(static_cast<uint64_t>(i), &block, &drawn);
    const double kept = factor == 0 ? 0 : factor * Get(dtype, x, i);
    Set(dtype, y, i, (added == nullptr ? 0 : Get(dtype, added, i)) + kept);
  }
}

void Scale(Stream, DType dtype, int64_t n, float factor, void* x) {
  for (int64_t i = 0; i < n; ++i) Set(dtype, x, i, double{factor} * Get(dtype, x, i));
}

// As those of products (reference_products.cc).
constexpr size_t kColumnsWorkspace = 448;

size_t ColumnSumsWorkspace(absl::Span<const SummedColumns>) { return kColumnsWorkspace; }

void ColumnSums(Stream, DType dtype, absl::Span<const SummedColumns> tensors, bool accumulate,
                void* workspace) {
  Poison(workspace, kColumnsWorkspace);
  for (const SummedColumns& tensor : tensors) {
    for (int64_t i = 0; i < tensor.columns; ++i) {
      double sum = 0;
      for (int64_t r = 0; r < tensor.rows; ++r) sum += Get(dtype, tensor.x, r * tensor.columns + i);
      Add(&tensor.sums[i], sum, accumulate);
    }
  }
}

void Accumulate(Stream, absl::Span<const AddedTensor> tensors, bool add) {
  for (const AddedTensor& tensor : tensors) {
    for (int64_t i = 0; i < tensor.n; ++i) Add(&tensor.sums[i], tensor.values[i], add);
  }
}

void BlockSquares(Stream, absl::Span<const SquaredTensor> tensors) {
  for (const SquaredTensor& tensor : tensors) {
    for (int64_t i = 0; i < tensor.n; ++i) {
      double& sum = tensor.sums[i / kSquaresBlock];
      const double value = tensor.values[i];
      sum = (i % kSquaresBlock == 0 ? 0 : sum) + value * value;
    }
  }
}

void AddInGroups(Stream, absl::Span<const GroupedSum> rows) {
  for (const GroupedSum& row : rows) {
    for (int64_t i = 0; i < row.n; ++i) {
      if ((row.first + i) % kSumGroup == 0) {
        row.sums[0] += row.sums[1];
        row.sums[1] = 0;
      }
      row.sums[1] += row.values[i];
    }
  }
}

void AllFinite(Stream, DType dtype, int64_t n, const void* x, bool* finite) {
  *finite = true;
  for (int64_t i = 0; i < n; ++i) *finite = *finite && std::isfinite(Get(dtype, x, i));
}

// FNV-1a (Fowler, Noll and Vo).
void Hash(Stream, absl::Span<const HashedTensor> tensors, uint64_t*, uint64_t* hashes) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    hashes[i] = 0xcbf29ce484222325U;
    for (int64_t at = 0; at < tensors[i].bytes; ++at) {
      hashes[i] ^= static_cast<const unsigned char*>(tensors[i].data)[at];
      hashes[i] *= 0x100000001b3U;
    }
  }
}

float WeightAt(const OptimizerTensor& t, int64_t i) {
  if (t.low_halves == nullptr) return static_cast<const float*>(t.weight)[i];
  return SplitFloat{static_cast<const uint16_t*>(t.weight)[i], t.low_halves[i]}.value();
}

void SetWeight(const OptimizerTensor& t, int64_t i, double value) {
  const auto weight = static_cast<float>(value);
  if (t.low_halves == nullptr) {
    static_cast<float*>(t.weight)[i] = weight;
    return;
  }
  const SplitFloat parts = SplitFloat::Of(weight);
  static_cast<uint16_t*>(t.weight)[i] = parts.high;
  t.low_halves[i] = parts.low;
}

// Loshchilov & Hutter 2019, algorithm 2.
void AdamWOf(const AdamWStep& step, const OptimizerTensor& t) {
  float *m = t.moment1, *v = t.moment2;
  const double unbias_m = 1 - std::pow(step.beta1, step.step);
  const double unbias_v = 1 - std::pow(step.beta2, step.step);
  for (int64_t i = 0; i < t.n; ++i) {
    const double g = double{t.gradient[i]} * step.grad_scale;
    const double mean = step.beta1 * m[i] + (1.0 - step.beta1) * g;
    const double square = step.beta2 * v[i] + (1.0 - step.beta2) * g * g;
    const double update = mean / unbias_m / (std::sqrt(square / unbias_v) + step.epsilon);
    m[i] = static_cast<float>(mean);
    v[i] = static_cast<float>(square);
    const double w = WeightAt(t, i);
    SetWeight(t, i, w - step.lr * (update + t.weight_decay * w));
  }
}

void AdamW(Stream, const AdamWStep& step, absl::Span<const OptimizerTensor> tensors) {
  for (const OptimizerTensor& tensor : tensors) AdamWOf(step, tensor);
}

void Sgd(Stream, const SgdStep& step, absl::Span<const OptimizerTensor> tensors) {
  for (const OptimizerTensor& t : tensors) {
    for (int64_t i = 0; i < t.n; ++i) {
      const double update = double{step.momentum} * t.moment1[i] +
                            double{step.grad_scale} * t.gradient[i] +
                            double{t.weight_decay} * WeightAt(t, i);
      t.moment1[i] = static_cast<float>(update);
      SetWeight(t, i, WeightAt(t, i) - step.lr * update);
    }
  }
}

size_t NoWorkspace(int64_t, int64_t) { return 0; }

void Copy(Stream, void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace

double Activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kGelu:
      return x / 2 * (1 + std::tanh(GeluArgument(x)));
    case Activation::kRelu:
      return std::max(x, 0.0);
    case Activation::kSilu:
      return x / (1 + std::exp(-x));
  }
  return x;
}

double ActivateGradient(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      return 1;
    case Activation::kGelu: {
      const double tanh = std::tanh(GeluArgument(x));
      const double slope = std::sqrt(2 * std::numbers::inv_pi) * (1 + 3 * kGeluCubic * x * x);
      return (1 + tanh) / 2 + x / 2 * (1 - tanh * tanh) * slope;
    }
    case Activation::kRelu:
      return std::isnan(x) ? x : x > 0 ? 1 : 0;  // a NaN must not pass for an idle unit
    case Activation::kSilu: {
      const double sigmoid = 1 / (1 + std::exp(-x));
      return sigmoid * (1 + x * (1 - sigmoid));
    }
  }
  return 1;
}

}  // namespace reference

const Kernels& ReferenceKernels() {
  static const Kernels kernels = {
      .device = "reference",
      .master_weights = MasterWeights::kWhole,
      .head_limits = kProcessorHead,
      .make_linear = reference::MakeLinear,
      .make_attention = reference::MakeAttention,
      .attend_cached = nullptr,  // for training only
      .attend_cached_workspace = nullptr,
      .embedding_forward = reference::EmbeddingForward,
      .embedding_backward = reference::EmbeddingBackward,
      .embedding_backward_workspace = reference::NoWorkspace,
      .layer_norm_forward = reference::LayerNormForward,
      .layer_norm_backward = reference::LayerNormBackward,
      .layer_norm_backward_workspace = reference::NoWorkspace,
      .rms_norm_forward = reference::RmsNormForward,
      .rms_norm_backward = reference::RmsNormBackward,
      .rms_norm_backward_workspace = reference::NoWorkspace,
      .activation_forward = reference::ActivationForward,
      .activation_backward = reference::ActivationBackward,
      .gated_forward = reference::GatedForward,
      .gated_backward = reference::GatedBackward,
      .rope_table = reference::RopeTable,
      .rope = reference::Rope,
      .rms_norm_rope_forward = reference::RmsNormRopeForward,
      .rms_norm_rope_backward = reference::RmsNormRopeBackward,
      .cross_entropy = reference::CrossEntropy,
      .cross_entropy_workspace = reference::NoWorkspace,
      .soft_cap = reference::SoftCap,
      .dropout = reference::Dropout,
      .scale = reference::Scale,
      .column_sums = reference::ColumnSums,
      .column_sums_workspace = reference::ColumnSumsWorkspace,
      .accumulate = reference::Accumulate,
      .block_squares = reference::BlockSquares,
      .add_in_groups = reference::AddInGroups,
      .all_finite = reference::AllFinite,
      .hash = reference::Hash,
      .adamw = reference::AdamW,
      .sgd = reference::Sgd,
      .copy = reference::Copy,
  };
  return kernels;
}

}  // namespace sluice
