#include "pipeline/run/executor.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "pipeline/compile/memory/memory_plan.h"

namespace sluice {
namespace {

bool Loads(const Instruction& instruction) {
  return instruction.step == Step::kLoadInput || instruction.step == Step::kLoadTargets;
}

bool CallsLayer(const Instruction& instruction) {
  return instruction.step == Step::kForward || instruction.step == Step::kRestore ||
         instruction.step == Step::kBackwardInput || instruction.step == Step::kBackwardWeight;
}

}  // namespace

Executor::Executor(RankState* state, const RankProgram& program,
                   const std::vector<int64_t>& offsets, Communicator* communicator,
                   const Dataset* data, Communicator* group)
    : state_(*state),
      program_(program),
      offsets_(offsets),
      communicator_(*communicator),
      data_(*data),
      clock_(&state->device(), state->stream(), program.actions.size()),
      recordings_(program.instructions.size()),
      group_(group) {
  for (size_t peer = 0; peer < program.sends.size(); ++peer) {
    sent_.emplace_back(static_cast<size_t>(program.sends[peer]));
    received_.emplace_back(static_cast<size_t>(program.receives[peer]));
  }
  if (state_.device().queues()) {
    for (const Action& action : program_.actions) ranges_.push_back(ToString(action));
  }
  prepared_ = clock_.status();
  if (prepared_.ok()) prepared_ = AllocateShared();
  if (!prepared_.ok()) return;
  BindCalls();
  BindReductions();
}

absl::Status Executor::AllocateShared() {
  const auto micro_batches = static_cast<size_t>(state_.plan().lowered.micro_batches);
  const int64_t results = AlignUp(
      static_cast<int64_t>(micro_batches * (sizeof(double) + sizeof(int64_t)) + sizeof(bool)));
  int64_t bytes = results;
  if (state_.device().queues()) {
    samples_offset_.resize(program_.buffers.size());
    for (const Instruction& instruction : program_.instructions) {
      if (!Loads(instruction)) continue;
      const auto buffer = static_cast<size_t>(instruction.buffer);
      samples_offset_[buffer] = bytes - results;
      bytes += AlignUp(program_.buffers[buffer].bytes);
    }
  }
  absl::StatusOr<DeviceMemory> memory = state_.device().AllocateShared(bytes);
  if (!memory.ok()) return memory.status();
  shared_ = *std::move(memory);
  auto* at = static_cast<void*>(shared_.data());
  losses_ = {static_cast<double*>(at), micro_batches};
  at = losses_.data() + micro_batches;
  correct_ = {static_cast<int64_t*>(at), micro_batches};
  at = correct_.data() + micro_batches;
  finite_ = static_cast<bool*>(at);
  if (state_.device().queues()) samples_ = shared_.data() + results;
  return absl::OkStatus();
}

void* Executor::Address(BufferId buffer) const {
  return buffer == kNoBuffer ? nullptr : state_.arena().at(offsets_[static_cast<size_t>(buffer)]);
}

void Executor::BindCalls() {
  size_t tensor_count = 0;
  for (const CallBuffers& call : program_.calls) tensor_count += call.tensors.size();
  tensors_.reserve(tensor_count);  // the spans below must stay valid
  for (const CallBuffers& buffers : program_.calls) {
    LayerCall call = state_.CallOf(buffers.layer, buffers.slot, buffers.second_gradient);
    BindGradients(buffers, &call);
    call.accumulate = buffers.accumulate;
    call.input = Address(buffers.input);
    call.output = Address(buffers.output);
    call.output_grad = Address(buffers.output_grad);
    call.input_grad = Address(buffers.input_grad);
    call.targets = static_cast<const int32_t*>(Address(buffers.targets));
    const size_t first = tensors_.size();
    for (BufferId id : buffers.tensors) tensors_.push_back(Address(id));
    call.tensors = absl::MakeConstSpan(tensors_).subspan(first);
    calls_.push_back(call);
  }
  for (const Instruction& instruction : program_.instructions) {
    if (instruction.step != Step::kForward) continue;
    LayerCall& call = calls_[static_cast<size_t>(instruction.index)];
    if (call.targets == nullptr) continue;
    call.loss = &losses_[static_cast<size_t>(instruction.micro_batch)];
    call.correct = &correct_[static_cast<size_t>(instruction.micro_batch)];
  }
}

float* Executor::GradientOf(const ParameterView& view, BufferId sharded, bool second) const {
  if (sharded == kNoBuffer) return state_.WholeGradient(view, second);
  auto* at = static_cast<std::byte*>(Address(sharded));
  for (const ParameterView& before : state_.ParametersOf(view.local)) {
    if (before.global_index == view.global_index) break;
    at += AlignUp(before.elements * SizeOf(DType::kFloat32));
  }
  return static_cast<float*>(static_cast<void*>(at));
}

void Executor::BindGradients(const CallBuffers& buffers, LayerCall* call) {
  if (buffers.gradients == kNoBuffer) return;
  std::vector<float*>& gradients = layer_gradients_.emplace_back();
  for (const ParameterView& view : state_.ParametersOf(buffers.layer))
    gradients.push_back(GradientOf(view, buffers.gradients, false));
  call->gradients = gradients;
}

void Executor::BindReductions() {
  const ShardBounds& shards = state_.plan().shards;
  for (const GradientReduction& reduction : program_.reductions) {
    BoundReduction& bound = reductions_.emplace_back();
    for (int local = reduction.first; local <= reduction.last; ++local) {
      for (const ParameterView& view : state_.ParametersOf(local)) {
        const std::vector<int64_t>& bounds = shards[static_cast<size_t>(view.global_index)];
        bound.sums.push_back(
            {.data = GradientOf(view, reduction.gradients, reduction.second_gradient),
             .sum = view.slice_gradient(),
             .add = !reduction.starts,
             .bounds = bounds});
        if (!reduction.gather) continue;
        bound.gathered.push_back({.data = view.gradient,
                                  .bounds = bounds,
                                  .element_bytes = static_cast<int64_t>(sizeof(float))});
      }
    }
  }
}

absl::Status Executor::Reduce(const Instruction& instruction, const Pass& pass) {
  const auto index = static_cast<size_t>(instruction.index);
  const ActionClock::Waiting waiting(&clock_, current_action_);
  auto* work = static_cast<float*>(Address(instruction.buffer));
  const auto elements = static_cast<size_t>(program_.reductions[index].work_elements);
  AddFunction add;
  if (state_.device().queues()) {
    add = [this](int64_t n, const float* x, float* y, bool onto) {
      state_.kernels().accumulate(state_.stream(), n, x, y, onto);
    };
  }
  absl::Status status =
      ReduceScatter(*group_, reductions_[index].sums, absl::MakeSpan(work, elements),
                    Instant::Now() + pass.timeout, add);
  if (status.ok()) {
    status = AllGatherSlices(*group_, reductions_[index].gathered, Instant::Now() + pass.timeout);
  }
  return status;
}

absl::Status Executor::Run(const Pass& pass) {
  absl::Status status = prepared_;
  if (status.ok()) status = Queue(pass);
  if (status.ok()) status = Finish(pass);
  if (!status.ok()) communicator_.Abort(status);
  return status;
}

absl::Status Executor::Finish(const Pass& pass) {
  // The host has run ahead: no action may take longer than a wait for one would.
  const auto actions = static_cast<double>(std::max<size_t>(program_.actions.size(), 1));
  absl::Status status =
      state_.device().Synchronize(state_.stream(), Instant::Now() + actions * pass.timeout);
  // What was queued may have come to its end because a rank was lost.
  if (status.ok() && state_.device().queues()) status = communicator_.failure();
  if (!status.ok()) return WithWhere(status, AtEndOfStep());
  clock_.Finish();
  return data_.status();
}

absl::Status Executor::Queue(const Pass& pass) {
  current_action_ = -1;
  clock_.Start();
  // Passes that are alike ask for the same calls with the same memory each time.
  const bool repeats = pass.train && pass.check_finite == nullptr && pass.micro_batches < 0;
  const std::vector<Instruction>& instructions = program_.instructions;
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    if (pass.micro_batches >= 0 && instruction.micro_batch >= pass.micro_batches) continue;
    if (const size_t end = EndOfCalls(i); repeats && end > i) {
      state_.device().Repeat(state_.stream(), &recordings_[i], [&] {
        for (size_t call = i; call < end; ++call) CallLayer(instructions[call], pass);
      });
      i = end - 1;
      continue;
    }
    absl::Status status = Execute(instruction, pass);
    if (!status.ok()) return Explain(status, instruction);
  }
  return absl::OkStatus();
}

