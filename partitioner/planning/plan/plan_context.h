#ifndef SLUICE_PARTITIONER_PLANNING_PLAN_PLAN_CONTEXT_H_
#define SLUICE_PARTITIONER_PLANNING_PLAN_PLAN_CONTEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/spec/adaptation.h"
#include "models/spec/cuda_attention.h"
#include "models/spec/dtype.h"
#include "models/spec/model_spec.h"
#include "models/spec/optimizer_kind.h"
#include "partitioner/planning/plan/plan.h"

namespace sluice {

// What a rank holds of a cluster: devices of one kind that follow one another.
struct RankDevices {
  std::string kind;         // "h100"
  int first = 0, last = 0;  // numbers in the order of the cluster's file; both inclusive
};

// What a plan was made for, beside what the planner knows.
struct PlanContext {
  std::string model;
  std::optional<ModelSpec> spec;         // where the model is one that sluice trains
  std::vector<std::string> layer_names;  // [layer], or [node] its id
  // Whether the model is a graph of operations: its profile does not say what a micro-batch is, so
  // none of the fields below means anything.
  bool graph = false;
  bool one_order = true;  // of a graph: whether each node uses the one before it
  int64_t micro_batch_size = 1;
  int64_t seq = 1;  // tokens per sample
  DType dtype = DType::kFloat32;
  Adaptation adaptation;  // what of the model is trained
  MasterWeights master_weights = MasterWeights::kWhole;
  CudaAttention attention = CudaAttention::kSluice;  // of GPUs
  int data_parallel = 1;                             // replicas of the pipeline
  int tensor_parallel = 1;                           // devices that share each stage
  std::vector<RankDevices> rank_devices;             // [rank] where devices differ; else empty
  bool sequence_parallel = false;
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  bool overlap_sync = false;  // whether replicas sum gradients while the last backward runs
  int zero = 0;
  bool mirror = false;  // whether ranks keep each other's state
  int audit_every = 0;  // steps from one audit to the next; 0: ranks do not audit each other
  // Of the whole model, however many devices share its layers; of a model that is trained in part,
  // those that are trained.
  int64_t parameters = 0;
  // FLOPs that a step of all replicas needs; 0: unknown. As PaLM's appendix B (Chowdhery et al.,
  // 2022): 6 per token and parameter of a matrix product, and those of attention, here at half,
  // since half of a causal mask is not needed; what is recomputed does not count (LayerSpec).
  // `sluice train` reports the same FLOPs per second.
  double model_flops = 0;
  // FLOP/s in `dtype` of all devices that the plan uses, as their data sheets or their files say;
  // 0: unknown.
  double peak_flops = 0;

  // Tokens (samples, of a model without tokens) that one step trains on.
  double TokensPerStep(const Plan& plan) const {
    return static_cast<double>(data_parallel) * static_cast<double>(plan.micro_batches) *
           static_cast<double>(micro_batch_size * seq);
  }
  // Of all replicas.
  int DeviceCount(const Plan& plan) const { return plan.devices * data_parallel * tensor_parallel; }

  // Rates per second of a plan whose step takes time.
  double TokensPerSecond(const Plan& plan) const { return TokensPerStep(plan) / plan.step_seconds; }
  double TokensPerSecondOfDevice(const Plan& plan) const {
    return TokensPerSecond(plan) / DeviceCount(plan);
  }
  // Nothing where model_flops is unknown.
  std::optional<double> FlopsPerSecondOfDevice(const Plan& plan) const {
    if (model_flops <= 0) return std::nullopt;
    return model_flops / plan.step_seconds / DeviceCount(plan);
  }
  // Model FLOPs utilization (PaLM, appendix B): model_flops over what the devices could do in that
  // time. Nothing where either is unknown.
  std::optional<double> Mfu(const Plan& plan) const {
    if (model_flops <= 0 || peak_flops <= 0) return std::nullopt;
    return model_flops / plan.step_seconds / peak_flops;
  }
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_PLAN_PLAN_CONTEXT_H_
