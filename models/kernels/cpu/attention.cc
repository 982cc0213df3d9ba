#include "models/kernels/cpu/attention.h"

#include <type_traits>

#include "models/kernels/cpu/functions.h"

namespace sluice::cpu {
namespace {

class CpuAttention : public Attention {
 public:
  explicit CpuAttention(const AttentionShape& shape)
      : shape_(shape),
        group_{.seq = static_cast<size_t>(shape.seq),
               .heads = static_cast<size_t>(shape.heads / shape.kv_heads),
               .width = static_cast<size_t>(shape.width),
               .q_stride = static_cast<size_t>(shape.q_stride),
               .kv_stride = static_cast<size_t>(shape.kv_stride),
               .out_stride = static_cast<size_t>(shape.heads * shape.width),
               .window = shape.window < shape.seq ? static_cast<size_t>(shape.window) : 0,
               .scale = ScoreScale(shape),
               .soft_cap = shape.soft_cap,
               .dtype = shape.dtype} {}

  size_t forward_workspace() const override { return group_.forward_floats() * sizeof(float); }
  size_t backward_workspace() const override { return group_.backward_floats() * sizeof(float); }

  void Forward(Stream, const AttentionInput& in, void* out, float* lse, void* workspace) override {
    ForEachGroup([&](int64_t batch, int64_t h) {
      AttendGroup(group_,
                  {.q = Queries(in.q, batch, h),
                   .k = Keys(in.k, batch, h),
                   .v = Keys(in.v, batch, h),
                   .starts = Starts(in.starts, batch),
                   .out = Output(out, batch, h),
                   .lse = LogSums(lse, batch, h)},
                  static_cast<float*>(workspace));
    });
  }

  void Backward(Stream, const AttentionInput& in, const void* out, const float* lse,
                const void* dout, void* dq, void* dk, void* dv, void* workspace) override {
    ForEachGroup([&](int64_t batch, int64_t h) {
      AttendGroupBackward(group_,
                          {.q = Queries(in.q, batch, h),
                           .k = Keys(in.k, batch, h),
                           .v = Keys(in.v, batch, h),
                           .starts = Starts(in.starts, batch),
                           .out = Output(out, batch, h),
                           .lse = LogSums(lse, batch, h),
                           .dout = Output(dout, batch, h),
                           .dq = Queries(dq, batch, h),
                           .dk = Keys(dk, batch, h),
                           .dv = Keys(dv, batch, h)},
                          static_cast<float*>(workspace));
    });
  }

 private:
  template <class Visit>
  void ForEachGroup(Visit visit) const {
    for (int64_t batch = 0; batch < shape_.batch; ++batch) {
      for (int64_t h = 0; h < shape_.kv_heads; ++h) visit(batch, h);
    }
  }
  template <class Void>
  Void* Advance(Void* tensor, int64_t elements) const {
    using Byte = std::conditional_t<std::is_const_v<Void>, const char, char>;
    return static_cast<Byte*>(tensor) + elements * SizeOf(shape_.dtype);
  }
  // What a group has of each tensor: `h` is its key/value head.
  int64_t FirstHead(int64_t h) const { return h * (shape_.heads / shape_.kv_heads); }
  template <class Void>
  Void* Queries(Void* q, int64_t batch, int64_t h) const {
    return Advance(q, batch * shape_.seq * shape_.q_stride + FirstHead(h) * shape_.width);
  }
  template <class Void>
  Void* Keys(Void* k, int64_t batch, int64_t h) const {
    return Advance(k, batch * shape_.seq * shape_.kv_stride + h * shape_.width);
  }
  template <class Void>
  Void* Output(Void* out, int64_t batch, int64_t h) const {
    return Advance(out, (batch * shape_.seq * shape_.heads + FirstHead(h)) * shape_.width);
  }
  template <class Float>
  Float* LogSums(Float* lse, int64_t batch, int64_t h) const {
    return lse + (batch * shape_.heads + FirstHead(h)) * shape_.seq;
  }
  const int32_t* Starts(const int32_t* starts, int64_t batch) const {
    return starts == nullptr ? nullptr : starts + batch * shape_.seq;
  }

  const AttentionShape shape_;
  const GroupShape group_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> MakeAttention(const AttentionShape& shape) {
  return std::make_unique<CpuAttention>(shape);
}

}  // namespace sluice::cpu
