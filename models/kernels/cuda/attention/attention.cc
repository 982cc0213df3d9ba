#include "models/kernels/cuda/attention/attention.h"

#include <cmath>
#include <initializer_list>

#include "models/kernels/cuda_kernels.h"

namespace sluice::cuda {
namespace attention {
namespace {

constexpr int64_t kTileWidth = 128;       // the widest head of the tensor cores' kernels
constexpr uintptr_t kTileAlignment = 16;  // bytes, of tensors and of a head's rows

bool Aligned(std::initializer_list<const void*> tensors) {
  uintptr_t bits = 0;
  for (const void* tensor : tensors) bits |= reinterpret_cast<uintptr_t>(tensor);
  return bits % kTileAlignment == 0;
}

class CudaAttention : public Attention {
 public:
  explicit CudaAttention(const AttentionShape& shape)
      : dtype_(shape.dtype),
        fits_tiles_(shape.dtype == DType::kBFloat16 && shape.dim / shape.heads <= kTileWidth &&
                    shape.dim / shape.heads * SizeOf(shape.dtype) % kTileAlignment == 0) {
    args_.batch_heads = shape.batch * shape.heads;
    args_.seq = static_cast<int>(shape.seq);
    args_.heads = static_cast<int>(shape.heads);
    args_.width = static_cast<int>(shape.dim / shape.heads);
    args_.scale = 1.0f / std::sqrt(static_cast<float>(args_.width));
  }

  size_t forward_workspace() const override { return 0; }
  size_t backward_workspace() const override {
    return static_cast<size_t>(args_.batch_heads * args_.padded_seq()) * sizeof(RowStatistics);
  }

  void Forward(Stream stream, const void* qkv, void* out, float* lse, void*) override {
    AttentionArguments args = args_;
    args.qkv = qkv;
    args.out = out;
    args.lse = lse;
    if (fits_tiles_ && Aligned({qkv, out})) {
      LaunchTileForward(args, stream.handle);
    } else {
      LaunchPlainForward(dtype_, args, stream.handle);
    }
  }

  void Backward(Stream stream, const void* qkv, const void* out, const float* lse, const void* dout,
                void* dqkv, void* workspace) override {
    AttentionArguments args = args_;
    args.qkv = qkv;
    args.out = const_cast<void*>(out);
    args.lse = const_cast<float*>(lse);
    args.dout = dout;
    args.dqkv = dqkv;
    args.statistics = static_cast<RowStatistics*>(workspace);
    if (fits_tiles_ && Aligned({qkv, out, dout, dqkv})) {
      LaunchTileBackward(args, stream.handle);
    } else {
      LaunchPlainBackward(dtype_, args, stream.handle);
    }
  }

 private:
  const DType dtype_;
  const bool fits_tiles_;
  AttentionArguments args_;
};

}  // namespace
}  // namespace attention

absl::StatusOr<std::unique_ptr<Attention>> MakeAttention(const AttentionShape& shape) {
  if (absl::Status fits = CheckCudaAttention(shape); !fits.ok()) return fits;
  return std::make_unique<attention::CudaAttention>(shape);
}

}  // namespace sluice::cuda
