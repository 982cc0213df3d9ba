#include "pipeline/train/start/starting_point.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "models/files/shards.h"
#include "models/files/tensor_sample.h"
#include "models/spec/adaptation.h"
#include "pipeline/checkpoint/adapters/adapter_folder.h"
#include "pipeline/checkpoint/files/checkpoint.h"

namespace sluice {
namespace {

// `start` with the checkpoint that it names opened. `replaces`: its weights go before those of
// `init`, where it has all.
absl::StatusOr<StartingPoint> Opened(StartingPoint start, bool replaces, const RunPlan& plan,
                                     const Dataset& data, const TrainOptions& options) {
  absl::StatusOr<ResumePoint> point = OpenResumePoint(start.resume, plan, options, data);
  if (!point.ok()) return point.status();
  start.point = *std::move(point);
  const LoadedCheckpoint& checkpoint = *start.point.checkpoint;
  if (replaces && start.has_all()) start.init.clear();
  if (start.init.empty()) start.init = checkpoint.state.base;
  start.base_hash = checkpoint.state.base_hash;
  if (options.saving.directory.empty() && options.portions == nullptr) return start;
  absl::StatusOr<ModelFiles> files = KeptModelFiles(checkpoint);
  if (!files.ok()) return files.status();
  start.model_files = std::make_shared<const ModelFiles>(*std::move(files));
  return start;
}

}  // namespace

StartingPoint StartingPoint::Closed() const {
  StartingPoint closed = *this;
  closed.point.checkpoint = nullptr;
  return closed;
}

absl::StatusOr<StartingPoint> OpenStart(const RunPlan& plan, const Dataset& data,
                                        const TrainOptions& options,
                                        const std::string& given_init) {
  const Saving& saving = options.saving;
  StartingPoint start{.resume = saving.resume, .init = saving.init};
  if (!start.resumes()) {
    start.adapter = saving.adapter;
    start.model_files = saving.model_files;
    return start;
  }
  absl::StatusOr<StartingPoint> opened =
      Opened(std::move(start), saving.init_starts, plan, data, options);
  if (opened.ok() && opened->has_all() && !saving.init.empty() && !saving.init_starts) {
    return absl::InvalidArgumentError(
        absl::StrCat("--init ", given_init, " and --resume ", saving.resume,
                     " both say with which weights to go on; leave out --init to resume, or "
                     "--resume to begin with those weights"));
  }
  return opened;
}

absl::StatusOr<StartingPoint> OpenOwnCheckpoint(const std::string& path, const RunPlan& plan,
                                                const Dataset& data, const TrainOptions& options) {
  return Opened({.resume = path, .init = options.saving.init}, /*replaces=*/true, plan, data,
                options);
}

uint64_t SampleStart(const StartingPoint& start) {
  uint64_t sum = 0;
  if (!start.init.empty()) {
    const auto weights = OpenModelWeights(start.init);
    if (weights.ok()) sum += SampleTensors(**weights).value_or(0);
  }
  if (!start.adapter.empty()) {
    const absl::StatusOr<AdapterFolder> adapter = OpenAdapter(start.adapter);
    if (adapter.ok()) sum += SampleTensors(*adapter->tensors).value_or(0);
  }
  return sum;
}

absl::Status LoadStart(const StartingPoint& start, uint64_t seed, RankState& state) {
  const bool has_base = start.has_all() || !start.init.empty();
  const bool has_adapter = start.resumes() || !start.adapter.empty();
  state.Initialize(seed, [&](const ParameterDecl& decl) {
    return IsAdapter(decl.name) ? !has_adapter : !has_base;
  });
  absl::Status status = absl::OkStatus();
  if (has_base && !start.has_all()) status = LoadInitialWeights(start.init, state);
  if (status.ok() && start.resumes()) status = LoadState(*start.point.checkpoint, state);
  if (status.ok() && !start.adapter.empty()) status = LoadAdapter(start.adapter, state);
  return status;
}

absl::Status LoadFrozenStart(const StartingPoint& start, uint64_t seed, RankState& state) {
  const bool draws = !start.has_all() && start.init.empty();
  state.Initialize(seed, [&](const ParameterDecl& decl) { return decl.frozen && draws; });
  if (draws) return absl::OkStatus();
  return start.has_all() ? LoadFrozen(*start.point.checkpoint, state)
                         : LoadInitialWeights(start.init, state);
}

}  // namespace sluice
