#include <cmath>
#include <limits>
#include <vector>

#include "tests/models/reference_kernels.h"

namespace sluice::reference {
namespace {

// Different for every call, so that a caller who gives one call's work area to another is found out
// (by ASan).
constexpr size_t kForwardWorkspace = 64, kInputWorkspace = 192, kWeightWorkspace = 320;

class PlainLinear : public Linear {
 public:
  explicit PlainLinear(const LinearShape& shape) : shape_(shape) {}

  size_t packed_bytes() const override {
    return static_cast<size_t>(shape_.in * shape_.out * SizeOf(shape_.dtype));
  }
  size_t forward_workspace() const override { return kForwardWorkspace; }
  size_t input_grad_workspace() const override { return kInputWorkspace; }
  size_t weight_grad_workspace() const override { return kWeightWorkspace; }

  void Pack(Stream, const float* weight, void* packed) override {
    for (int64_t i = 0; i < shape_.in * shape_.out; ++i) Set(shape_.dtype, packed, i, weight[i]);
  }

  void Forward(Stream, const void* x, const float*, const void* packed, const float* bias,
               const void* residual, void* y, void* activated, void* workspace) override {
    Poison(workspace, kForwardWorkspace);
    for (int64_t r = 0; r < shape_.rows; ++r) {
      for (int64_t o = 0; o < shape_.out; ++o) {
        double sum = shape_.bias ? bias[o] : 0;
        for (int64_t i = 0; i < shape_.in; ++i) sum += X(x, r, i) * Weight(packed, i, o);
        if (residual != nullptr) sum += Y(residual, r, o);
        Set(shape_.dtype, y, r * shape_.out + o, sum);
        if (shape_.activation == Activation::kNone) continue;
        Set(shape_.dtype, activated, r * shape_.out + o, Activate(shape_.activation, Y(y, r, o)));
      }
    }
  }

  void BackwardInput(Stream, const void* dy, const float*, const void* packed,
                     const void* input_before_activation, void* dx, void* workspace) override {
    Poison(workspace, kInputWorkspace);
    for (int64_t r = 0; r < shape_.rows; ++r) {
      for (int64_t i = 0; i < shape_.in; ++i) {
        double sum = 0;
        for (int64_t o = 0; o < shape_.out; ++o) sum += Y(dy, r, o) * Weight(packed, i, o);
        if (shape_.input_activation != Activation::kNone) {
          sum *= ActivateGradient(shape_.input_activation, X(input_before_activation, r, i));
        }
        if (shape_.add_input_grad) sum += X(dx, r, i);
        Set(shape_.dtype, dx, r * shape_.in + i, sum);
      }
    }
  }

  void BackwardWeight(Stream, const void* x, const void* dy, float* dw, float* db, bool accumulate,
                      void* workspace) override {
    Poison(workspace, kWeightWorkspace);
    const auto add = [accumulate](float* target, double sum) {
      *target = accumulate ? *target + static_cast<float>(sum) : static_cast<float>(sum);
    };
    for (int64_t o = 0; o < shape_.out; ++o) {
      for (int64_t i = 0; i < shape_.in; ++i) {
        double sum = 0;
        for (int64_t r = 0; r < shape_.rows; ++r) sum += X(x, r, i) * Y(dy, r, o);
        add(&dw[WeightIndex(i, o)], sum);
      }
      double sum = 0;
      for (int64_t r = 0; r < shape_.rows; ++r) sum += Y(dy, r, o);
      if (shape_.bias) add(&db[o], sum);
    }
  }

 private:
  double X(const void* x, int64_t r, int64_t i) const {
    return Get(shape_.dtype, x, r * shape_.in + i);
  }
  double Y(const void* y, int64_t r, int64_t o) const {
    return Get(shape_.dtype, y, r * shape_.out + o);
  }
  int64_t WeightIndex(int64_t i, int64_t o) const {
    return shape_.weight_transposed ? o * shape_.in + i : i * shape_.out + o;
  }
  double Weight(const void* packed, int64_t i, int64_t o) const {
    return Get(shape_.dtype, packed, WeightIndex(i, o));
  }

  LinearShape shape_;
};

// Vaswani et al. 2017, section 3.2, with the causal mask: query t sees keys 0..t.
class PlainAttention : public Attention {
 public:
  explicit PlainAttention(const AttentionShape& shape)
      : shape_(shape), width_(shape.dim / shape.heads) {}

  size_t forward_workspace() const override { return kForwardWorkspace; }
  size_t backward_workspace() const override { return kInputWorkspace; }

