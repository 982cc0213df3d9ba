#include "models/kernels/cudnn/attention.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "models/device/cuda_error.h"
#include "models/kernels/cuda/launch.h"
#include "models/kernels/cuda/products/rehearse.h"
#include "models/kernels/cuda_kernels.h"
#include "models/kernels/cudnn/attention_plans.h"

namespace sluice::cudnn {
namespace {

using ShapeKey = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, float>;

// The objects that the attention layers of all threads share on one GPU. A handle serves one call
// at a time; a call only queues work.
struct Engine {
  std::mutex mutex;
  cudnnHandle_t handle = nullptr;
  std::map<ShapeKey, AttentionPlans> plans;
};

absl::Status CheckCapability(int ordinal) {
  int major = 0, minor = 0;
  (void)cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal);
  absl::Status status =
      CudaStatus(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, ordinal),
                 "asking for a GPU's compute capability");
  if (!status.ok() || major == 8 || major == 9) return status;
  return absl::FailedPreconditionError(absl::StrFormat(
      "cuDNN's attention is known to give the same bits each time on GPUs of compute capability "
      "8.0 to 9.0, and this one has %d.%d; take --attention sluice",
      major, minor));
}

// The current device's objects; they live as long as the process.
absl::StatusOr<Engine*> CurrentEngine(const Library& library) {
  static std::mutex mutex;
  static auto* const engines = new std::map<int, Engine>;
  int ordinal = 0;
  absl::Status status = CudaStatus(cudaGetDevice(&ordinal), "asking for the current GPU");
  if (!status.ok()) return status;
  const std::lock_guard lock(mutex);
  Engine& engine = (*engines)[ordinal];
  if (engine.handle != nullptr) return &engine;
  status = CheckCapability(ordinal);
  if (status.ok()) status = library.ToStatus(library.create(&engine.handle), "opening");
  if (!status.ok()) return status;
  return &engine;
}

using Bindings = std::vector<std::pair<int, void*>>;

class CudnnAttention : public Attention {
 public:
  explicit CudnnAttention(const AttentionShape& shape)
      : shape_(shape), workspace_(WorkspaceOf(shape)) {}

  size_t forward_workspace() const override { return workspace_.forward; }
  size_t backward_workspace() const override { return workspace_.backward; }

  void Prepare(Stream stream) override {
    const cudaStream_t queue = cuda::Queue(stream);
    NoteCudaFailure(FindPlans());
    if (made_plans_) Rehearse(stream, queue);
    made_plans_ = false;
  }

  void Forward(Stream stream, const AttentionInput& in, void* out, float* lse,
               void* workspace) override {
    const cudaStream_t queue = cuda::Queue(stream);
    if (!Ready(in, cuda::Aligned(in.q, in.k, in.v, out))) return;
    const AttentionForwardGraph& graph = plans_->forward_graph;
    Run(queue, *plans_->forward,
        {{graph.queries, Mutable(in.q)},
         {graph.keys, Mutable(in.k)},
         {graph.values, Mutable(in.v)},
         {graph.out, out},
         {graph.lse, lse}},
        workspace);
  }

  void Backward(Stream stream, const AttentionInput& in, const void* out, const float* lse,
                const void* dout, void* dq, void* dk, void* dv, void* workspace) override {
    const cudaStream_t queue = cuda::Queue(stream);
    if (!Ready(in, cuda::Aligned(in.q, in.k, in.v, out, dout, dq, dk, dv))) return;
    const AttentionBackwardGraph& graph = plans_->backward_graph;
    Run(queue, *plans_->backward,
        {{graph.queries, Mutable(in.q)},
         {graph.keys, Mutable(in.k)},
         {graph.values, Mutable(in.v)},
         {graph.out, Mutable(out)},
         {graph.lse, const_cast<float*>(lse)},
         {graph.dout, Mutable(dout)},
         {graph.row_sums, workspace},
         {graph.dqueries, dq},
         {graph.dkeys, dk},
         {graph.dvalues, dv}},
        static_cast<std::byte*>(workspace) + workspace_.row_sums);
  }