size_t Executor::EndOfCalls(size_t first) const {
  size_t end = first;
  while (end < program_.instructions.size() && CallsLayer(program_.instructions[end])) ++end;
  return end;
}

absl::Status Executor::Execute(const Instruction& instruction, const Pass& pass) {
  switch (instruction.step) {
    case Step::kBeginAction:
      current_action_ = instruction.index;
      if (!ranges_.empty())
        state_.device().PushRange(ranges_[static_cast<size_t>(current_action_)].c_str());
      clock_.Begin(current_action_);
      if (pass.at != nullptr)
        pass.at->store(program_.actions[static_cast<size_t>(current_action_)]);
      return absl::OkStatus();
    case Step::kEndAction:
      clock_.End(current_action_);
      if (pass.at != nullptr) pass.at->store({});
      if (!ranges_.empty()) state_.device().PopRange();
      current_action_ = -1;
      return absl::OkStatus();
    case Step::kPostReceive:
    case Step::kWaitReceive:
    case Step::kPostSend:
    case Step::kWaitSend:
      return Communicate(instruction, pass);
    case Step::kLoadInput:
    case Step::kLoadTargets:
      Load(instruction, pass);
      return absl::OkStatus();
    case Step::kForward:
    case Step::kRestore:
    case Step::kBackwardInput:
    case Step::kBackwardWeight:
      CallLayer(instruction, pass);
      return absl::OkStatus();
    case Step::kAddGroup:
      state_.AddGroup(instruction.index);
      return absl::OkStatus();
    case Step::kReduceGradients:
      return Reduce(instruction, pass);
    case Step::kUpdateWeights:
      pass.update(program_.updates[static_cast<size_t>(instruction.index)],
                  instruction.micro_batch);
      return absl::OkStatus();
  }
  return absl::InternalError("unknown instruction");
}

