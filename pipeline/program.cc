#include "pipeline/program.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "pipeline/messages.h"
#include "pipeline/program_builder.h"

namespace sluice {
namespace {

// What the backward calls of (layer, micro-batch) find in memory.
struct Frame {
  BufferId input = kNoBuffer;
  BufferId output_grad = kNoBuffer;
  BufferId targets = kNoBuffer;
  std::vector<BufferId> tensors;
};

bool WrittenByForward(const TensorDecl& tensor) {
  return tensor.lifetime == Lifetime::kForwardToInputGrad ||
         tensor.lifetime == Lifetime::kForwardToWeightGrad;
}

bool ReadByWeightGrad(const TensorDecl& tensor) {
  return tensor.lifetime == Lifetime::kForwardToWeightGrad ||
         tensor.lifetime == Lifetime::kInputGradToWeightGrad;
}

int64_t InputBytes(const LayerDecl& decl) {
  return ElementCount(decl.input_shape) * SizeOf(decl.input_dtype);
}
int64_t OutputBytes(const LayerDecl& decl) {
  return ElementCount(decl.output_shape) * SizeOf(decl.output_dtype);
}

class RankCompiler {
 public:
  RankCompiler(const ProgramRequest& request, int rank, const MessageWindow& window)
      : request_(request),
        table_(*request.timetable),
        micro_batches_(static_cast<size_t>(table_.micro_batches)),
        messages_(
            table_, rank, window, [this](const Action& receive) { return MessageBytes(receive); },
            &builder_) {
    RankProgram& program = builder_.program();
    program.rank = rank;
    for (int stage : table_.placement.StagesOf(rank)) {
      for (int layer = FirstLayer(stage); layer <= LastLayer(stage); ++layer) {
        program.layers.push_back(layer);
        stage_of_.push_back(stage);
      }
    }
    frames_.resize(program.layers.size() * micro_batches_);
    activations_.assign(static_cast<size_t>(table_.placement.stages()) * micro_batches_, kNoBuffer);
    gradients_ = activations_;
  }

  absl::StatusOr<RankProgram> Run() {
    messages_.Open();
    for (const Action& action : table_.rows[static_cast<size_t>(builder_.program().rank)]) {
      if (absl::Status status = Compile(action); !status.ok()) return status;
    }
    messages_.Close();
    return std::move(builder_.program());
  }

 private:
  absl::Status Compile(const Action& action) {
    switch (action.op) {
      case Op::kIdle:
      case Op::kSendForward:  // messages are placed by the actions that make or need their data
      case Op::kRecvForward:
      case Op::kSendBackward:
      case Op::kRecvBackward:
        return absl::OkStatus();
      case Op::kForward:
        Forward(action);
        return absl::OkStatus();
      case Op::kBackward:
      case Op::kInputGrad:
        Backward(action);
        return absl::OkStatus();
      case Op::kWeightGrad:
        WeightGrad(action);
        return absl::OkStatus();
      default:
        return absl::UnimplementedError(
            absl::StrCat("schedule '", table_.name, "', rank ", builder_.program().rank,
                         ": the runtime has no operation for ", ToString(action),
                         "; it runs F, B, I, W and their sends and receives"));
    }
  }

  void Forward(const Action& action) {
    const int stage = action.stage;
    const int mb = action.micro_batch;
    BufferId current = kNoBuffer;
    if (stage > 0) {
      current = Here(stage - 1) ? At(activations_, stage - 1, mb)
                                : messages_.Receive({Op::kRecvForward, false, action.stage, mb});
    }
    builder_.Begin(action);
    if (stage == 0) current = builder_.Load(Step::kLoadInput, InputBytes(Decl(0)), mb);
    for (int layer = FirstLayer(stage); layer <= LastLayer(stage); ++layer) {
      Frame& frame = At(layer, mb);
      frame.input = current;
      if (Decl(layer).output_shape.empty()) {
        frame.targets =
            builder_.Load(Step::kLoadTargets, request_.batch_rows * SizeOf(DType::kInt32), mb);
      }
      current = ForwardCall(layer, mb, /*rebuild=*/false);
    }
    builder_.End();
    At(activations_, stage, mb) = current;
    if (stage + 1 < table_.placement.stages() && !Here(stage + 1)) {
      messages_.Send(table_.placement.rank(stage + 1), current, mb);
    }
  }