 private:
  // cuDNN takes tensors that it only reads as non-const pointers, too.
  static void* Mutable(const void* tensor) { return const_cast<void*>(tensor); }

  // Runs both passes once: a plan also has kernels that are loaded when they first run. All tensors
  // share one memory: the result is not used.
  void Rehearse(Stream stream, cudaStream_t queue) {
    const auto tensor_bytes = static_cast<size_t>(
        shape_.batch * shape_.seq *
        std::max({shape_.q_stride, shape_.kv_stride, shape_.heads * shape_.width * 2}) *
        SizeOf(DType::kBFloat16));
    cuda::Rehearse(queue, workspace_.backward, tensor_bytes,
                   [&](std::byte* workspace, std::byte* tensor) {
                     auto* const lse = reinterpret_cast<float*>(tensor);
                     const AttentionInput in = {.q = tensor, .k = tensor, .v = tensor};
                     Forward(stream, in, tensor, lse, workspace);
                     Backward(stream, in, tensor, lse, tensor, tensor, tensor, tensor, workspace);
                   });
  }

  bool Ready(const AttentionInput& in, bool aligned) {
    if (!aligned) {  // its kernels would end the CUDA context
      NoteCudaFailure(absl::InvalidArgumentError(
          "cuDNN's attention takes tensors at multiples of 16 bytes; take --attention sluice"));
      return false;
    }
    if (in.starts != nullptr) {
      NoteCudaFailure(absl::InvalidArgumentError(
          "cuDNN's attention takes sequences of one document; take --attention sluice"));
      return false;
    }
    if (plans_ == nullptr) NoteCudaFailure(FindPlans());
    return plans_ != nullptr;
  }

  absl::Status FindPlans() {
    if (plans_ != nullptr) return absl::OkStatus();
    const absl::StatusOr<Library>& library = LoadLibrary();
    if (!library.ok()) return library.status();
    const absl::StatusOr<Engine*> engine = CurrentEngine(*library);
    if (!engine.ok()) return engine.status();
    const ShapeKey key = {shape_.batch, shape_.seq,      shape_.heads,     shape_.kv_heads,
                          shape_.width, shape_.q_stride, shape_.kv_stride, ScoreScale(shape_)};
    const std::lock_guard lock((*engine)->mutex);
    auto found = (*engine)->plans.find(key);
    if (found == (*engine)->plans.end()) {
      absl::StatusOr<AttentionPlans> plans =
          MakeAttentionPlans(*library, shape_, {.handle = (*engine)->handle});
      if (!plans.ok()) return plans.status();
      found = (*engine)->plans.emplace(key, *std::move(plans)).first;
      made_plans_ = true;
    }
    library_ = &*library;
    engine_ = *engine;
    plans_ = &found->second;
    return absl::OkStatus();
  }

  void Run(cudaStream_t queue, const Plan& plan, const Bindings& tensors, void* workspace) {
    const std::lock_guard lock(engine_->mutex);
    absl::Status status =
        library_->ToStatus(library_->set_stream(engine_->handle, queue), "taking a stream");
    if (status.ok()) status = plan.Execute(engine_->handle, tensors, workspace);
    NoteCudaFailure(status);
  }

  const AttentionShape shape_;
  const AttentionWorkspace workspace_;
  const Library* library_ = nullptr;
  Engine* engine_ = nullptr;
  const AttentionPlans* plans_ = nullptr;  // the engine's
  bool made_plans_ = false;                // by this object, not yet rehearsed
};

}  // namespace

absl::Status PrepareAttention() { return LoadLibrary().status(); }

absl::StatusOr<std::unique_ptr<Attention>> MakeAttention(const AttentionShape& shape) {
  if (absl::Status fits = CheckCudnnAttention(shape); !fits.ok()) return fits;
  return std::make_unique<CudnnAttention>(shape);
}

}  // namespace sluice::cudnn
