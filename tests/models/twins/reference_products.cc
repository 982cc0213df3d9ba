#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/models/twins/reference_kernels.h"

namespace sluice::reference {
namespace {

// Different for every call, so that a caller who gives one call's work area to another is found out
// (by ASan).
constexpr size_t kForwardWorkspace = 64, kInputWorkspace = 192, kWeightWorkspace = 320;

class PlainLinear : public Linear {
 public:
  explicit PlainLinear(const LinearShape& shape) : shape_(shape), width_(shape.out_width()) {}

  size_t packed_bytes() const override {
    return static_cast<size_t>(shape_.in * width_ * SizeOf(shape_.dtype));
  }
  size_t forward_workspace() const override { return kForwardWorkspace; }
  size_t input_grad_workspace() const override { return kInputWorkspace; }
  size_t weight_grad_workspace() const override { return kWeightWorkspace; }

  void Pack(Stream, const void* weight, const float* /*bias*/, void* packed) override {
    for (int64_t i = 0; i < shape_.in * width_; ++i)
      Set(shape_.dtype, packed, i, Get(shape_.weight_dtype, weight, i));
  }

  void Forward(Stream, const void* x, const void*, const void* packed, const float* bias,
               const void* residual, void* y, void* activated, void* workspace) override {
    Poison(workspace, kForwardWorkspace);
    for (int64_t r = 0; r < shape_.rows; ++r) {
      for (int64_t o = 0; o < width_; ++o) {
        double sum = shape_.bias ? bias[o] : 0;
        for (int64_t i = 0; i < shape_.in; ++i) sum += X(x, r, i) * Weight(packed, i, o);
        if (residual != nullptr) sum += Y(residual, r, o);
        Set(shape_.dtype, y, r * width_ + o, sum);
        if (shape_.activation == Activation::kNone) continue;
        Set(shape_.dtype, activated, r * width_ + o, Activate(shape_.activation, Y(y, r, o)));
      }
    }
  }

  void BackwardInput(Stream, const void* dy, const void*, const void* packed,
                     const void* input_before_activation, void* dx, void* workspace) override {
    Poison(workspace, kInputWorkspace);
    for (int64_t r = 0; r < shape_.rows; ++r) {
      for (int64_t i = 0; i < shape_.in; ++i) {
        double sum = 0;
        for (int64_t o = 0; o < width_; ++o) sum += Y(dy, r, o) * Weight(packed, i, o);
        if (shape_.input_activation != Activation::kNone) {
          sum *= ActivateGradient(shape_.input_activation, X(input_before_activation, r, i));
        }
        if (shape_.add_input_grad) sum += X(dx, r, i);
        Set(shape_.dtype, dx, r * shape_.in + i, sum);
      }
    }
  }

  void BackwardWeight(Stream, const void* x, const void* dy, float* dw, bool accumulate,
                      void* workspace) override {
    Poison(workspace, kWeightWorkspace);
    for (int64_t o = 0; o < shape_.out; ++o) {
      for (int64_t i = 0; i < shape_.in; ++i) {
        double sum = 0;
        for (int64_t r = 0; r < shape_.rows; ++r) sum += X(x, r, i) * Y(dy, r, o);
        float& target = dw[WeightIndex(i, o)];
        target = accumulate ? target + static_cast<float>(sum) : static_cast<float>(sum);
      }
    }
  }

 private:
  double X(const void* x, int64_t r, int64_t i) const {
    return Get(shape_.dtype, x, r * shape_.in + i);
  }
  double Y(const void* y, int64_t r, int64_t o) const {
    return Get(shape_.dtype, y, r * width_ + o);
  }
  int64_t WeightIndex(int64_t i, int64_t o) const {
    return shape_.weight_transposed ? o * shape_.in + i : i * shape_.out + o;
  }
  double Weight(const void* packed, int64_t i, int64_t o) const {
    return Get(shape_.dtype, packed, WeightIndex(i, o));
  }

  LinearShape shape_;
  int64_t width_;  // of y: rows of zeros in W give zeros, and are multiplied as all others are
};

// Vaswani et al. 2017, section 3.2, with the masks of kernels.h.
class PlainAttention : public Attention {
 public:
  explicit PlainAttention(const AttentionShape& shape) : s_(shape) {}

  size_t forward_workspace() const override { return kForwardWorkspace; }
  size_t backward_workspace() const override { return kInputWorkspace; }

  void Forward(Stream, const AttentionInput& in, void* out, float* lse, void* workspace) override {
    Poison(workspace, kForwardWorkspace);
    ForEachQuery([&](int64_t b, int64_t h, int64_t t) {
      const Softmax softmax = Probabilities(in, b, h, t);
      lse[(b * s_.heads + h) * s_.seq + t] = static_cast<float>(softmax.lse);
      for (int64_t c = 0; c < s_.width; ++c) {
        double sum = 0;
        for (int64_t s = softmax.first; s <= t; ++s) {
          sum += softmax.at(s) * Get(s_.dtype, in.v, Key(b, h, s, c));
        }
        Set(s_.dtype, out, OutIndex(b, h, t, c), sum);
      }
    });
  }