  // I; or B, where the weights' gradients follow at once, layer by layer.
  void Backward(const Action& action) {
    const int stage = action.stage;
    const int mb = action.micro_batch;
    BufferId gradient = kNoBuffer;
    if (stage + 1 < table_.placement.stages()) {
      gradient = Here(stage + 1) ? At(gradients_, stage + 1, mb)
                                 : messages_.Receive({Op::kRecvBackward, false, action.stage, mb});
    }
    builder_.Begin(action);
    for (int layer = LastLayer(stage); layer >= FirstLayer(stage); --layer) {
      At(layer, mb).output_grad = gradient;
      Rebuild(layer, mb);
      gradient = InputGradCall(layer, mb);
      if (layer == FirstLayer(stage) && stage > 0) PassGradient(stage, gradient, mb);
      if (action.op == Op::kBackward) WeightGradCall(layer, mb);
    }
    builder_.End();
  }

  // The previous stage waits for it, so it leaves before the weight gradients of this stage's first
  // layer.
  void PassGradient(int stage, BufferId gradient, int mb) {
    At(gradients_, stage, mb) = gradient;
    if (!Here(stage - 1)) messages_.Send(table_.placement.rank(stage - 1), gradient, mb);
  }

  void WeightGrad(const Action& action) {
    builder_.Begin(action);
    for (int layer = LastLayer(action.stage); layer >= FirstLayer(action.stage); --layer) {
      WeightGradCall(layer, action.micro_batch);
    }
    builder_.End();
  }

  // Brings back what the recomputation policy dropped after F.
  void Rebuild(int layer, int mb) {
    const Recompute policy = Policy(layer);
    if (policy == Recompute::kFull) ForwardCall(layer, mb, /*rebuild=*/true);
    if (policy == Recompute::kSelective) RestoreCall(layer, mb);
  }

  void RestoreCall(int layer, int mb) {
    const std::vector<TensorDecl>& tensors = Decl(layer).tensors;
    if (std::none_of(tensors.begin(), tensors.end(),
                     [](const TensorDecl& t) { return t.restorable; }))
      return;
    Frame& frame = At(layer, mb);
    CallBuffers call{.layer = Local(layer), .input = frame.input, .tensors = frame.tensors};
    for (size_t t = 0; t < tensors.size(); ++t) {
      if (tensors[t].restorable)
        frame.tensors[t] = call.tensors[t] = builder_.New(tensors[t].bytes());
      if (tensors[t].lifetime == Lifetime::kForwardScratch)
        call.tensors[t] = builder_.New(tensors[t].bytes());
    }
    builder_.AppendCall(Step::kRestore, std::move(call), mb);
  }

  // Returns the output. `rebuild`: run again for the backward that follows.
  BufferId ForwardCall(int layer, int mb, bool rebuild) {
    const LayerDecl& decl = Decl(layer);
    const Recompute policy = Policy(layer);
    Frame& frame = At(layer, mb);
    CallBuffers call{.layer = Local(layer), .input = frame.input, .targets = frame.targets};
    frame.tensors.assign(decl.tensors.size(), kNoBuffer);
    for (size_t t = 0; t < decl.tensors.size(); ++t) {
      const TensorDecl& tensor = decl.tensors[t];
      const bool needed = WrittenByForward(tensor) || tensor.lifetime == Lifetime::kForwardScratch;
      call.tensors.push_back(needed ? builder_.New(tensor.bytes()) : kNoBuffer);
      const bool dropped =
          policy == Recompute::kFull || (policy == Recompute::kSelective && tensor.restorable);
      if (WrittenByForward(tensor) && (rebuild || !dropped)) frame.tensors[t] = call.tensors[t];
    }
    // The second time nobody needs the output, and a layer without one skips what only that takes.
    if (!rebuild && !decl.output_shape.empty()) call.output = builder_.New(OutputBytes(decl));
    const BufferId output = call.output;
    builder_.AppendCall(Step::kForward, std::move(call), mb);
    return output;
  }

  // Returns the gradient of the layer's input, or kNoBuffer for the model's first layer.
  BufferId InputGradCall(int layer, int mb) {
    const LayerDecl& decl = Decl(layer);
    Frame& frame = At(layer, mb);
    CallBuffers call{
        .layer = Local(layer), .output_grad = frame.output_grad, .tensors = frame.tensors};
    if (decl.input_use != LastUse::kForward) call.input = frame.input;
    for (size_t t = 0; t < decl.tensors.size(); ++t) {
      const TensorDecl& tensor = decl.tensors[t];
      const bool kept = tensor.lifetime == Lifetime::kInputGradToWeightGrad;
      if (kept || tensor.lifetime == Lifetime::kInputGradScratch)
        call.tensors[t] = builder_.New(tensor.bytes());
      if (kept) frame.tensors[t] = call.tensors[t];
    }
    if (decl.has_input_grad) call.input_grad = builder_.New(InputBytes(decl));
    const BufferId gradient = call.input_grad;
    builder_.AppendCall(Step::kBackwardInput, std::move(call), mb);
    return gradient;
  }

