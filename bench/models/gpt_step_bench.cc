// One micro-batch of a GPT through every kernel, in the order of a training step on one core, with
// the time of each: shows where a step goes and what share of the core's peak it reaches.
//   gpt_step_bench [fp32|bf16]...
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/models/gemm_peak.h"
#include "models/kernels/kernels.h"

namespace sluice {
namespace {

constexpr int64_t kLayers = 6, kDim = 384, kHeads = 6, kSeq = 256, kBatch = 4, kVocab = 256;
constexpr int64_t kRows = kBatch * kSeq, kHidden = 4 * kDim;
constexpr int kIterations = 15;

// The calls of one pass, in order.
class Pass {
 public:
  struct Call {
    std::string name;
    double flops = 0;
    double seconds = 0;
  };

  void Time(const std::string& name, double flops, const std::function<void()>& run) {
    const double start = ThreadSeconds();
    run();
    calls_.push_back({name, flops, ThreadSeconds() - start});
  }

  double seconds() const {
    double sum = 0;
    for (const Call& call : calls_) sum += call.seconds;
    return sum;
  }
  double flops() const {
    double sum = 0;
    for (const Call& call : calls_) sum += call.flops;
    return sum;
  }
  // Each call's best time of the two passes.
  void KeepBest(const Pass& other) {
    if (calls_.empty()) calls_ = other.calls_;
    for (size_t i = 0; i < calls_.size(); ++i) {
      calls_[i].seconds = std::min(calls_[i].seconds, other.calls_[i].seconds);
    }
  }
  // The times of calls with the same name added up, in the order of their first use.
  std::vector<Call> Lines() const {
    std::vector<Call> lines;
    for (const Call& call : calls_) {
      const auto same = [&](const Call& line) { return line.name == call.name; };
      auto line = std::find_if(lines.begin(), lines.end(), same);
      if (line == lines.end()) line = lines.insert(line, {call.name, 0, 0});
      line->flops += call.flops;
      line->seconds += call.seconds;
    }
    return lines;
  }

 private:
  std::vector<Call> calls_;
};

struct Map {
  explicit Map(const LinearShape& s)
      : shape(s),
        kernel(CpuKernels().make_linear(s)),
        weight(Floats(s.in * s.out)),
        dw(Floats(s.in * s.out)),
        bias(s.bias ? Floats(s.out) : nullptr),
        db(s.bias ? Floats(s.out) : nullptr),
        packed(BenchBuffer(kernel->packed_bytes(), s.dtype)) {}
  static float* Floats(int64_t n) {
    return static_cast<float*>(
        BenchBuffer(static_cast<size_t>(n) * sizeof(float), DType::kFloat32));
  }
  double flops() const { return 2.0 * static_cast<double>(shape.rows * shape.in * shape.out); }

  LinearShape shape;
  std::unique_ptr<Linear> kernel;
  float *weight, *dw, *bias, *db;
  void* packed;
};

// The tensors and kernels of one transformer block, connected as in
// models/layers/decoder_block.cc.
class Block {
 public:
  Block(DType dtype, void* workspace)
      : dtype_(dtype),
        workspace_(workspace),
        c_attn_({.rows = kRows, .in = kDim, .out = 3 * kDim, .dtype = dtype}),
        proj_({.rows = kRows, .in = kDim, .out = kDim, .dtype = dtype}),
        fc_({.rows = kRows,
             .in = kDim,
             .out = kHidden,
             .dtype = dtype,
             .activation = Activation::kGelu}),
        mlp_({.rows = kRows,
              .in = kHidden,
              .out = kDim,
              .dtype = dtype,
              .input_activation = Activation::kGelu}),
        attention_(*CpuKernels().make_attention({.batch = kBatch,
                                                 .seq = kSeq,
                                                 .heads = kHeads,
                                                 .kv_heads = kHeads,
                                                 .width = kDim / kHeads,
                                                 .q_stride = 3 * kDim,
                                                 .kv_stride = 3 * kDim,
                                                 .dtype = dtype})) {
    for (void** tensor : {&a1_, &att_, &x_mid_, &a2_, &y_, &dx_mid_, &d_norm_, &dx_}) {
      *tensor = New(kDim);
    }
    for (void** tensor : {&qkv_, &dqkv_}) *tensor = New(3 * kDim);
    for (void** tensor : {&h_, &g_, &dh_}) *tensor = New(kHidden);
    for (float** vector : {&gamma_, &beta_, &mean_, &rstd_}) *vector = Map::Floats(kRows);
    lse_ = Map::Floats(kHeads * kRows);
    partial_ = Map::Floats(2 * kDim);
  }

