#include "pipeline/compile/program/compile_rank.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "pipeline/compile/memory/memory_plan.h"
#include "pipeline/compile/program/gradient_sums.h"
#include "pipeline/compile/program/layer_calls.h"
#include "pipeline/compile/program/messages.h"
#include "pipeline/compile/program/program_builder.h"
#include "schedules/dependency.h"
#include "schedules/recomputed.h"
#include "schedules/weight_versions.h"

namespace sluice {
namespace {

class RankCompiler {
 public:
  RankCompiler(const ProgramRequest& request, int rank, const MessageWindow& window)
      : request_(request),
        table_(*request.timetable),
        deal_(*request.deal),
        placement_(table_.placement),
        micro_batches_(static_cast<size_t>(table_.micro_batches)),
        messages_(
            table_, deal_, rank, window,
            [this](const Action& receive) { return MessageBytes(receive); }, &builder_),
        layers_(HoldStages(rank)),
        calls_(layers_, table_.micro_batches, &builder_),
        sums_(request, &builder_) {
    activations_.assign(static_cast<size_t>(placement_.stages()) * micro_batches_, kNoBuffer);
    gradients_ = activations_;
  }

  RankProgram Run() {
    messages_.Open();
    const auto row = static_cast<size_t>(placement_.rank(builder_.program().stages.front().stage));
    rebuilt_ahead_ = RecomputedIn(table_.rows[row]);
    for (const Action& action : table_.rows[row]) {
      if (MakesWeightGrad(action.op)) sums_.BeforeGradients(action);
      if (IsMine(action)) Compile(action);
    }
    sums_.Finish();
    messages_.Close();
    return std::move(builder_.program());
  }

 private:
  // Lists the rank's stages and layers in the program; returns the layers' declarations.
  std::vector<const LayerDecl*> HoldStages(int rank) {
    RankProgram& program = builder_.program();
    program.rank = rank;
    std::vector<const LayerDecl*> decls;
    local_stage_.assign(static_cast<size_t>(placement_.stages()), 0);
    for (int stage : deal_.StagesOf(rank)) {
      local_stage_[static_cast<size_t>(stage)] = program.stages.size();
      const auto first = static_cast<int>(decls.size());
      for (int layer = Layers(stage).first; layer <= Layers(stage).last; ++layer) {
        program.layers.push_back(layer);
        decls.push_back(&Decl(layer));
      }
      slots_.push_back(SlotsOf(table_, stage));
      program.stages.push_back({.stage = stage,
                                .first = first,
                                .last = static_cast<int>(decls.size()) - 1,
                                .slots = slots_.back().count});
      for (int k = 0; deal_.members(stage) > 1 && k < deal_.members(stage); ++k)
        program.reduces_with.push_back(deal_.first_rank(stage) + k);
    }
    return decls;
  }

  void Compile(const Action& action) {
    switch (action.op) {
      case Op::kIdle:
      case Op::kUnshard:
      case Op::kReshard:
      case Op::kWaitReduceGrad:
      case Op::kWaitSendForward:
      case Op::kWaitSendBackward:
      case Op::kSendForward:  // messages are placed by the actions that make or need their data
      case Op::kRecvForward:
      case Op::kSendBackward:
      case Op::kRecvBackward:
        return;
      case Op::kForward:
        Forward(action);
        return;
      case Op::kRecompute:
        RebuildAhead(action);
        return;
      case Op::kBackward:
      case Op::kInputGrad:
        Backward(action);
        return;
      case Op::kWeightGrad:
        WeightGrad(action);
        return;
      case Op::kReduceGrad:  // of a synchronous table: the end of the step, which is the trainer's
        return;
      case Op::kOptimizerStep:
        if (table_.updates != WeightUpdates::kFlush) UpdateWeights(action);
        return;
    }
  }

