#include "pipeline/arena_layout.h"

#include <algorithm>
#include <utility>

#include "pipeline/gradient_exchange.h"
#include "pipeline/memory_plan.h"

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
  Layout(const RunPlan& plan, const RankProgram& program) : plan_(plan), program_(program) {}

  void Persistent() {
    RankMemory& memory = arena_.memory;
    memory.parameters = Parameters(&arena_.weights);
    memory.gradients = Parameters(&arena_.gradients);
    if (plan_.request.sum_groups > 1) memory.gradients += Parameters(&arena_.second_gradients);
    memory.optimizer = Parameters(&arena_.moments1);
    if (plan_.request.optimizer == OptimizerKind::kAdamW)
      memory.optimizer += Parameters(&arena_.moments2);
    memory.packed = Packed(&arena_.packed, 0);
    memory.stashed = Stashed();
  }

  // What lives within a step, and what is exchanged between steps, in one region.
  void Step(const RankProgram& evaluate) {
    BufferLayout step = PackBuffers(program_.buffers);
    BufferLayout evaluation = PackBuffers(evaluate.buffers);
    for (int64_t& offset : step.offsets) offset += shelf_.end();
    for (int64_t& offset : evaluation.offsets) offset += shelf_.end();
    arena_.step_region = shelf_.end();
    arena_.memory.activations =
        std::max({step.bytes, evaluation.bytes, ExchangedBytes(plan_, program_.rank)});
    arena_.memory.total = shelf_.end() + arena_.memory.activations;
    arena_.train = std::move(step.offsets);
    arena_.evaluate = std::move(evaluation.offsets);
  }

  ArenaLayout Take() { return std::move(arena_); }

 private:
  int64_t Parameters(ParameterOffsets* offsets, int slot = 0) {
    const int64_t start = shelf_.end();
    for (size_t local = 0; local < program_.layers.size(); ++local) {
      std::vector<int64_t>& of_layer = offsets->emplace_back();
      if (slot >= SlotsAt(local)) continue;
      for (const ParameterDecl& parameter : Decl(local).parameters)
        of_layer.push_back(shelf_.Take(ElementCount(parameter.shape) * SizeOf(DType::kFloat32)));
    }
    return shelf_.end() - start;
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
  Shelf shelf_;
  ArenaLayout arena_;
};

}  // namespace

ArenaLayout LayOutArena(const RunPlan& plan, const RankProgram& train,
                        const RankProgram& evaluate) {
  Layout layout(plan, train);
  layout.Persistent();
  layout.Step(evaluate);
  return layout.Take();
}

}  // namespace sluice
