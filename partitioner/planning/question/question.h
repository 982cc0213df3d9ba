#ifndef SLUICE_PARTITIONER_PLANNING_QUESTION_QUESTION_H_
#define SLUICE_PARTITIONER_PLANNING_QUESTION_QUESTION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "models/layers/trainable.h"
#include "models/spec/adaptation.h"
#include "models/spec/cuda_attention.h"
#include "models/spec/decoder.h"
#include "models/spec/dtype.h"
#include "models/spec/layer_spec.h"
#include "models/spec/model_spec.h"
#include "models/spec/optimizer_kind.h"
#include "models/spec/profile_graph.h"
#include "partitioner/costs/cluster.h"
#include "partitioner/costs/device.h"
#include "partitioner/costs/profile.h"
#include "partitioner/planning/question/plan_request.h"
#include "schedules/partition.h"

namespace sluice {

// Micro-batches per step and replica where a question does not say.
inline constexpr int kPlannedMicroBatches = 16;

// What is cut into stages: a model, measured layers, or a measured graph of operations.
using PlanSubject = std::variant<ModelSpec, Profile, ProfileGraph>;

// Who trains by the plan.
enum class Trainer : uint8_t {
  kSluice,
  kMegatron,  // Megatron-LM: 1F1B and interleaved (CheckForMegatron); one recompute policy for all
  kTorchTitan,  // any timetable of PyTorch's; one recompute policy for all
};

// What `sluice plan` is asked, read from its flags once. nullopt is "the usual" where a comment
// says what that is, and otherwise "any": the planner chooses.
struct PlanQuestion {
  std::string model;  // the name that was given: a preset or a file
  PlanSubject subject;

  // What runs it: at most one of the two. With neither, this machine's processor, measured now.
  std::optional<DeviceSpec> device;
  std::optional<ClusterSpec> cluster;
  int devices = 1;  // in all
  // What is said instead of the device's own; bytes, bytes per second, seconds.
  std::optional<int64_t> memory;
  std::optional<double> bandwidth, latency;

  // What a step is.
  std::optional<DType> dtype;  // usual: fp32 on a processor, else bf16
  std::optional<int64_t> seq;  // tokens per sample; usual: as the model says
  bool any_micro_batch_size = false;
  std::optional<int64_t> micro_batch_size;  // usual, unless any is allowed: 4, or what was measured
  std::optional<int> micro_batches;         // per step and replica; usual: kPlannedMicroBatches
  std::optional<int64_t> global_batch;      // samples per step; usual: by the two above
  OptimizerKind optimizer = OptimizerKind::kAdamW;
  Adaptation adaptation;                        // what of a model is trained
  std::optional<MasterWeights> master_weights;  // usual: as whoever runs the plan keeps them
  std::optional<CudaAttention> attention;       // of GPUs; usual: sluice's, or what was measured
  bool documents = false;  // samples hold several, as packed ones do (RunRequest::documents)

  // What may be chosen from.
  std::optional<std::string> schedule;  // a name of the catalogue
  std::optional<int> chunks;            // stages per rank
  std::vector<Recompute> policies = {Recompute::kNone};
  std::optional<int> data_parallel = 1, tensor_parallel = 1;
  std::optional<Partition> partition;  // usual: any
  Trainer trainer = Trainer::kSluice;  // only what it runs
  bool sequence_parallel = false;
  bool overlap_sync = false;  // replicas sum gradients while the last backward runs
  int zero = 0;               // 0, 1 or 2
  bool mirror = false;        // ranks keep each other's state (RunRequest::mirror)
  int audit_every = 0;        // steps from one audit to the next (RunRequest::audit_every)

  // What is best, and how long to look for it.
  PlanObjective objective = PlanObjective::kStep;
  double gap = 0;                    // good enough: proved to be at most this much longer
  std::optional<double> time_limit;  // seconds; usual: some where there is much to choose from
  // Asked now and then, from several threads; true ends the search with what it has.
  std::function<bool()> stop;
  bool pareto = false, what_if = false;

  const ModelSpec* spec() const { return std::get_if<ModelSpec>(&subject); }
  const ProfileGraph* graph() const { return std::get_if<ProfileGraph>(&subject); }
  DType compute_type() const {
    return dtype.value_or(on_this_processor() ? DType::kFloat32 : DType::kBFloat16);
  }
  // Whether the costs are those of this machine's processor.
  bool on_this_processor() const { return !device && !cluster; }
  // Whether that processor is measured: the layers of a model that sluice runs whole on each rank.
  bool measures_processor() const {
    return on_this_processor() && tensor_parallel == 1 && spec() != nullptr &&
           CheckTrainable(*spec()).ok();
  }
  // Whether devices share no stage and no pipeline has replicas.
  bool only_pipelines() const { return data_parallel == 1 && tensor_parallel == 1; }
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_QUESTION_QUESTION_H_