absl::Status Executor::Communicate(const Instruction& instruction, const Pass& pass) {
  const int peer = instruction.index;
  const auto message = static_cast<size_t>(instruction.message);
  const auto bytes =
      static_cast<size_t>(program_.buffers[static_cast<size_t>(instruction.buffer)].bytes);
  void* data = Address(instruction.buffer);
  std::vector<Ticket>& sent = sent_[static_cast<size_t>(peer)];
  std::vector<Ticket>& received = received_[static_cast<size_t>(peer)];
  switch (instruction.step) {
    case Step::kPostReceive:
      return communicator_.PostReceive(peer, data, bytes, &received[message]);
    case Step::kPostSend:
      return communicator_.PostSend(peer, data, bytes, &sent[message]);
    case Step::kWaitReceive:
      return communicator_.WaitReceive(peer, received[message], Instant::Now() + pass.timeout);
    default: {
      const ActionClock::Waiting waiting(&clock_, current_action_);
      return communicator_.WaitSend(peer, sent[message], Instant::Now() + pass.timeout);
    }
  }
}

void Executor::Load(const Instruction& instruction, const Pass& pass) {
  const RunRequest& request = state_.plan().request;
  const bool input = instruction.step == Step::kLoadInput;
  const auto buffer = static_cast<size_t>(instruction.buffer);
  void* memory =
      samples_ == nullptr ? Address(instruction.buffer) : samples_ + samples_offset_[buffer];
  const int number = state_.plan().GlobalMicroBatch(state_.replica(), instruction.micro_batch);
  data_.Fill(pass.split, pass.first_micro_batch + number, request.batch.size,
             state_.plan().layers.front().input_dtype, input ? memory : nullptr,
             input ? nullptr : static_cast<int32_t*>(memory));
  if (samples_ == nullptr) return;
  state_.device().Copy(state_.stream(), Address(instruction.buffer), memory,
                       static_cast<size_t>(program_.buffers[buffer].bytes));
}