  // With P the softmax and dP = dout V^T: dS = P * (dP - sum_s P dP), times the slope of the cap;
  // dq, dk, dv by the product rule.
  void Backward(Stream, const AttentionInput& in, const void* out, const float* lse,
                const void* dout, void* dq, void* dk, void* dv, void* workspace) override {
    Poison(workspace, kInputWorkspace);
    const auto rows = static_cast<size_t>(s_.batch * s_.seq);
    Gradients sums = {std::vector<double>(rows * static_cast<size_t>(s_.q_stride)),
                      std::vector<double>(rows * static_cast<size_t>(s_.kv_stride)),
                      std::vector<double>(rows * static_cast<size_t>(s_.kv_stride))};
    ForEachQuery([&](int64_t b, int64_t h, int64_t t) {
      // The formulas need neither, but others do: a caller that let them go is found out.
      if (std::isnan(lse[(b * s_.heads + h) * s_.seq + t]) ||
          std::isnan(Get(s_.dtype, out, OutIndex(b, h, t, 0)))) {
        sums.q.assign(sums.q.size(), std::numeric_limits<double>::quiet_NaN());
      }
      AddQueryGradient(in, dout, b, h, t, sums);
    });
    Write(sums, dq, dk, dv);
  }

 private:
  struct Gradients {
    std::vector<double> q, k, v;  // as q, k and v lie, with their strides
  };
  struct Softmax {
    int64_t first = 0;  // key that the query sees
    std::vector<double> p, slopes;
    double lse = 0;
    double at(int64_t s) const { return p[static_cast<size_t>(s - first)]; }
  };

  template <typename Body>
  void ForEachQuery(Body body) const {
    for (int64_t b = 0; b < s_.batch; ++b) {
      for (int64_t h = 0; h < s_.heads; ++h) {
        for (int64_t t = 0; t < s_.seq; ++t) body(b, h, t);
      }
    }
  }
  double Scale() const {
    return s_.scale != 0 ? double{s_.scale} : 1 / std::sqrt(static_cast<double>(s_.width));
  }
  int64_t Query(int64_t b, int64_t h, int64_t t, int64_t c) const {
    return (b * s_.seq + t) * s_.q_stride + h * s_.width + c;
  }
  int64_t Key(int64_t b, int64_t h, int64_t t, int64_t c) const {
    return (b * s_.seq + t) * s_.kv_stride + h / (s_.heads / s_.kv_heads) * s_.width + c;
  }
  int64_t OutIndex(int64_t b, int64_t h, int64_t t, int64_t c) const {
    return ((b * s_.seq + t) * s_.heads + h) * s_.width + c;
  }
  int64_t FirstKey(const AttentionInput& in, int64_t b, int64_t t) const {
    const int64_t document = in.starts == nullptr ? 0 : in.starts[b * s_.seq + t];
    return s_.window == 0 ? document : std::max(document, t - s_.window + 1);
  }

  Softmax Probabilities(const AttentionInput& in, int64_t b, int64_t h, int64_t t) const {
    Softmax softmax;
    softmax.first = FirstKey(in, b, t);
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t s = softmax.first; s <= t; ++s) {
      double score = 0;
      for (int64_t c = 0; c < s_.width; ++c) {
        score += Get(s_.dtype, in.q, Query(b, h, t, c)) * Get(s_.dtype, in.k, Key(b, h, s, c));
      }
      score *= Scale();
      const double tanh = s_.soft_cap == 0 ? 0 : std::tanh(score / s_.soft_cap);
      softmax.p.push_back(s_.soft_cap == 0 ? score : s_.soft_cap * tanh);
      softmax.slopes.push_back(1 - tanh * tanh);
      top = std::max(top, softmax.p.back());
    }
    for (double score : softmax.p) sum += std::exp(score - top);
    softmax.lse = top + std::log(sum);
    for (double& p : softmax.p) p = std::exp(p - softmax.lse);
    return softmax;
  }

  void AddQueryGradient(const AttentionInput& in, const void* dout, int64_t b, int64_t h, int64_t t,
                        Gradients& sums) const {
    const Softmax softmax = Probabilities(in, b, h, t);
    std::vector<double> dp(softmax.p.size());
    double mean = 0;
    for (int64_t s = softmax.first; s <= t; ++s) {
      double& product = dp[static_cast<size_t>(s - softmax.first)];
      for (int64_t c = 0; c < s_.width; ++c) {
        const double d = Get(s_.dtype, dout, OutIndex(b, h, t, c));
        product += d * Get(s_.dtype, in.v, Key(b, h, s, c));
        sums.v[static_cast<size_t>(Key(b, h, s, c))] += softmax.at(s) * d;
      }
      mean += softmax.at(s) * product;
    }
    for (int64_t s = softmax.first; s <= t; ++s) {
      const auto i = static_cast<size_t>(s - softmax.first);
      const double ds = softmax.p[i] * (dp[i] - mean) * softmax.slopes[i] * Scale();
      for (int64_t c = 0; c < s_.width; ++c) {
        const int64_t query = Query(b, h, t, c), key = Key(b, h, s, c);
        sums.q[static_cast<size_t>(query)] += ds * Get(s_.dtype, in.k, key);
        sums.k[static_cast<size_t>(key)] += ds * Get(s_.dtype, in.q, query);
      }
    }
  }

  // Only the heads' own values: what lies between the rows is not ours.
  void Write(const Gradients& sums, void* dq, void* dk, void* dv) const {
    ForEachQuery([&](int64_t b, int64_t h, int64_t t) {
      for (int64_t c = 0; c < s_.width; ++c) {
        const int64_t query = Query(b, h, t, c), key = Key(b, h, t, c);
        Set(s_.dtype, dq, query, sums.q[static_cast<size_t>(query)]);
        Set(s_.dtype, dk, key, sums.k[static_cast<size_t>(key)]);
        Set(s_.dtype, dv, key, sums.v[static_cast<size_t>(key)]);
      }
    });
  }

  const AttentionShape s_;
};

}  // namespace

std::unique_ptr<Linear> MakeLinear(const LinearShape& shape) {
  return std::make_unique<PlainLinear>(shape);
}

absl::StatusOr<std::unique_ptr<Attention>> MakeAttention(const AttentionShape& shape) {
  return std::make_unique<PlainAttention>(shape);
}

}  // namespace sluice::reference