  void WeightGradCall(int layer, int mb) {
    const LayerDecl& decl = Decl(layer);
    const Frame& frame = At(layer, mb);
    CallBuffers call{.layer = Local(layer)};
    if (decl.input_use == LastUse::kWeightGrad) call.input = frame.input;
    if (decl.output_grad_use == LastUse::kWeightGrad) call.output_grad = frame.output_grad;
    for (size_t t = 0; t < decl.tensors.size(); ++t) {
      const TensorDecl& tensor = decl.tensors[t];
      const bool scratch = tensor.lifetime == Lifetime::kWeightGradScratch;
      call.tensors.push_back(ReadByWeightGrad(tensor) ? frame.tensors[t]
                             : scratch                ? builder_.New(tensor.bytes())
                                                      : kNoBuffer);
    }
    builder_.AppendCall(Step::kBackwardWeight, std::move(call), mb);
  }

  // Both directions of a boundary carry what its right-hand layer takes as input.
  int64_t MessageBytes(const Action& receive) const {
    return InputBytes(Decl(receive.op == Op::kRecvForward ? FirstLayer(receive.stage)
                                                          : LastLayer(receive.stage) + 1));
  }

  bool Here(int stage) const { return table_.placement.rank(stage) == builder_.program().rank; }
  int FirstLayer(int stage) const {
    return (*request_.partition)[static_cast<size_t>(stage)].first;
  }
  int LastLayer(int stage) const { return (*request_.partition)[static_cast<size_t>(stage)].last; }
  const LayerDecl& Decl(int layer) const { return (*request_.layers)[static_cast<size_t>(layer)]; }
  // Position of `layer` among this rank's layers.
  int Local(int layer) const {
    const std::vector<int>& held = builder_.program().layers;
    return static_cast<int>(std::lower_bound(held.begin(), held.end(), layer) - held.begin());
  }
  Recompute Policy(int layer) const {
    return request_.recompute[static_cast<size_t>(stage_of_[static_cast<size_t>(Local(layer))])];
  }
  Frame& At(int layer, int mb) {
    return frames_[static_cast<size_t>(Local(layer)) * micro_batches_ + static_cast<size_t>(mb)];
  }
  BufferId& At(std::vector<BufferId>& boundary, int stage, int mb) {
    return boundary[static_cast<size_t>(stage) * micro_batches_ + static_cast<size_t>(mb)];
  }

  const ProgramRequest& request_;
  const Timetable& table_;
  const size_t micro_batches_;
  ProgramBuilder builder_;
  MessageScheduler messages_;
  std::vector<int> stage_of_;          // [local layer]
  std::vector<Frame> frames_;          // [local layer][micro-batch]
  std::vector<BufferId> activations_;  // [stage][micro-batch]: the stage's output
  std::vector<BufferId> gradients_;    // [stage][micro-batch]: the gradient of the stage's input
};

absl::Status CheckRequest(const ProgramRequest& request) {
  const Partition& partition = *request.partition;
  const Timetable& table = *request.timetable;
  if (table.placement.replicas() > 1 || table.updates != WeightUpdates::kFlush) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule ", table.name, " cannot be trained yet: it ",
                     table.placement.replicas() > 1 ? "runs several copies of the model"
                                                    : "updates weights without a flush",
                     "; choose a synchronous schedule with one copy, such as 1f1b"));
  }
  const auto stages = static_cast<size_t>(table.placement.stages());
  if (partition.size() != stages || request.recompute.size() != stages) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the schedule has ", stages, " stages, the partition ", partition.size(),
        " and the recomputation policy ", request.recompute.size(), "; they must agree"));
  }
  if (partition.back().last + 1 != static_cast<int>(request.layers->size())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the partition ", FormatPartition(partition), " ends at layer ", partition.back().last,
        ", the model at layer ", static_cast<int>(request.layers->size()) - 1));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RankProgram> CompileRank(const ProgramRequest& request, int rank,
                                        const MessageWindow& window) {
  if (absl::Status status = CheckRequest(request); !status.ok()) return status;
  return RankCompiler(request, rank, window).Run();
}

Timetable ForwardOnly(const Timetable& lowered) {
  Timetable forward = lowered;
  for (std::vector<Action>& row : forward.rows) {
    std::erase_if(row, [](const Action& action) {
      return action.op != Op::kForward && action.op != Op::kSendForward &&
             action.op != Op::kRecvForward;
    });
  }
  return forward;
}

}  // namespace sluice