  void Forward(const Action& action) {
    const int mb = action.micro_batch;
    const int previous = placement_.PreviousStage(action.stage);
    BufferId current = kNoBuffer;
    if (previous != kNoStage) {
      current = Here(previous) ? At(activations_, previous, mb)
                               : messages_.Receive({Op::kRecvForward, false, action.stage, mb});
    }
    builder_.Begin(action);
    if (previous == kNoStage) current = builder_.Load(Step::kLoadInput, InputBytes(Decl(0)), mb);
    const RankStage& stage = Local(action);
    BufferId starts = kNoBuffer;
    for (int local = stage.first; local <= stage.last; ++local) {
      const CallPlace place = PlaceOf(action, local);
      LayerCalls::Samples samples;
      if (Layer(local).output_shape.empty()) samples.targets = LoadRows(Step::kLoadTargets, mb);
      if (Layer(local).uses_starts && request_.documents) {
        if (starts == kNoBuffer) starts = LoadRows(Step::kLoadStarts, mb);
        samples.starts = starts;
      }
      calls_.SetInput(place, current, samples);
      current = calls_.Forward(place);
    }
    builder_.End();
    At(activations_, action.stage, mb) = current;
    const int next = placement_.NextStage(action.stage);
    if (next != kNoStage && !Here(next)) messages_.Send(deal_.rank(next, mb), current, mb);
  }

  // A number for each row of the micro-batch.
  BufferId LoadRows(Step step, int mb) {
    return builder_.Load(step, request_.batch_rows * SizeOf(DType::kInt32), mb);
  }

  // The stage as a whole, so that its backward need not.
  void RebuildAhead(const Action& action) {
    builder_.Begin(action);
    const RankStage& stage = Local(action);
    for (int local = stage.first; local <= stage.last; ++local)
      calls_.Rebuild(PlaceOf(action, local));
    builder_.End();
  }

  // I; or B, where the weights' gradients follow at once, layer by layer.
  void Backward(const Action& action) {
    const int mb = action.micro_batch;
    const int next = placement_.NextStage(action.stage);
    BufferId gradient = kNoBuffer;
    if (next != kNoStage) {
      gradient = Here(next) ? At(gradients_, next, mb)
                            : messages_.Receive({Op::kRecvBackward, false, action.stage, mb});
    }
    builder_.Begin(action);
    const RankStage& stage = Local(action);
    const bool rebuilt_ahead = RebuiltAhead(action);
    for (int local = stage.last; local >= stage.first; --local) {
      const CallPlace place = PlaceOf(action, local);
      if (!rebuilt_ahead) calls_.Rebuild(place);
      gradient = calls_.InputGrad(place, gradient);
      if (local == stage.first) PassGradient(action.stage, gradient, mb);
      if (action.op == Op::kBackward) LayerWeightGrad(action, local);
    }
    if (action.op == Op::kBackward) sums_.AddGroup(action);
    builder_.End();
    if (action.op == Op::kBackward) sums_.AfterStage(action);
  }

  // The previous stage waits for it, so it leaves before the weight gradients of this stage's first
  // layer.
  void PassGradient(int stage, BufferId gradient, int mb) {
    const int previous = placement_.PreviousStage(stage);
    if (previous == kNoStage) return;
    At(gradients_, stage, mb) = gradient;
    if (!Here(previous)) messages_.Send(deal_.rank(previous, mb), gradient, mb);
  }

  void WeightGrad(const Action& action) {
    builder_.Begin(action);
    const RankStage& stage = Local(action);
    for (int local = stage.last; local >= stage.first; --local) LayerWeightGrad(action, local);
    sums_.AddGroup(action);
    builder_.End();
    sums_.AfterStage(action);
  }

  void LayerWeightGrad(const Action& action, int local) {
    CallPlace place = PlaceOf(action, local);
    const int64_t bytes = GradientBytes(Layer(local));
    if (!sums_.ShardsLayers() || bytes == 0) {
      calls_.WeightGrad(place);
      return;
    }
    if (!place.accumulate) summing_[local] = builder_.New(bytes);
    place.gradients = summing_[local];
    calls_.WeightGrad(place);
    sums_.AfterLayer(action, local, place.gradients);
  }

  static int64_t GradientBytes(const LayerDecl& decl) {
    int64_t bytes = 0;
    for (const ParameterDecl& parameter : decl.parameters)
      bytes += AlignUp(TrainedElements(parameter) * SizeOf(DType::kFloat32));
    return bytes;
  }

  void UpdateWeights(const Action& action) {
    const size_t local = LocalIndex(action.stage);
    const int newest = updated_[action.stage]++;
    builder_.Begin(action);
    builder_.program().updates.push_back({.stage = static_cast<int>(local),
                                          .number = newest,
                                          .from = slots_[local].slot(newest),
                                          .to = slots_[local].slot(newest + 1)});
    builder_.Append({.step = Step::kUpdateWeights,
                     .micro_batch = action.micro_batch,
                     .index = static_cast<int32_t>(builder_.program().updates.size()) - 1});
    builder_.End();
  }

