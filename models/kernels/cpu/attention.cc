#include "models/kernels/cpu/attention.h"

#include <algorithm>

#include "models/kernels/cpu/functions.h"
#include "models/kernels/cpu/matmul.h"
#include "models/kernels/cpu/threads.h"

namespace sluice::cpu {
namespace {

BFloat16Products ProductsHere() {
  if (HasTiles()) return BFloat16Products::kTiles;
  return MultipliesBFloat16() ? BFloat16Products::kPairs : BFloat16Products::kSingle;
}

class CpuAttention : public Attention {
 public:
  explicit CpuAttention(const AttentionShape& shape)
      : shape_(shape),
        group_(GroupOf(shape, ProductsHere())),
        threads_(AttentionThreads(shape, ThreadsNow())) {}

  size_t forward_workspace() const override { return BytesOfAll(group_.forward_floats()); }
  size_t backward_workspace() const override { return BytesOfAll(group_.backward_floats()); }

  void Forward(Stream, const AttentionInput& in, void* out, float* lse, void* workspace) override {
    ForEachGroup(workspace, group_.forward_floats(), [&](int64_t batch, int64_t h, float* own) {
      AttendGroup(group_,
                  {.q = Queries(in.q, batch, h),
                   .k = Keys(in.k, batch, h),
                   .v = Keys(in.v, batch, h),
                   .starts = Starts(in.starts, batch),
                   .out = Output(out, batch, h),
                   .lse = LogSums(lse, batch, h)},
                  own);
    });
  }

  void Backward(Stream, const AttentionInput& in, const void* out, const float* lse,
                const void* dout, void* dq, void* dk, void* dv, void* workspace) override {
    ForEachGroup(workspace, group_.backward_floats(), [&](int64_t batch, int64_t h, float* own) {
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
                          own);
    });
  }

 private:
  // Each thread has a work area of `floats` values of its own.
  template <class Visit>
  void ForEachGroup(void* workspace, size_t floats, Visit visit) const {
    OnThreads(threads_, [&](int thread, int count) {
      float* const own = static_cast<float*>(workspace) + static_cast<size_t>(thread) * floats;
      for (int64_t at = thread; at < shape_.batch * shape_.kv_heads; at += count) {
        visit(at / shape_.kv_heads, at % shape_.kv_heads, own);
      }
    });
  }
  // What a group has of each tensor: `h` is its key/value head.
  int64_t FirstHead(int64_t h) const { return h * (shape_.heads / shape_.kv_heads); }
  template <class Void>
  Void* Queries(Void* q, int64_t batch, int64_t h) const {
    return ValueAt(shape_.dtype, q,
                   batch * shape_.seq * shape_.q_stride + FirstHead(h) * shape_.width);
  }
  template <class Void>
  Void* Keys(Void* k, int64_t batch, int64_t h) const {
    return ValueAt(shape_.dtype, k, batch * shape_.seq * shape_.kv_stride + h * shape_.width);
  }
  template <class Void>
  Void* Output(Void* out, int64_t batch, int64_t h) const {
    return ValueAt(shape_.dtype, out,
                   (batch * shape_.seq * shape_.heads + FirstHead(h)) * shape_.width);
  }
  template <class Float>
  Float* LogSums(Float* lse, int64_t batch, int64_t h) const {
    return lse + (batch * shape_.heads + FirstHead(h)) * shape_.seq;
  }
  const int32_t* Starts(const int32_t* starts, int64_t batch) const {
    return starts == nullptr ? nullptr : starts + batch * shape_.seq;
  }

  size_t BytesOfAll(size_t floats) const {
    return static_cast<size_t>(threads_) * floats * sizeof(float);
  }

  const AttentionShape shape_;
  const GroupShape group_;
  const int threads_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Attention>> MakeAttention(const AttentionShape& shape) {
  return std::make_unique<CpuAttention>(shape);
}

}  // namespace sluice::cpu
