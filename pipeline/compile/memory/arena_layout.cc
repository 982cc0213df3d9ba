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

// Where the values of parameters lie, of one kind: what is tied lies where the one that it equals does,
// if that is on this rank and of the same copy of the model.
class TiedPlaces {
 public:
  // Takes a new place unless there is one.
  int64_t Find(const ParameterDecl& parameter, int model_copy, int64_t bytes, Shelf* shelf) {
    const std::string& stored = parameter.tied_to.empty() ? parameter.name : parameter.tied_to;
    const auto [place, first] = places_.try_emplace({model_copy, stored});
    if (first) place->second = shelf->Take(bytes);
    return place->second;
  }

 private:
  std::map<std::pair<int, std::string>, int64_t> places_;
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
    memory.parameters = Parameters(&arena_.own.weights);
    // Each parameter has a gradient of its own, which are added only once they are complete: so the
    // sum does not depend on where the two are.
    memory.gradients = zero >= 2 ? Slices(FloatBytes, &arena_.own.gradients, nullptr)
                                 : Trained(FloatBytes, &arena_.own.gradients, nullptr);
    if (plan_.rank_groups(world_rank_) > 1 && zero < 2)
      memory.gradients += Trained(FloatBytes, &arena_.second_gradients, nullptr);
    const auto state = [this, zero](ElementBytes of, ParameterOffsets* offsets) {
      TiedPlaces places;
      return zero >= 1 ? Slices(of, offsets, &places) : Trained(of, offsets, &places);
    };
    memory.optimizer = state(FloatBytes, &arena_.own.moments1);
    if (plan_.request.optimizer == OptimizerKind::kAdamW)
      memory.optimizer += state(FloatBytes, &arena_.own.moments2);
    memory.optimizer += state(LowHalfBytes, &arena_.own.low_halves);
    memory.packed = Packed(&arena_.packed, 0);
    memory.stashed = Stashed();
    if (plan_.mirrors()) memory.mirror = Mirror();
    if (plan_.audits()) memory.audit = Audit();
  }

  // What lives within a step, and what is exchanged between steps, in one region.
  void Step(BufferLayout train, BufferLayout evaluate) {
    for (int64_t& offset : train.offsets) offset += shelf_.end();
    for (int64_t& offset : evaluate.offsets) offset += shelf_.end();
    arena_.step_region = shelf_.end();
    const int64_t norm_bytes = NormWorkBytes(plan_, world_rank_);
    int64_t bytes = std::max({train.bytes, evaluate.bytes, ExchangedBytes(plan_, world_rank_),
                              AuditBytes(plan_, world_rank_)});
    // Between steps all of the region is free; an asynchronous run changes its weights within one.
    arena_.norm_work = shelf_.end() + (plan_.asynchronous() ? bytes : 0);
    bytes = plan_.asynchronous() ? bytes + norm_bytes : std::max(bytes, norm_bytes);
    arena_.memory.activations = bytes;
    arena_.memory.total = shelf_.end() + arena_.memory.activations;
    arena_.train = std::move(train.offsets);
    arena_.evaluate = std::move(evaluate.offsets);
  }

  ArenaLayout Take() { return std::move(arena_); }

 private:
  // Bytes for each element of a parameter, of values that belong to it; 0: it has none.
  using ElementBytes = int64_t (*)(const ParameterDecl&);

  // The rank that is mirrored lays out what it trains where this rank's shelf ends.
  int64_t Mirror() {
    Layout mirrored(plan_, plan_.MirroredRank(world_rank_));
    mirrored.shelf_ = shelf_;
    const int64_t bytes = mirrored.TrainedState(&arena_.mirror);
    shelf_ = mirrored.shelf_;
    return bytes;
  }

  // What the largest stage of the rank needs, for one stage is audited at a time.
  int64_t Audit() {
    int64_t input = 0, starts = 0, targets = 0, output_grad = 0, gradients = 0;
    for (const RankStage& stage : program_.stages) {
      const StageAudit& audit = plan_.stage_audits[static_cast<size_t>(stage.stage)];
      const auto grow = [&audit](int64_t* most, BufferId buffer) {
        if (buffer == kNoBuffer) return;
        *most = std::max(*most, audit.program.buffers[static_cast<size_t>(buffer)].bytes);
      };
      grow(&input, audit.input);
      grow(&starts, audit.starts);
      grow(&targets, audit.targets);
      grow(&output_grad, audit.output_grad);
      int64_t of_stage = 0;
      for (int local = stage.first; local <= stage.last; ++local) {
        for (const ParameterDecl& parameter : Decl(static_cast<size_t>(local)).parameters)
          of_stage += AlignUp(TrainedElements(parameter) * SizeOf(DType::kFloat32));
      }
      gradients = std::max(gradients, of_stage);
    }
    // Where every micro-batch starts a sum, there is nothing before it.
    const bool accumulates = std::any_of(program_.calls.begin(), program_.calls.end(),
                                         [](const CallBuffers& call) { return call.accumulate; });
    if (!accumulates) gradients = 0;
    const int64_t start = shelf_.end();
    const auto take = [this](int64_t bytes) { return bytes == 0 ? kNoOffset : shelf_.Take(bytes); };
    arena_.audit = {.input = take(input),
                    .starts = take(starts),
                    .targets = take(targets),
                    .output_grad = take(output_grad),
                    .gradients = take(gradients)};
    return shelf_.end() - start;
  }

  // What an update reads and writes of every parameter. Of tied ones one is updated, and so there
  // is one gradient, the sum of both.
  int64_t TrainedState(StateOffsets* offsets) {
    const auto state = [this](ElementBytes of, ParameterOffsets* places) {
      TiedPlaces tied;
      return Trained(of, places, &tied);
    };
    int64_t bytes = state(WeightBytes, &offsets->weights);
    bytes += state(FloatBytes, &offsets->gradients);
    bytes += state(FloatBytes, &offsets->moments1);
    if (plan_.request.optimizer == OptimizerKind::kAdamW)
      bytes += state(FloatBytes, &offsets->moments2);
    return bytes + state(LowHalfBytes, &offsets->low_halves);
  }

  // [global layer]: its first parameter in canonical order.
  static std::vector<size_t> FirstParameters(const RunPlan& plan) {
    std::vector<size_t> first = {0};
    for (const LayerDecl& layer : plan.layers)
      first.push_back(first.back() + layer.parameters.size());
    return first;
  }

  // A place for `bytes` of values that belong to the parameter; null: one for each parameter.
  int64_t Place(const ParameterDecl& parameter, size_t local, int64_t bytes, TiedPlaces* places) {
    return places == nullptr ? shelf_.Take(bytes)
                             : places->Find(parameter, ModelCopy(local), bytes, &shelf_);
  }

  static int64_t WeightBytes(const ParameterDecl& parameter) {
    return parameter.frozen ? 0 : SizeOf(parameter.dtype);
  }
  static int64_t FloatBytes(const ParameterDecl& parameter) {
    return parameter.frozen ? 0 : SizeOf(DType::kFloat32);
  }
  static int64_t LowHalfBytes(const ParameterDecl& parameter) {
    return parameter.is_split() ? SizeOf(DType::kFloat32) - SizeOf(DType::kBFloat16) : 0;
  }

  // Place for such values of every parameter.
  int64_t Trained(ElementBytes of, ParameterOffsets* offsets, TiedPlaces* places) {
    const int64_t start = shelf_.end();
    for (size_t local = 0; local < program_.layers.size(); ++local) {
      std::vector<int64_t>& of_layer = offsets->emplace_back();
      for (const ParameterDecl& parameter : Decl(local).parameters) {
        const int64_t bytes = ElementCount(parameter.shape) * of(parameter);
        of_layer.push_back(bytes == 0 ? kNoOffset : Place(parameter, local, bytes, places));
      }
    }
    return shelf_.end() - start;
  }

  // The same for the rank's slice of every parameter.
  int64_t Slices(ElementBytes of, ParameterOffsets* offsets, TiedPlaces* places) {
    const int64_t start = shelf_.end();
    for (size_t local = 0; local < program_.layers.size(); ++local) {
      std::vector<int64_t>& of_layer = offsets->emplace_back();
      const auto at = static_cast<size_t>(program_.layers[local]);
      for (size_t p = first_parameter_[at]; p < first_parameter_[at + 1]; ++p) {
        const std::vector<int64_t>& bounds = plan_.shards[p];
        const int64_t elements = bounds[slice_ + 1] - bounds[slice_];
        const ParameterDecl& parameter = plan_.layers[at].parameters[p - first_parameter_[at]];
        const int64_t element = of(parameter);
        of_layer.push_back(element == 0 ? kNoOffset
                                        : Place(parameter, local, elements * element, places));
      }
    }
    return shelf_.end() - start;
  }

  int64_t Parameters(ParameterOffsets* offsets, int slot = 0) {
    const int64_t start = shelf_.end();
    TiedPlaces trained;
    for (size_t local = 0; local < program_.layers.size(); ++local) {
      std::vector<int64_t>& of_layer = offsets->emplace_back();
      if (slot >= SlotsAt(local)) continue;
      for (const ParameterDecl& parameter : Decl(local).parameters) {
        // All versions and copies of a weight that never changes have one place.
        const int64_t place = parameter.frozen
                                  ? frozen_.Find(parameter, 0, parameter.stored_bytes(), &shelf_)
                                  : Place(parameter, local, parameter.stored_bytes(), &trained);
        of_layer.push_back(place);
      }
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
  const RankStage& StageOf(size_t local) const {
    size_t stage = 0;
    while (program_.stages[stage].last < static_cast<int>(local)) ++stage;
    return program_.stages[stage];
  }
  int SlotsAt(size_t local) const { return StageOf(local).slots; }
  int ModelCopy(size_t local) const { return plan_.lowered.placement.copy(StageOf(local).stage); }

  const RunPlan& plan_;
  const RankProgram& program_;
  const int world_rank_;
  const size_t slice_;
  const std::vector<size_t> first_parameter_;
  TiedPlaces frozen_;
  Shelf shelf_;
  ArenaLayout arena_;
};

}  // namespace

ArenaLayout LayOutArena(const RunPlan& plan, int world_rank, BufferLayout train,
                        BufferLayout evaluate) {
  Layout layout(plan, world_rank);
  layout.Persistent();
  layout.Step(std::move(train), std::move(evaluate));
  return layout.Take();
}

}  // namespace sluice
