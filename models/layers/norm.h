#ifndef SLUICE_MODELS_LAYERS_NORM_H_
#define SLUICE_MODELS_LAYERS_NORM_H_

#include <cstddef>
#include <string>
#include <vector>

#include "models/layers/linear_layer.h"

namespace sluice {

// A layer norm or RMS norm inside a layer: where its parameters, statistics and partial sums lie in
// a call. The weight gradient is one pass with the input gradient, so I leaves its sums over this
// micro-batch in a tensor with a row for each parameter, and W adds them (AddNormGradients).
class Norm {
 public:
  struct Shape {
    int64_t rows = 0, dim = 0;
    DType dtype = DType::kFloat32;
    float epsilon = 0;
    NormKind kind = NormKind::kLayer;
    float gain_offset = 0;  // of an RMS norm: its gain is so much more than gamma
  };
  // Where a call's tensors keep things, as indices of the LayerDecl. An RMS norm has no beta and no
  // mean, and its rstd is 1 / sqrt(mean(x^2) + epsilon).
  struct Slots {
    int gamma = 0, beta = -1;  // parameters
    int mean = -1, rstd = 0;   // fp32 [rows], until I
    int partial = -1;  // fp32 [2 or 1, dim], I until W; none where all parameters are frozen
  };

  Norm() = default;
  Norm(const Kernels& kernels, const Shape& shape, const Slots& slots)
      : kernels_(&kernels), shape_(shape), slots_(slots) {}

  // What turns heads by their positions, as Kernels::rope has it.
  struct Turn {
    RopeShape shape;
    const float* table = nullptr;
  };

  // y = norm(x), plus `residual` where it is not null, which only an RMS norm takes.
  void Forward(const LayerCall& call, const void* x, void* y, const void* residual = nullptr) const;
  // Bytes of work memory that Backward needs.
  size_t backward_workspace() const;
  // dx = residual_grad + the gradient through the norm.
  void Backward(const LayerCall& call, const void* dy, const void* x, const void* residual_grad,
                void* dx, void* workspace) const;
  // The same of an RMS norm over heads, whose results are turned, without residuals; dy is undefined
  // afterwards. The work memory is Backward's.
  void ForwardTurned(const LayerCall& call, const Turn& turn, const void* x, void* y) const;
  void BackwardTurned(const LayerCall& call, const Turn& turn, void* dy, const void* x, void* dx,
                      void* workspace) const;

 private:
  // Where this micro-batch's sums go; null where all parameters are frozen.
  float* Partial(const LayerCall& call) const;

  const Kernels* kernels_ = nullptr;
  Shape shape_;
  Slots slots_;
};

// A layer of linear maps and norms, as a decoder's are.
class NormedLayer : public LinearLayer {
 public:
  int64_t dim() const { return dim_; }
  // Over [rows, dim]. `name` is that of the norm's tensors ("1"), `parameters` that of its weights
  // ("transformer.h.0.ln_1").
  Norm AddNorm(const std::string& name, const std::string& parameters) {
    return AddNorm(name, parameters, rows(), dim_);
  }
  // Over [norm_rows, width], the same values in other rows.
  Norm AddNorm(const std::string& name, const std::string& parameters, int64_t norm_rows,
               int64_t width);

 protected:
  NormedLayer(const LayerContext& context, const DecoderConfig& config)
      : LinearLayer(context),
        dim_(config.dim),
        epsilon_(config.norm_epsilon),
        kind_(config.norm),
        gain_offset_(config.norm_offset ? 1.0f : 0.0f) {}

  // Adds what the backward passes of all norms left to their parameters' gradients: one launch.
  void AddNormGradients(const LayerCall& call) const;

 private:
  // A row of a norm's partial sums, and the parameter whose gradient it is.
  struct PartialRow {
    int tensor = kAbsent;
    int64_t row = 0, width = 0;
    int parameter = kAbsent;
  };

  int64_t dim_;
  float epsilon_;
  NormKind kind_;
  float gain_offset_;
  std::vector<PartialRow> partial_rows_;  // of what is not frozen
};

}  // namespace sluice

#endif  // SLUICE_MODELS_LAYERS_NORM_H_