  void* y() const { return y_; }
  void* dx() const { return dx_; }

  void Pack(Pass* pass) {
    for (Map* map : {&c_attn_, &proj_, &fc_, &mlp_}) {
      pass->Time("pack weights", 0,
                 [&] { map->kernel->Pack({}, map->weight, map->bias, map->packed); });
    }
  }

  void Forward(Pass* pass, const void* x) {
    Norm(pass, x, a1_);
    Product(pass, "F qkv", &c_attn_, a1_, nullptr, qkv_, nullptr);
    pass->Time("F attention", AttentionFlops(),
               [&] { attention_->Forward({}, Parts(), att_, lse_, workspace_); });
    Product(pass, "F proj + residual", &proj_, att_, x, x_mid_, nullptr);
    Norm(pass, x_mid_, a2_);
    Product(pass, "F fc + gelu", &fc_, a2_, nullptr, h_, g_);
    Product(pass, "F mlp + residual", &mlp_, g_, x_mid_, y_, nullptr);
  }

  void Backward(Pass* pass, const void* x, const void* dy) {
    InputGrad(pass, "I mlp * gelu'", &mlp_, dy, h_, dh_);
    InputGrad(pass, "I fc", &fc_, dh_, nullptr, d_norm_);
    NormGrad(pass, d_norm_, x_mid_, dy, dx_mid_);
    InputGrad(pass, "I proj", &proj_, dx_mid_, nullptr, d_norm_);
    pass->Time("I attention", 2 * AttentionFlops(), [&] {
      attention_->Backward({}, Parts(), att_, lse_, d_norm_, Third(dqkv_, 0), Third(dqkv_, 1),
                           Third(dqkv_, 2), workspace_);
    });
    InputGrad(pass, "I qkv", &c_attn_, dqkv_, nullptr, d_norm_);
    NormGrad(pass, d_norm_, x, dx_mid_, dx_);
    WeightGrad(pass, "W mlp", &mlp_, g_, dy);
    WeightGrad(pass, "W fc", &fc_, a2_, dh_);
    WeightGrad(pass, "W proj", &proj_, att_, dx_mid_);
    WeightGrad(pass, "W qkv", &c_attn_, a1_, dqkv_);
  }

  size_t Workspace() const {
    size_t most = std::max(attention_->forward_workspace(), attention_->backward_workspace());
    for (const Map* map : {&c_attn_, &proj_, &fc_, &mlp_}) {
      most = std::max({most, map->kernel->forward_workspace(), map->kernel->input_grad_workspace(),
                       map->kernel->weight_grad_workspace()});
    }
    return most;
  }