  void Forward(Stream, const void* qkv, void* out, float* lse, void* workspace) override {
    Poison(workspace, kForwardWorkspace);
    ForEachQuery([&](int64_t b, int64_t h, int64_t t) {
      const Softmax softmax = Probabilities(qkv, b, h, t);
      lse[(b * shape_.heads + h) * shape_.seq + t] = static_cast<float>(softmax.lse);
      for (int64_t c = 0; c < width_; ++c) {
        double sum = 0;
        for (int64_t s = 0; s <= t; ++s) sum += softmax.p[s] * Part(qkv, kValue, b, h, s, c);
        Set(shape_.dtype, out, OutIndex(b, h, t, c), sum);
      }
    });
  }

  // With P the softmax and dP = dout V^T: dS = P * (dP - sum_s P dP); dq, dk, dv by the product
  // rule.
  void Backward(Stream, const void* qkv, const void* out, const float* lse, const void* dout,
                void* dqkv, void* workspace) override {
    Poison(workspace, kInputWorkspace);
    std::vector<double> sums(static_cast<size_t>(shape_.batch * shape_.seq * 3 * shape_.dim));
    ForEachQuery([&](int64_t b, int64_t h, int64_t t) {
      // The formulas need neither, but others do: a caller that let them go is found out.
      if (std::isnan(lse[(b * shape_.heads + h) * shape_.seq + t]) ||
          std::isnan(Get(shape_.dtype, out, OutIndex(b, h, t, 0)))) {
        sums.assign(sums.size(), std::numeric_limits<double>::quiet_NaN());
      }
      AddQueryGradient(qkv, dout, b, h, t, sums);
    });
    for (size_t i = 0; i < sums.size(); ++i) {
      Set(shape_.dtype, dqkv, static_cast<int64_t>(i), sums[i]);
    }
  }

 private:
  enum { kQuery = 0, kKey = 1, kValue = 2 };
  struct Softmax {
    std::vector<double> p;
    double lse = 0;
  };

  template <typename Body>
  void ForEachQuery(Body body) const {
    for (int64_t b = 0; b < shape_.batch; ++b) {
      for (int64_t h = 0; h < shape_.heads; ++h) {
        for (int64_t t = 0; t < shape_.seq; ++t) body(b, h, t);
      }
    }
  }
  double Scale() const { return 1 / std::sqrt(static_cast<double>(width_)); }
  int64_t Index(int part, int64_t b, int64_t h, int64_t t, int64_t c) const {
    return (b * shape_.seq + t) * 3 * shape_.dim + part * shape_.dim + h * width_ + c;
  }
  double Part(const void* qkv, int part, int64_t b, int64_t h, int64_t t, int64_t c) const {
    return Get(shape_.dtype, qkv, Index(part, b, h, t, c));
  }
  int64_t OutIndex(int64_t b, int64_t h, int64_t t, int64_t c) const {
    return (b * shape_.seq + t) * shape_.dim + h * width_ + c;
  }

  Softmax Probabilities(const void* qkv, int64_t b, int64_t h, int64_t t) const {
    Softmax softmax;
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t s = 0; s <= t; ++s) {
      double score = 0;
      for (int64_t c = 0; c < width_; ++c) {
        score += Part(qkv, kQuery, b, h, t, c) * Part(qkv, kKey, b, h, s, c);
      }
      softmax.p.push_back(score * Scale());
      top = std::max(top, softmax.p.back());
    }
    for (double score : softmax.p) sum += std::exp(score - top);
    softmax.lse = top + std::log(sum);
    for (double& p : softmax.p) p = std::exp(p - softmax.lse);
    return softmax;
  }

  void AddQueryGradient(const void* qkv, const void* dout, int64_t b, int64_t h, int64_t t,
                        std::vector<double>& sums) const {
    const Softmax softmax = Probabilities(qkv, b, h, t);
    std::vector<double> dp(softmax.p.size());
    double mean = 0;
    for (int64_t s = 0; s <= t; ++s) {
      for (int64_t c = 0; c < width_; ++c) {
        const double d = Get(shape_.dtype, dout, OutIndex(b, h, t, c));
        dp[s] += d * Part(qkv, kValue, b, h, s, c);
        sums[Index(kValue, b, h, s, c)] += softmax.p[s] * d;
      }
      mean += softmax.p[s] * dp[s];
    }
    for (int64_t s = 0; s <= t; ++s) {
      const double ds = softmax.p[s] * (dp[s] - mean) * Scale();
      for (int64_t c = 0; c < width_; ++c) {
        sums[Index(kQuery, b, h, t, c)] += ds * Part(qkv, kKey, b, h, s, c);
        sums[Index(kKey, b, h, s, c)] += ds * Part(qkv, kQuery, b, h, t, c);
      }
    }
  }

  AttentionShape shape_;
  int64_t width_;
};

}  // namespace

std::unique_ptr<Linear> MakeLinear(const LinearShape& shape) {
  return std::make_unique<PlainLinear>(shape);
}

absl::StatusOr<std::unique_ptr<Attention>> MakeAttention(const AttentionShape& shape) {
  return std::make_unique<PlainAttention>(shape);
}

}  // namespace sluice::reference
