#include "models/kernels/cpu/functions.h"
#include "models/kernels/cpu/matmul.h"
#include "models/kernels/cpu/portable_linear.h"
#include "models/kernels/portable_kernels.h"

namespace sluice {
namespace {

constexpr Kernels Table(decltype(Kernels::make_linear) make_linear, MasterWeights master_weights) {
  return {
      .device = master_weights == MasterWeights::kSplit ? "cpu, split master weights" : "cpu",
      .master_weights = master_weights,
      .head_limits = kProcessorHead,
      .make_linear = make_linear,
      .make_attention = cpu::MakeAttention,
      .attend_cached = cpu::AttendCached,
      .attend_cached_workspace = cpu::AttendCachedWorkspace,
      .embedding_forward = cpu::EmbeddingForward,
      .embedding_backward = cpu::EmbeddingBackward,
      .embedding_backward_workspace = cpu::NoWorkspace,
      .layer_norm_forward = cpu::LayerNormForward,
      .layer_norm_backward = cpu::LayerNormBackward,
      .layer_norm_backward_workspace = cpu::NoWorkspace,
      .rms_norm_forward = cpu::RmsNormForward,
      .rms_norm_backward = cpu::RmsNormBackward,
      .rms_norm_backward_workspace = cpu::NoWorkspace,
      .activation_forward = cpu::ActivationForward,
      .activation_backward = cpu::ActivationBackward,
      .gated_forward = cpu::GatedForward,
      .gated_backward = cpu::GatedBackward,
      .rope_table = cpu::RopeTable,
      .rope = cpu::Rope,
      .rms_norm_rope_forward = cpu::RmsNormRopeForward,
      .rms_norm_rope_backward = cpu::RmsNormRopeBackward,
      .cross_entropy = cpu::CrossEntropy,
      .cross_entropy_workspace = cpu::CrossEntropyWorkspace,
      .soft_cap = cpu::SoftCap,
      .dropout = cpu::Dropout,
      .scale = cpu::Scale,
      .column_sums = cpu::ColumnSums,
      .column_sums_workspace = cpu::ColumnSumsWorkspace,
      .accumulate = cpu::Accumulate,
      .block_squares = cpu::BlockSquares,
      .add_in_groups = cpu::AddInGroups,
      .all_finite = cpu::AllFinite,
      .hash = cpu::Hash,
      .adamw = cpu::AdamW,
      .sgd = cpu::Sgd,
      .copy = cpu::Copy,
  };
}

}  // namespace

const Kernels& CpuKernels(MasterWeights master_weights) {
  static constexpr Kernels kWhole = Table(cpu::MakeLinear, MasterWeights::kWhole);
  static constexpr Kernels kSplit = Table(cpu::MakeLinear, MasterWeights::kSplit);
  return master_weights == MasterWeights::kSplit ? kSplit : kWhole;
}

const Kernels& PortableCpuKernels(MasterWeights master_weights) {
  static constexpr Kernels kWhole = Table(cpu::MakePortableLinear, MasterWeights::kWhole);
  static constexpr Kernels kSplit = Table(cpu::MakePortableLinear, MasterWeights::kSplit);
  return master_weights == MasterWeights::kSplit ? kSplit : kWhole;
}

bool CpuMultipliesBFloat16() { return cpu::MultipliesBFloat16(); }

}  // namespace sluice
