#include "tests/models/kernels/twin.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <utility>

namespace sluice::twin {
namespace {

size_t At(int64_t row, int64_t columns, int64_t column) {
  return static_cast<size_t>(row * columns + column);
}

// One query head of one sequence.
struct Head {
  const AttentionShape& shape;
  const QueriesKeysValues& in;
  const Starts& starts;
  int64_t batch, head;

  int64_t key_head() const { return head / (shape.heads / shape.kv_heads); }
  size_t Q(int64_t t, int64_t i) const {
    return At(batch * shape.seq + t, shape.heads * shape.width, head * shape.width + i);
  }
  size_t K(int64_t t, int64_t i) const {
    return At(batch * shape.seq + t, shape.kv_heads * shape.width, key_head() * shape.width + i);
  }
  size_t Lse(int64_t t) const { return At(batch * shape.heads + head, shape.seq, t); }
  double scale() const {
    return shape.scale != 0 ? shape.scale : 1 / std::sqrt(static_cast<double>(shape.width));
  }
  bool Sees(int64_t t, int64_t s) const {
    const int64_t start = starts.empty() ? 0 : starts[static_cast<size_t>(batch * shape.seq + t)];
    return s <= t && s >= start && (shape.window == 0 || s > t - shape.window);
  }

  // Weights of query t, 0 for keys that it does not see, and the derivatives of their scores by
  // scale * q . k; returns the log of the softmax's denominator.
  double Weights(int64_t t, Values* weights, Values* slopes) const {
    weights->assign(static_cast<size_t>(t + 1), -std::numeric_limits<double>::infinity());
    slopes->assign(static_cast<size_t>(t + 1), 0);
    for (int64_t s = 0; s <= t; ++s) {
      if (!Sees(t, s)) continue;
      double score = 0;
      for (int64_t i = 0; i < shape.width; ++i) score += in.q[Q(t, i)] * in.k[K(s, i)];
      score *= scale();
      const double cap = shape.soft_cap;
      const double tanh = cap == 0 ? 0 : std::tanh(score / cap);
      (*weights)[static_cast<size_t>(s)] = cap == 0 ? score : cap * tanh;
      (*slopes)[static_cast<size_t>(s)] = 1 - tanh * tanh;
    }
    const double largest = *std::max_element(weights->begin(), weights->end());
    double sum = 0;
    for (double score : *weights) sum += std::exp(score - largest);
    const double lse = largest + std::log(sum);
    for (double& score : *weights) score = std::exp(score - lse);
    return lse;
  }
};

template <class Visit>
void ForEachQuery(const AttentionShape& shape, const QueriesKeysValues& in, const Starts& starts,
                  Visit visit) {
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t h = 0; h < shape.heads; ++h) {
      for (int64_t t = 0; t < shape.seq; ++t) visit(Head{shape, in, starts, b, h}, t);
    }
  }
}

}  // namespace

