#ifndef SLUICE_TESTS_MODELS_KERNELS_ATTENTION_PROBLEM_H_
#define SLUICE_TESTS_MODELS_KERNELS_ATTENTION_PROBLEM_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "models/kernels/kernels.h"
#include "tests/models/kernels/reachable.h"
#include "tests/models/kernels/tensor.h"
#include "tests/models/kernels/twin.h"

namespace sluice {

// The shape with its strides: queries, keys and values side by side in one row, as GPT-2's are; or
// as three tensors, with `gap` values that belong to nobody behind each row.
AttentionShape Fused(AttentionShape shape);
AttentionShape Separate(AttentionShape shape, int64_t gap = 0);
// As many key/value heads as query heads, fused.
AttentionShape PlainShape(DType dtype, int64_t batch, int64_t seq, int64_t heads, int64_t width);
// Says everything but the strides, in letters that a test's name may have.
std::string NameOf(const AttentionShape& shape);

// Documents of random lengths, one token to about a third of the sequence.
twin::Starts RandomStarts(const AttentionShape& shape, uint64_t seed);

// Queries, keys and values in one buffer, as the shape's strides say. Gaps are NaN.
struct Places {
  size_t q, k, v, size;  // elements
};
Places PlacesOf(const AttentionShape& shape);
Values InOneBuffer(const AttentionShape& shape, const twin::QueriesKeysValues& parts);
// Fails unless the gaps are NaN still.
twin::QueriesKeysValues PartsOf(const AttentionShape& shape, const Values& buffer);

struct AttentionProblem {
  // Random values between -2 and 2, as they are once stored.
  explicit AttentionProblem(const AttentionShape& shape, twin::Starts starts = {});

  AttentionShape shape;
  twin::Starts starts;
  twin::QueriesKeysValues in;
  Values dout;
};

// A problem's tensors as kernels see them, in buffers of one kind.
template <class Buffer>
class AttentionTensors {
 public:
  AttentionTensors(const AttentionProblem& problem, Attention& attention)
      : shape_(problem.shape),
        places_(PlacesOf(shape_)),
        starts_(problem.starts.size()),
        in_(shape_.dtype, InOneBuffer(shape_, problem.in)),
        dout_(shape_.dtype, problem.dout),
        out_(shape_.dtype, problem.dout.size()),
        lse_(DType::kFloat32, static_cast<size_t>(shape_.batch * shape_.heads * shape_.seq)),
        gradients_(shape_.dtype, places_.size),
        attention_(attention),
        forward_(attention.forward_workspace()),
        backward_(attention.backward_workspace()) {
    std::copy(problem.starts.begin(), problem.starts.end(), starts_.data());
  }

  void Forward(Stream stream) {
    attention_.Forward(stream, Input(), out_.data(), lse_.floats(), forward_.data());
  }
  void Backward(Stream stream) {
    attention_.Backward(stream, Input(), out_.data(), lse_.floats(), dout_.data(),
                        At(gradients_, places_.q), At(gradients_, places_.k),
                        At(gradients_, places_.v), backward_.data());
  }
  void Run(Stream stream = {}) {
    Forward(stream);
    Backward(stream);
  }

  Buffer& out() { return out_; }
  Buffer& lse() { return lse_; }
  Buffer& gradients() { return gradients_; }

 private:
  void* At(Buffer& buffer, size_t place) const {
    return static_cast<char*>(buffer.data()) + place * static_cast<size_t>(SizeOf(shape_.dtype));
  }
  AttentionInput Input() {
    return {.q = At(in_, places_.q),
            .k = At(in_, places_.k),
            .v = At(in_, places_.v),
            .starts = starts_.empty() ? nullptr : starts_.data()};
  }

  const AttentionShape shape_;
  const Places places_;
  Reachable<int32_t> starts_;
  Buffer in_, dout_, out_, lse_, gradients_;
  Attention& attention_;
  Workspace forward_, backward_;
};

// Everything that both passes wrote.
struct AttentionBits {
  std::vector<char> out, lse, gradients;
  bool operator==(const AttentionBits&) const = default;
};
AttentionBits RunForBits(const Kernels& kernels, const AttentionProblem& problem);

// Gradients in a buffer of the shape's layout, as ExpectClose.
void ExpectCloseGradients(const AttentionShape& shape, const Tensor& got,
                          const twin::QueriesKeysValues& want, double relative, double absolute);

}  // namespace sluice

#endif  // SLUICE_TESTS_MODELS_KERNELS_ATTENTION_PROBLEM_H_
