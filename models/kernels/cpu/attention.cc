#include "models/kernels/cpu/attention.h"

#include <type_traits>

#include "models/kernels/cpu/functions.h"

namespace sluice::cpu {
namespace {

class CpuAttention : public Attention {
 public:
  explicit CpuAttention(const AttentionShape& shape)
      : shape_(shape),
        head_{.seq = static_cast<size_t>(shape.seq),
              .width = static_cast<size_t>(shape.dim / shape.heads),
              .stride = static_cast<size_t>(3 * shape.dim),
              .out_stride = static_cast<size_t>(shape.dim),
              .dtype = shape.dtype} {}

  size_t forward_workspace() const override { return head_.forward_floats() * sizeof(float); }
  size_t backward_workspace() const override { return head_.backward_floats() * sizeof(float); }

  void Forward(Stream, const void* qkv, void* out, float* lse, void* workspace) override {
    for (int64_t batch = 0; batch < shape_.batch; ++batch) {
      for (int64_t h = 0; h < shape_.heads; ++h) {
        const HeadForward head = {.q = Input(qkv, batch, h, 0),
                                  .k = Input(qkv, batch, h, 1),
                                  .v = Input(qkv, batch, h, 2),
                                  .out = Output(out, batch, h),
                                  .lse = lse + (batch * shape_.heads + h) * shape_.seq};
        AttendHead(head_, head, static_cast<float*>(workspace));
      }
    }
  }

  void Backward(Stream, const void* qkv, const void* out, const float* lse, const void* dout,
                void* dqkv, void* workspace) override {
    for (int64_t batch = 0; batch < shape_.batch; ++batch) {
      for (int64_t h = 0; h < shape_.heads; ++h) {
        const HeadBackward head = {.q = Input(qkv, batch, h, 0),
                                   .k = Input(qkv, batch, h, 1),
                                   .v = Input(qkv, batch, h, 2),
                                   .out = Output(out, batch, h),
                                   .lse = lse + (batch * shape_.heads + h) * shape_.seq,
                                   .dout = Output(dout, batch, h),
                                   .dq = Input(dqkv, batch, h, 0),
                                   .dk = Input(dqkv, batch, h, 1),
                                   .dv = Input(dqkv, batch, h, 2)};
        AttendHeadBackward(head_, head, static_cast<float*>(workspace));
      }
    }
  }

 private:
  template <class Void>
  Void* Advance(Void* tensor, int64_t elements) const {
    using Byte = std::conditional_t<std::is_const_v<Void>, const char, char>;
    return static_cast<Byte*>(tensor) + elements * SizeOf(shape_.dtype);
  }
  // First row of a head's queries (part 0), keys (1) or values (2).
  template <class Void>
  Void* Input(Void* qkv, int64_t batch, int64_t h, int64_t part) const {
    const int64_t width = shape_.dim / shape_.heads;
    return Advance(qkv, (batch * shape_.seq * 3 + part) * shape_.dim + h * width);
  }
  template <class Void>
  Void* Output(Void* out, int64_t batch, int64_t h) const {
    return Advance(out, batch * shape_.seq * shape_.dim + h * (shape_.dim / shape_.heads));
  }

  const AttentionShape shape_;
  const HeadShape head_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> MakeAttention(const AttentionShape& shape) {
  return std::make_unique<CpuAttention>(shape);
}

}  // namespace sluice::cpu