double Activate(Activation activation, double x) {
  if (activation == Activation::kRelu) return std::max(x, 0.0);
  if (activation == Activation::kSilu) return x / (1 + std::exp(-x));
  if (activation == Activation::kNone) return x;
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

double ActivationSlope(Activation activation, double x) {
  if (activation == Activation::kRelu) return x > 0 ? 1 : 0;
  if (activation == Activation::kSilu) {
    const double s = 1 / (1 + std::exp(-x));
    return s + x * s * (1 - s);
  }
  if (activation == Activation::kNone) return 1;
  const double root = std::sqrt(2 / std::numbers::pi);
  const double t = std::tanh(root * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

Values Product(int64_t m, int64_t k, int64_t n, const Values& a, bool a_transposed, const Values& b,
               bool b_transposed) {
  Values c(static_cast<size_t>(m * n), 0);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t l = 0; l < k; ++l) {
      const double left = a[a_transposed ? At(l, m, i) : At(i, k, l)];
      for (int64_t j = 0; j < n; ++j) {
        c[At(i, n, j)] += left * b[b_transposed ? At(j, k, l) : At(l, n, j)];
      }
    }
  }
  return c;
}

Norm LayerNorm(int64_t rows, int64_t dim, double epsilon, const Values& x, const Values& gamma,
               const Values& beta) {
  Norm norm;
  norm.y.resize(x.size());
  for (int64_t r = 0; r < rows; ++r) {
    double mean = 0;
    double variance = 0;
    for (int64_t i = 0; i < dim; ++i) mean += x[At(r, dim, i)] / static_cast<double>(dim);
    for (int64_t i = 0; i < dim; ++i) {
      variance += std::pow(x[At(r, dim, i)] - mean, 2) / static_cast<double>(dim);
    }
    norm.mean.push_back(mean);
    norm.rstd.push_back(1 / std::sqrt(variance + epsilon));
    for (int64_t i = 0; i < dim; ++i) {
      norm.y[At(r, dim, i)] =
          (x[At(r, dim, i)] - mean) * norm.rstd.back() * gamma[At(0, 0, i)] + beta[At(0, 0, i)];
    }
  }
  return norm;
}

NormGradient LayerNormBackward(int64_t rows, int64_t dim, double epsilon, const Values& dy,
                               const Values& x, const Values& gamma) {
  const Values zeros(gamma.size(), 0);
  const Norm norm = LayerNorm(rows, dim, epsilon, x, Values(gamma.size(), 1), zeros);
  NormGradient gradient = {Values(x.size()), zeros, zeros};
  for (int64_t r = 0; r < rows; ++r) {
    double mean_g = 0;
    double mean_gn = 0;
    for (int64_t i = 0; i < dim; ++i) {
      const size_t at = At(r, dim, i);
      const auto column = static_cast<size_t>(i);
      mean_g += dy[at] * gamma[column] / static_cast<double>(dim);
      mean_gn += dy[at] * gamma[column] * norm.y[at] / static_cast<double>(dim);
      gradient.dgamma[column] += dy[at] * norm.y[at];
      gradient.dbeta[column] += dy[at];
    }
    for (int64_t i = 0; i < dim; ++i) {
      const size_t at = At(r, dim, i);
      gradient.dx[at] = norm.rstd[static_cast<size_t>(r)] *
                        (dy[at] * gamma[static_cast<size_t>(i)] - mean_g - norm.y[at] * mean_gn);
    }
  }
  return gradient;
}

Norm RmsNorm(int64_t rows, int64_t dim, double epsilon, const Values& x, const Values& gain) {
  Norm norm;
  for (int64_t r = 0; r < rows; ++r) {
    double squares = 0;
    for (int64_t i = 0; i < dim; ++i) squares += std::pow(x[At(r, dim, i)], 2);
    norm.rstd.push_back(1 / std::sqrt(squares / static_cast<double>(dim) + epsilon));
    for (int64_t i = 0; i < dim; ++i) {
      norm.y.push_back(x[At(r, dim, i)] * norm.rstd.back() * gain[At(0, 0, i)]);
    }
  }
  return norm;
}

NormGradient RmsNormBackward(int64_t rows, int64_t dim, double epsilon, const Values& dy,
                             const Values& x, const Values& gain) {
  const Norm norm = RmsNorm(rows, dim, epsilon, x, Values(gain.size(), 1));
  NormGradient gradient = {Values(x.size()), Values(gain.size(), 0), {}};
  for (int64_t r = 0; r < rows; ++r) {
    double dot = 0;
    for (int64_t i = 0; i < dim; ++i) {
      const size_t at = At(r, dim, i);
      dot += dy[at] * gain[At(0, 0, i)] * x[at];
      gradient.dgamma[At(0, 0, i)] += dy[at] * norm.y[at];
    }
    const double rrms = norm.rstd[static_cast<size_t>(r)];
    for (int64_t i = 0; i < dim; ++i) {
      const size_t at = At(r, dim, i);
      gradient.dx[at] = rrms * dy[at] * gain[At(0, 0, i)] -
                        std::pow(rrms, 3) * x[at] * dot / static_cast<double>(dim);
    }
  }
  return gradient;
}

Values Gated(Activation activation, const Values& gate, const Values& up) {
  Values y;
  for (size_t i = 0; i < gate.size(); ++i) y.push_back(Activate(activation, gate[i]) * up[i]);
  return y;
}

GatedGradient GatedBackward(Activation activation, const Values& gate, const Values& up,
                            const Values& dy) {
  GatedGradient gradient;
  for (size_t i = 0; i < gate.size(); ++i) {
    gradient.gate.push_back(dy[i] * up[i] * ActivationSlope(activation, gate[i]));
    gradient.up.push_back(dy[i] * Activate(activation, gate[i]));
  }
  return gradient;
}

Values RopeTable(int64_t seq, const Values& inverse_frequencies, double magnitude) {
  Values table;
  for (int64_t position = 0; position < seq; ++position) {
    Values sines;
    for (const double frequency : inverse_frequencies) {
      // In fp32, as in transformers.
      const float angle = static_cast<float>(position) * static_cast<float>(frequency);
      table.push_back(magnitude * std::cos(static_cast<double>(angle)));
      sines.push_back(magnitude * std::sin(static_cast<double>(angle)));
    }
    table.insert(table.end(), sines.begin(), sines.end());
  }
  return table;
}

Values Rope(const RopeShape& shape, const Values& table, const std::vector<int32_t>& starts,
            Values x) {
  const int64_t pairs = shape.width / 2;
  for (int64_t r = 0; r < shape.rows; ++r) {
    const int64_t start = starts.empty() ? 0 : starts[static_cast<size_t>(r)];
    for (int64_t h = 0; h < shape.heads; ++h) {
      for (int64_t i = 0; i < pairs; ++i) {
        const double cos = table[At(r % shape.seq - start, shape.width, i)];
        const double sin = table[At(r % shape.seq - start, shape.width, pairs + i)];
        double& low = x[At(r, shape.stride, h * shape.width + i)];
        double& high = x[At(r, shape.stride, h * shape.width + pairs + i)];
        const double a = low, b = high;
        low = cos * a - sin * b;
        high = cos * b + sin * a;
      }
    }
  }
  return x;
}

Attended Attend(const AttentionShape& shape, const QueriesKeysValues& in, const Starts& starts) {
  Attended result = {Values(in.q.size(), 0),
                     Values(static_cast<size_t>(shape.batch * shape.heads * shape.seq))};
  Values weights, slopes;
  ForEachQuery(shape, in, starts, [&](const Head& head, int64_t t) {
    result.lse[head.Lse(t)] = head.Weights(t, &weights, &slopes);
    for (int64_t s = 0; s <= t; ++s) {
      for (int64_t i = 0; i < shape.width; ++i) {
        result.out[head.Q(t, i)] += weights[static_cast<size_t>(s)] * in.v[head.K(s, i)];
      }
    }
  });
  return result;
}

QueriesKeysValues AttendBackward(const AttentionShape& shape, const QueriesKeysValues& in,
                                 const Values& dout, const Starts& starts) {
  QueriesKeysValues d = {Values(in.q.size(), 0), Values(in.k.size(), 0), Values(in.v.size(), 0)};
  Values weights, slopes;
  ForEachQuery(shape, in, starts, [&](const Head& head, int64_t t) {
    head.Weights(t, &weights, &slopes);
    Values dweights(weights.size(), 0);
    double mean = 0;
    for (int64_t s = 0; s <= t; ++s) {
      const auto key = static_cast<size_t>(s);
      for (int64_t i = 0; i < shape.width; ++i) {
        dweights[key] += dout[head.Q(t, i)] * in.v[head.K(s, i)];
        d.v[head.K(s, i)] += weights[key] * dout[head.Q(t, i)];
      }
      mean += weights[key] * dweights[key];
    }
    for (int64_t s = 0; s <= t; ++s) {
      const auto key = static_cast<size_t>(s);
      const double dscore = weights[key] * (dweights[key] - mean) * slopes[key] * head.scale();
      for (int64_t i = 0; i < shape.width; ++i) {
        d.q[head.Q(t, i)] += dscore * in.k[head.K(s, i)];
        d.k[head.K(s, i)] += dscore * in.q[head.Q(t, i)];
      }
    }
  });
  return d;
}

Values SoftCap(double cap, Values x) {
  for (double& value : x) value = cap * std::tanh(value / cap);
  return x;
}

void AddRows(const std::vector<int64_t>& entries, const Values& rows, int64_t dim, float scale,
             int64_t window, std::vector<float>* table) {
  std::vector<int64_t> sorted(entries.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  const auto entry = [&](int64_t place) {
    return entries[static_cast<size_t>(sorted[static_cast<size_t>(place)])];
  };
  std::stable_sort(sorted.begin(), sorted.end(), [&](int64_t a, int64_t b) {
    return entries[static_cast<size_t>(a)] < entries[static_cast<size_t>(b)];
  });
  const auto count = static_cast<int64_t>(sorted.size());
  for (int64_t first = 0, end = 0; first < count; first = end) {
    while (end < count && entry(end) == entry(first)) ++end;
    const bool one_window = first / window == (end - 1) / window;
    for (int64_t i = 0; i < dim; ++i) {
      float& total = (*table)[static_cast<size_t>(entry(first) * dim + i)];
      float sum = one_window ? total : 0.0f;
      for (int64_t place = first; place < end; ++place) {
        const int64_t row = sorted[static_cast<size_t>(place)];
        sum = std::fma(static_cast<float>(rows[static_cast<size_t>(row * dim + i)]), scale, sum);
        const bool last = place + 1 == end || (place + 1) % window == 0;
        if (!one_window && last) total += std::exchange(sum, 0.0f);
      }
      if (one_window) total = sum;
    }
  }
}

Loss CrossEntropy(int64_t rows, int64_t classes, const Values& logits,
                  const std::vector<int32_t>& targets, double soft_cap) {
  const Values capped = soft_cap == 0 ? logits : SoftCap(soft_cap, logits);
  Loss loss;
  loss.dlogits.resize(logits.size());
  for (int64_t r = 0; r < rows; ++r) {
    const int32_t target = targets[static_cast<size_t>(r)];
    if (target < 0) continue;
    const auto first = capped.begin() + r * classes;
    const auto largest = std::max_element(first, first + classes);
    double sum = 0;
    for (int64_t c = 0; c < classes; ++c) sum += std::exp(first[c] - *largest);
    loss.sum += *largest + std::log(sum) - first[target];
    loss.correct += largest - first == target ? 1 : 0;
    for (int64_t c = 0; c < classes; ++c) {
      const double slope = soft_cap == 0 ? 1 : 1 - std::pow(first[c] / soft_cap, 2);
      loss.dlogits[At(r, classes, c)] =
          (std::exp(first[c] - *largest) / sum - (c == target ? 1 : 0)) * slope;
    }
  }
  return loss;
}

Values Differences(const std::function<double(const Values&)>& f, Values x) {
  constexpr double kStep = 1e-5;
  Values gradient(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    x[i] = at + kStep;
    const double above = f(x);
    x[i] = at - kStep;
    gradient[i] = (above - f(x)) / (2 * kStep);
    x[i] = at;
  }
  return gradient;
}

double Dot(const Values& a, const Values& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace sluice::twin
