#include "models/kernels/cudnn/plan.h"

#include <algorithm>

#include "models/kernels/cudnn/lower.h"

namespace sluice::cudnn {
namespace {

// The number of engines that the heuristic is asked for; it names at most five for these graphs.
constexpr int64_t kMostEngines = 16;

cudnnBackendDescriptor_t DeviceOf(const std::string& properties, Descriptors* make) {
  cudnnBackendDescriptor_t made = make->New(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  make->Set(made, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
            static_cast<int64_t>(properties.size()), properties.data());
  make->Finish(made, "a described GPU");
  return made;
}

bool VariesItsBits(const std::vector<cudnnBackendNumericalNote_t>& notes) {
  return std::find(notes.begin(), notes.end(), CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) !=
         notes.end();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Plan>> Plan::Make(const Library& library, const TensorGraph& graph,
                                                 const Target& target) {
  std::unique_ptr<Plan> plan(new Plan(library));
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    if (!graph.tensors[i].constant.has_value()) continue;
    plan->constants_.push_back(*graph.tensors[i].constant);
    plan->constant_positions_.push_back(static_cast<int>(i));
  }
  cudnnBackendDescriptor_t lowered = Lower(graph, target.handle, &plan->made_);
  if (absl::Status status = plan->Choose(lowered, target); !status.ok()) return status;
  return plan;
}

absl::Status Plan::Choose(cudnnBackendDescriptor_t graph, const Target& target) {
  cudnnBackendDescriptor_t heuristic = made_.New(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  made_.Set(heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
  made_.Set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (target.handle == nullptr) {
    made_.Set(heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, DeviceOf(target.properties, &made_));
  }
  made_.Finish(heuristic, "its choice of engines");
  const std::vector<cudnnBackendDescriptor_t> configs = made_.GetDescriptors(
      heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, kMostEngines);
  if (!made_.status().ok()) return made_.status();
  absl::Status last = absl::UnimplementedError("cuDNN has no engine for this graph");
  for (cudnnBackendDescriptor_t config : configs) {
    last = Try(config, target);
    if (!absl::IsUnimplemented(last)) return last;
  }
  return last;
}

absl::Status Plan::Try(cudnnBackendDescriptor_t config, const Target& target) {
  chosen_ = std::make_unique<Descriptors>(library_);
  Descriptors& make = *chosen_;
  const std::vector<cudnnBackendDescriptor_t> engine =
      make.GetDescriptors(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  if (!make.status().ok()) return make.status();
  if (engine.empty() || VariesItsBits(make.GetNotes(engine[0]))) {
    return absl::UnimplementedError("cuDNN's engine does not give the same bits each time");
  }
  cudnnBackendDescriptor_t plan = make.New(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (target.handle != nullptr) make.Set(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
  make.Set(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  make.Finish(plan, "compiling a kernel");
  const int64_t bytes = make.GetInt(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  const int64_t number = make.GetInt(engine[0], CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  if (!make.status().ok()) return make.status();
  plan_ = plan;
  workspace_bytes_ = bytes;
  engine_ = number;
  return absl::OkStatus();
}

absl::Status Plan::Execute(cudnnHandle_t handle, absl::Span<const std::pair<int, void*>> tensors,
                           void* workspace) const {
  std::vector<int64_t> ids;
  std::vector<void*> pointers;
  for (const auto& [position, pointer] : tensors) {
    ids.push_back(UniqueId(position));
    pointers.push_back(pointer);
  }
  for (size_t i = 0; i < constants_.size(); ++i) {
    ids.push_back(UniqueId(constant_positions_[i]));
    pointers.push_back(const_cast<float*>(&constants_[i]));  // only read, on the host
  }
  Descriptors make(library_);
  cudnnBackendDescriptor_t pack = make.New(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  const auto count = static_cast<int64_t>(ids.size());
  make.Set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count,
           pointers.data());
  make.Set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
  make.Set(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  make.Finish(pack, "a call's tensors");
  if (!make.status().ok()) return make.status();
  return library_.ToStatus(library_.execute(handle, plan_, pack), "queueing a kernel");
}

}  // namespace sluice::cudnn