void Executor::CallLayer(const Instruction& instruction, const Pass& pass) {
  LayerCall& call = calls_[static_cast<size_t>(instruction.index)];
  Layer& layer = state_.layer(program_.calls[static_cast<size_t>(instruction.index)].layer);
  switch (instruction.step) {
    case Step::kForward: {
      const RunPlan& plan = state_.plan();
      const auto rows = static_cast<double>(plan.request.batch.rows() *
                                            plan.update_micro_batches() * plan.replicas());
      call.loss_scale = pass.train ? static_cast<float>(1.0 / rows) : 0.0f;
      layer.Forward(call);
      break;
    }
    case Step::kRestore:
      layer.Restore(call);
      break;
    case Step::kBackwardInput:
      layer.BackwardInput(call);
      break;
    default:
      layer.BackwardWeight(call);
      break;
  }
  if (pass.check_finite != nullptr) CheckFinite(instruction, call, pass.check_finite);
}

bool Executor::IsFinite(const double& loss) {
  return !state_.device().Synchronize(state_.stream(), Instant::InfiniteFuture()).ok() ||
         std::isfinite(loss);
}

bool Executor::IsFinite(DType dtype, int64_t count, const void* values) {
  state_.kernels().all_finite(state_.stream(), dtype, count, values, finite_);
  // A device that does not answer shows at the end of the pass.
  return !state_.device().Synchronize(state_.stream(), Instant::InfiniteFuture()).ok() || *finite_;
}

void Executor::CheckFinite(const Instruction& instruction, const LayerCall& call,
                           NonFinite* found) {
  if (found->where != NonFinite::Where::kNowhere) return;
  const int local = program_.calls[static_cast<size_t>(instruction.index)].layer;
  const int layer = program_.layers[static_cast<size_t>(local)];
  const LayerDecl& decl = state_.plan().layers[static_cast<size_t>(layer)];
  bool finite = true;
  NonFinite::Where where = NonFinite::Where::kNowhere;
  if (instruction.step == Step::kForward) {
    where = NonFinite::Where::kForward;
    finite = call.output == nullptr
                 ? IsFinite(*call.loss)
                 : IsFinite(decl.output_dtype, ElementCount(decl.output_shape), call.output);
  } else if (instruction.step == Step::kBackwardInput && call.input_grad != nullptr) {
    where = NonFinite::Where::kInputGrad;
    finite = IsFinite(decl.input_dtype, ElementCount(decl.input_shape), call.input_grad);
  } else if (instruction.step == Step::kBackwardWeight) {
    where = NonFinite::Where::kWeightGrad;
    for (size_t p = 0; p < decl.parameters.size(); ++p) {
      finite = finite &&
               IsFinite(DType::kFloat32, ElementCount(decl.parameters[p].shape), call.gradients[p]);
    }
  }
  if (finite) return;
  const Action& action = program_.actions[static_cast<size_t>(current_action_)];
  *found = {
      .where = where,
      .layer = layer,
      .stage = action.stage,
      .micro_batch = state_.plan().GlobalMicroBatch(state_.replica(), instruction.micro_batch)};
}

// Named as timetables name it that have it as an action.
absl::Status Executor::ExplainReduction(const absl::Status& status,
                                        const Instruction& instruction) const {
  const int layer = program_.reductions[static_cast<size_t>(instruction.index)].first;
  auto stage = program_.stages.begin();
  while (stage->last < layer) ++stage;
  return WithWhere(status, At({Op::kReduceGrad, false, static_cast<uint16_t>(stage->stage),
                               instruction.micro_batch}));
}

// Which rank this is.
Where Executor::Self() const {
  const RankGroup group = state_.plan().GroupOf(state_.world_rank());
  Where self{.rank = state_.world_rank()};
  if (group.size > 1) self.replica = group.index;
  return self;
}

Where Executor::At(const Action& action) const {
  Where where = Self();
  where.stage = action.stage;
  where.micro_batch = action.micro_batch;
  where.action = ToString(action);
  return where;
}

Where Executor::AtEndOfStep() const {
  Where where = Self();
  where.moment = Where::Moment::kEndOfStep;
  return where;
}

absl::Status Executor::Explain(const absl::Status& status, const Instruction& instruction) const {
  if (instruction.step == Step::kReduceGradients) return ExplainReduction(status, instruction);
  // The next action of the row is the one that waits.
  int action = current_action_;
  if (action < 0) {
    const Instruction* end = program_.instructions.data() + program_.instructions.size();
    for (const Instruction* next = &instruction; next < end && action < 0; ++next) {
      if (next->step == Step::kBeginAction) action = next->index;
    }
  }
  return WithWhere(status,
                   action < 0 ? AtEndOfStep() : At(program_.actions[static_cast<size_t>(action)]));
}

}  // namespace sluice
