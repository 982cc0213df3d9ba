#include "models/kernels/cuda/attention/attention.h"

#include <cstddef>
#include <initializer_list>

#include "models/kernels/cuda/kernel_choice.h"
#include "models/kernels/cuda/work_sizes.h"
#include "models/kernels/cuda_kernels.h"

namespace sluice::cuda {
namespace attention {
namespace {

bool Aligned(std::initializer_list<const void*> tensors) {
  uintptr_t bits = 0;
  for (const void* tensor : tensors) bits |= reinterpret_cast<uintptr_t>(tensor);
  return bits % kTileAlignment == 0;
}

class CudaAttention : public Attention {
 public:
  explicit CudaAttention(const AttentionShape& shape)
      : dtype_(shape.dtype),
        fits_tiles_(FitsTiles(shape)),
        backward_workspace_(AttentionBackwardWorkspace(shape)) {
    args_.batch = shape.batch;
    args_.seq = static_cast<int>(shape.seq);
    args_.heads = static_cast<int>(shape.heads);
    args_.kv_heads = static_cast<int>(shape.kv_heads);
    args_.width = static_cast<int>(shape.width);
    args_.q_stride = static_cast<int>(shape.q_stride);
    args_.kv_stride = static_cast<int>(shape.kv_stride);
    args_.window = shape.window < shape.seq ? static_cast<int>(shape.window) : 0;
    args_.scale = ScoreScale(shape);
    args_.soft_cap = shape.soft_cap;
  }

  size_t forward_workspace() const override { return 0; }
  size_t backward_workspace() const override { return backward_workspace_; }

  void Forward(Stream stream, const AttentionInput& in, void* out, float* lse, void*) override {
    AttentionArguments args = With(in);
    args.out = out;
    args.lse = lse;
    if (fits_tiles_ && Aligned({in.q, in.k, in.v, out})) {
      LaunchTileForward(args, stream.handle);
    } else {
      LaunchPlainForward(dtype_, args, stream.handle);
    }
  }

  void Backward(Stream stream, const AttentionInput& in, const void* out, const float* lse,
                const void* dout, void* dq, void* dk, void* dv, void* workspace) override {
    AttentionArguments args = With(in);
    args.out = const_cast<void*>(out);
    args.lse = const_cast<float*>(lse);
    args.dout = dout;
    args.dq = dq;
    args.dk = dk;
    args.dv = dv;
    args.statistics = static_cast<RowStatistics*>(workspace);
    if (fits_tiles_ && Aligned({in.q, in.k, in.v, out, dout, dq, dk, dv})) {
      LaunchTileBackward(args, stream.handle);
    } else {
      LaunchPlainBackward(dtype_, args, stream.handle);
    }
  }

 private:
  AttentionArguments With(const AttentionInput& in) const {
    AttentionArguments args = args_;
    args.q = in.q;
    args.k = in.k;
    args.v = in.v;
    args.starts = in.starts;
    return args;
  }

  const DType dtype_;
  const bool fits_tiles_;
  const size_t backward_workspace_;
  AttentionArguments args_;
};

}  // namespace
}  // namespace attention

absl::StatusOr<std::unique_ptr<Attention>> MakeAttention(const AttentionShape& shape) {
  if (absl::Status fits = CheckCudaAttention(shape); !fits.ok()) return fits;
  return std::make_unique<attention::CudaAttention>(shape);
}

}  // namespace sluice::cuda