  // Both directions of a boundary carry what its right-hand layer takes as input.
  int64_t MessageBytes(const Action& receive) const {
    const LayerRange& layers = Layers(receive.stage);
    return InputBytes(Decl(receive.op == Op::kRecvForward ? layers.first : layers.last + 1));
  }

  // By a RECOMPUTE of the timetable.
  bool RebuiltAhead(const Action& action) const {
    return rebuilt_ahead_.count({action.stage, action.micro_batch}) > 0;
  }

  Recompute PolicyOf(const Action& action) const {
    const auto of_model = static_cast<size_t>(placement_.model_stage(action.stage));
    const Recompute policy = request_.recompute[of_model];
    if (!RebuiltAhead(action)) return request_.recompute_ahead ? Recompute::kNone : policy;
    return policy == Recompute::kNone ? Recompute::kFull : policy;
  }

  CallPlace PlaceOf(const Action& action, int local) const {
    return {.layer = local,
            .micro_batch = action.micro_batch,
            .recompute = PolicyOf(action),
            .slot = slots_[LocalIndex(action.stage)].SlotOf(action.micro_batch),
            .second_gradient = sums_.HasGroupBefore(action.micro_batch),
            .accumulate = !sums_.Starts(action.micro_batch)};
  }

  // Whether this rank holds `stage`, or is its first member. Neighbouring stages on one rank need no
  // messages; stages with several members have no neighbour on their ranks.
  bool Here(int stage) const { return deal_.first_rank(stage) == builder_.program().rank; }
  bool IsMine(const Action& action) const {
    return deal_.rank(action.stage, std::max(action.micro_batch, 0)) == builder_.program().rank;
  }
  const LayerRange& Layers(int stage) const {
    return (*request_.partition)[static_cast<size_t>(placement_.model_stage(stage))];
  }
  const LayerDecl& Layer(int local) const { return *layers_[static_cast<size_t>(local)]; }
  const LayerDecl& Decl(int layer) const { return (*request_.layers)[static_cast<size_t>(layer)]; }
  size_t LocalIndex(int stage) const { return local_stage_[static_cast<size_t>(stage)]; }
  const RankStage& Local(const Action& action) const {
    return builder_.program().stages[LocalIndex(action.stage)];
  }
  BufferId& At(std::vector<BufferId>& boundary, int stage, int mb) {
    return boundary[static_cast<size_t>(stage) * micro_batches_ + static_cast<size_t>(mb)];
  }

  const ProgramRequest& request_;
  const Timetable& table_;
  const StageDeal& deal_;
  const Placement& placement_;
  const size_t micro_batches_;
  ProgramBuilder builder_;
  MessageScheduler messages_;
  std::vector<size_t> local_stage_;  // [stage]: its position among the rank's
  std::vector<WeightSlots> slots_;   // [local stage]
  // In this order: HoldStages fills what stands above, and the program's stages.
  const std::vector<const LayerDecl*> layers_;  // [local layer]
  LayerCalls calls_;
  GradientSums sums_;
  Recomputed rebuilt_ahead_;
  std::vector<BufferId> activations_;  // [stage][micro-batch]: the stage's output
  std::vector<BufferId> gradients_;    // [stage][micro-batch]: the gradient of the stage's input
  std::map<int, int> updated_;         // [stage]: updates so far
  std::map<int, BufferId> summing_;    // [local layer]: gradients of the group that is being summed
};

}  // namespace

absl::StatusOr<RankProgram> CompileRank(const ProgramRequest& request, int rank,
                                        const MessageWindow& window) {
  if (absl::Status status = CheckRequest(request); !status.ok()) return status;
  return RankCompiler(request, rank, window).Run();
}

Timetable ForwardOnly(const Timetable& lowered, int micro_batches) {
  Timetable forward = lowered;
  forward.micro_batches = micro_batches;
  forward.updates = WeightUpdates::kFlush;
  forward.update_every = 0;
  for (std::vector<Action>& row : forward.rows) {
    std::erase_if(row, [micro_batches](const Action& action) {
      if (action.micro_batch >= micro_batches) return true;
      return action.op != Op::kForward && action.op != Op::kSendForward &&
             action.op != Op::kRecvForward;
    });
  }
  return forward;
}

}  // namespace sluice