 private:
  // Half of the score matrix, which is all that a causal model needs.
  static double AttentionFlops() { return 2.0 * static_cast<double>(kRows * kSeq * kDim); }
  void* Third(void* qkv, int64_t which) const {
    return static_cast<char*>(qkv) + which * kDim * SizeOf(dtype_);
  }
  AttentionInput Parts() const {
    return {.q = Third(qkv_, 0), .k = Third(qkv_, 1), .v = Third(qkv_, 2)};
  }
  void* New(int64_t width) const {
    return BenchBuffer(static_cast<size_t>(kRows * width * SizeOf(dtype_)), dtype_);
  }
  void Norm(Pass* pass, const void* x, void* y) {
    pass->Time("F norm", 0, [&] {
      CpuKernels().layer_norm_forward({}, dtype_, kRows, kDim, 1e-5f, x, gamma_, beta_, y, mean_,
                                      rstd_);
    });
  }
  void NormGrad(Pass* pass, const void* dy, const void* x, const void* residual, void* dx) {
    pass->Time("I norm", 0, [&] {
      CpuKernels().layer_norm_backward({}, dtype_, kRows, kDim, dy, x, gamma_, mean_, rstd_,
                                       residual, dx, partial_, nullptr);
    });
  }
  void Product(Pass* pass, const char* name, Map* map, const void* x, const void* residual, void* y,
               void* activated) {
    pass->Time(name, map->flops(), [&] {
      map->kernel->Forward({}, x, map->weight, map->packed, map->bias, residual, y, activated,
                           workspace_);
    });
  }
  void InputGrad(Pass* pass, const char* name, Map* map, const void* dy, const void* before,
                 void* dx) {
    pass->Time(name, map->flops(), [&] {
      map->kernel->BackwardInput({}, dy, map->weight, map->packed, before, dx, workspace_);
    });
  }
  void WeightGrad(Pass* pass, const char* name, Map* map, const void* x, const void* dy) {
    pass->Time(name, map->flops(), [&] {
      map->kernel->BackwardWeight({}, x, dy, map->dw, true, workspace_);
      const SummedColumns bias = {kRows, map->shape.out, dy, map->db};
      CpuKernels().column_sums({}, dtype_, {&bias, 1}, true, workspace_);
    });
  }

  const DType dtype_;
  void* const workspace_;
  Map c_attn_, proj_, fc_, mlp_;
  std::unique_ptr<Attention> attention_;
  void *a1_, *qkv_, *att_, *x_mid_, *a2_, *h_, *g_, *y_;
  void *dh_, *d_norm_, *dx_mid_, *dqkv_, *dx_;
  float *gamma_, *beta_, *mean_, *rstd_, *lse_, *partial_;
};

class Model {
 public:
  explicit Model(DType dtype)
      : dtype_(dtype),
        workspace_(BenchBuffer(kWorkspaceBytes, dtype)),
        head_({.rows = kRows,
               .in = kDim,
               .out = kVocab,
               .dtype = dtype,
               .weight_transposed = true,
               .bias = false}),
        wte_(Map::Floats(kVocab * kDim)),
        wpe_(Map::Floats(kSeq * kDim)),
        dwte_(Map::Floats(kVocab * kDim)),
        dwpe_(Map::Floats(kSeq * kDim)),
        tokens_(static_cast<size_t>(kRows)) {
    const auto bytes = static_cast<size_t>(kRows * kDim * SizeOf(dtype));
    x_ = BenchBuffer(bytes, dtype);
    dx_ = BenchBuffer(bytes, dtype);
    logits_ = BenchBuffer(static_cast<size_t>(kRows * kVocab * SizeOf(dtype)), dtype);
    for (size_t i = 0; i < tokens_.size(); ++i) tokens_[i] = static_cast<int32_t>(i * 37 % kVocab);
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      blocks_.push_back(std::make_unique<Block>(dtype, workspace_));
      if (blocks_.back()->Workspace() > kWorkspaceBytes) std::abort();
    }
  }

  void Pack(Pass* pass) {
    for (auto& block : blocks_) block->Pack(pass);
    pass->Time("pack weights", 0,
               [&] { head_.kernel->Pack({}, head_.weight, head_.bias, head_.packed); });
  }

