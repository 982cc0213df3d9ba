#include "pipeline/compile/memory/arena_layout.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "pipeline/compile/memory/memory_plan.h"
#include "pipeline/compile/memory/work_memory.h"

namespace sluice {
namespace {

// Puts tensors one behind the other.
class Shelf {
 public:
  int64_t Take(int64_t bytes) { return std::exchange(end_, end_ + AlignUp(bytes)); }
  int64_t end() const { return end_; }

 private:
  int64_t end_ = 0;
};

// The arena of one rank, part by part.
class Layout {
 public:
  Layout(const RunPlan& plan, int world_rank)
      : plan_(plan),
        program_(plan.train[static_cast<size_t>(plan.pipeline_rank(world_rank))]),
        world_rank_(world_rank),
        slice_(static_cast<size_t>(plan.GroupOf(world_rank).index)),
        first_parameter_(FirstParameters(plan)) {}

  void Persistent() {
    RankMemory& memory = arena_.memory;
    const int zero = plan_.zero(world_rank_);
    memory.parameters = Parameters(&arena_.weights);
    memory.gradients = zero >= 2 ? Slices(&arena_.gradients) : Trained(&arena_.gradients);
    if (plan_.rank_groups(world_rank_) > 1 && zero < 2)
      memory.gradients += Trained(&arena_.second_gradients);
    const auto moments = [this, zero](ParameterOffsets* offsets) {
      return zero >= 1 ? Slices(offsets) : Trained(offsets);
    };
    memory.optimizer = moments(&arena_.moments1);
    if (plan_.request.optimizer == OptimizerKind::kAdamW)
      memory.optimizer += moments(&arena_.moments2);
    memory.packed = Packed(&arena_.packed, 0);
    memory.stashed = Stashed();
  }

  // What lives within a step, and what is exchanged between steps, in one region.
  void Step(StepLayout step) {
    for (int64_t& offset : step.train.offsets) offset += shelf_.end();
    for (int64_t& offset : step.evaluate.offsets) offset += shelf_.end();
    arena_.step_region = shelf_.end();
    const int64_t norm_bytes = NormWorkBytes(plan_, world_rank_);
    int64_t bytes =
        std::max({step.train.bytes, step.evaluate.bytes, ExchangedBytes(plan_, world_rank_)});
    // Between steps all of the region is free; an asynchronous run changes its weights within one.
    arena_.norm_work = shelf_.end() + (plan_.asynchronous() ? bytes : 0);
    bytes = plan_.asynchronous() ? bytes + norm_bytes : std::max(bytes, norm_bytes);
    arena_.memory.activations = bytes;
    arena_.memory.total = shelf_.end() + arena_.memory.activations;
    arena_.train = std::move(step.train.offsets);
    arena_.evaluate = std::move(step.evaluate.offsets);
  }

  ArenaLayout Take() { return std::move(arena_); }

 private:
  // [global layer]: its first parameter in canonical order.
  static std::vector<size_t> FirstParameters(const RunPlan& plan) {
    std::vector<size_t> first = {0};
    for (const LayerDecl& layer : plan.layers)
      first.push_back(first.back() + layer.parameters.size());
    return first;
  }

  // Place for values of every parameter that is trained.
  int64_t Trained(ParameterOffsets* offsets) {
    const int64_t start = shelf_.end();
    for (size_t local = 0; local < program_.layers.size(); ++local) {
      std::vector<int64_t>& of_layer = offsets->emplace_back();
      for (const ParameterDecl& parameter : Decl(local).parameters) {
        const int64_t bytes = TrainedElements(parameter) * SizeOf(DType::kFloat32);
        of_layer.push_back(parameter.frozen ? kNoOffset : shelf_.Take(bytes));
      }
    }
    return shelf_.end() - start;
  }

  // The rank's slice of every parameter that is trained.
  int64_t Slices(ParameterOffsets* offsets) {
    const int64_t start = shelf_.end();
    for (const int layer : program_.layers) {
      std::vector<int64_t>& of_layer = offsets->emplace_back();
      const auto at = static_cast<size_t>(layer);
      for (size_t p = first_parameter_[at]; p < first_parameter_[at + 1]; ++p) {
        const std::vector<int64_t>& bounds = plan_.shards[p];
        const int64_t elements = bounds[slice_ + 1] - bounds[slice_];
        const bool frozen = plan_.layers[at].parameters[p - first_parameter_[at]].frozen;
        of_layer.push_back(frozen ? kNoOffset : shelf_.Take(elements * SizeOf(DType::kFloat32)));
      }
    }
    return shelf_.end() - start;
  }

  int64_t Parameters(ParameterOffsets* offsets, int slot = 0) {
    const int64_t start = shelf_.end();
    for (size_t local = 0; local < program_.layers.size(); ++local) {
      std::vector<int64_t>& of_layer = offsets->emplace_back();
      if (slot >= SlotsAt(local)) continue;
      for (const ParameterDecl& parameter : Decl(local).parameters)
        of_layer.push_back(parameter.frozen ? Frozen(parameter) : shelf_.Take(parameter.bytes()));
    }
    return shelf_.end() - start;
  }

  // One place for all versions of a weight that never changes, and for what is tied to it.
  int64_t Frozen(const ParameterDecl& parameter) {
    const auto [place, first] =
        frozen_.try_emplace(parameter.tied_to.empty() ? parameter.name : parameter.tied_to);
    if (first) place->second = shelf_.Take(parameter.bytes());
    return place->second;
  }

  int64_t Packed(std::vector<int64_t>* offsets, int slot) {
    const int64_t start = shelf_.end();
    for (size_t local = 0; local < program_.layers.size(); ++local) {
      offsets->push_back(slot >= SlotsAt(local)
                             ? kNoOffset
                             : shelf_.Take(static_cast<int64_t>(Decl(local).packed_bytes)));
    }
    return shelf_.end() - start;
  }

  int64_t Stashed() {
    int slots = 1;
    for (const RankStage& stage : program_.stages) slots = std::max(slots, stage.slots);
    int64_t bytes = 0;
    for (int slot = 1; slot < slots; ++slot) {
      bytes += Parameters(&arena_.stashed_weights.emplace_back(), slot);
      bytes += Packed(&arena_.stashed_packed.emplace_back(), slot);
    }
    return bytes;
  }

  const LayerDecl& Decl(size_t local) const {
    return plan_.layers[static_cast<size_t>(program_.layers[local])];
  }
  int SlotsAt(size_t local) const {
    size_t stage = 0;
    while (program_.stages[stage].last < static_cast<int>(local)) ++stage;
    return program_.stages[stage].slots;
  }

  const RunPlan& plan_;
  const RankProgram& program_;
  const int world_rank_;
  const size_t slice_;
  const std::vector<size_t> first_parameter_;
  std::map<std::string, int64_t> frozen_;  // by the name that it is stored as
  Shelf shelf_;
  ArenaLayout arena_;
};

}  // namespace

StepLayout LayOutStep(const RankProgram& train, const RankProgram& evaluate) {
  return {.train = PackBuffers(train.buffers), .evaluate = PackBuffers(evaluate.buffers)};
}

ArenaLayout LayOutArena(const RunPlan& plan, int world_rank, StepLayout step) {
  Layout layout(plan, world_rank);
  layout.Persistent();
  layout.Step(std::move(step));
  return layout.Take();
}

}  // namespace sluice