  void Step(Pass* pass) {
    const Kernels& k = CpuKernels();
    pass->Time("F embedding", 0, [&] {
      k.embedding_forward({}, dtype_, tokens_.data(), nullptr, kRows, kSeq, kDim, 1,
                          DType::kFloat32, wte_, wpe_, x_);
    });
    const void* x = x_;
    for (auto& block : blocks_) {
      block->Forward(pass, x);
      x = block->y();
    }
    pass->Time("F head", head_.flops(), [&] {
      head_.kernel->Forward({}, x, head_.weight, head_.packed, nullptr, nullptr, logits_, nullptr,
                            workspace_);
    });
    pass->Time("F cross-entropy", 0, [&] {
      k.cross_entropy({}, {.dtype = dtype_, .rows = kRows, .classes = kVocab}, logits_,
                      tokens_.data(), 1e-3f, false, &loss_, &correct_, workspace_);
    });
    pass->Time("I head", head_.flops(), [&] {
      head_.kernel->BackwardInput({}, logits_, head_.weight, head_.packed, nullptr, dx_,
                                  workspace_);
    });
    pass->Time("W head", head_.flops(),
               [&] { head_.kernel->BackwardWeight({}, x, logits_, head_.dw, true, workspace_); });
    const void* dy = dx_;
    for (size_t layer = blocks_.size(); layer-- > 0;) {
      blocks_[layer]->Backward(pass, layer == 0 ? x_ : blocks_[layer - 1]->y(), dy);
      dy = blocks_[layer]->dx();
    }
    pass->Time("W embedding", 0, [&] {
      k.embedding_backward({}, dtype_, tokens_.data(), nullptr, kRows, kSeq, kDim, kVocab, kSeq, 1,
                           dy, dwte_, dwpe_, true, nullptr);
    });
  }

 private:
  static constexpr size_t kWorkspaceBytes = size_t{1} << 26;
  const DType dtype_;
  void* const workspace_;
  Map head_;
  float *wte_, *wpe_, *dwte_, *dwpe_;
  std::vector<int32_t> tokens_;
  void *x_, *dx_, *logits_;
  double loss_ = 0;
  int64_t correct_ = 0;
  std::vector<std::unique_ptr<Block>> blocks_;
};

void Print(const Pass& pass, DType dtype, double peak) {
  fmt::print("\n{} {} layers, dim {}, heads {}, T {}, micro-batch {}: peak {:.1f} GFLOP/s\n\n",
             DTypeName(dtype), kLayers, kDim, kHeads, kSeq, kBatch, peak / 1e9);
  fmt::print("  {:<20}{:>8}{:>9}{:>10}{:>10}\n", "kernel", "ms", "share", "GFLOP/s", "of peak");
  for (const Pass::Call& line : pass.Lines()) {
    fmt::print("  {:<20}{:>8.2f}{:>7.1f} %", line.name, line.seconds * 1e3,
               100 * line.seconds / pass.seconds());
    if (line.flops > 0) {
      const double rate = line.flops / line.seconds;
      fmt::print("{:>10.1f}{:>8.1f} %", rate / 1e9, 100 * rate / peak);
    }
    fmt::print("\n");
  }
  const double rate = pass.flops() / pass.seconds();
  fmt::print("  {:<20}{:>8.2f}{:>7.1f} %{:>10.1f}{:>8.1f} %\n", "all", pass.seconds() * 1e3, 100.0,
             rate / 1e9, 100 * rate / peak);
}

void Bench(DType dtype) {
  double peak = GemmPeak(dtype);
  Model model(dtype);
  Pass packing;
  model.Pack(&packing);
  Pass best;
  double best_whole = 1e9;
  for (int i = 0; i < kIterations; ++i) {
    Pass pass;
    model.Step(&pass);
    best.KeepBest(pass);
    best_whole = std::min(best_whole, pass.seconds());
  }
  peak = std::max(peak, GemmPeak(dtype));
  Print(best, dtype, peak);
  fmt::print("  {:<20}{:>8.2f}{:>19.1f}{:>8.1f} %\n", "best whole pass", best_whole * 1e3,
             best.flops() / best_whole / 1e9, 100 * best.flops() / best_whole / peak);
  Pass again;
  model.Pack(&again);
  fmt::print("  {:<20}{:>8.2f}  once an optimizer step\n", "pack weights", again.seconds() * 1e3);
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) {
  omp_set_num_threads(1);
  const bool all = argc == 1;
  for (const sluice::DType dtype : {sluice::DType::kFloat32, sluice::DType::kBFloat16}) {
    const bool named = std::any_of(argv + 1, argv + argc, [&](const char* name) {
      return std::strcmp(name, sluice::DTypeName(dtype)) == 0;
    });
    if (all || named) sluice::Bench(dtype);
  }
}
