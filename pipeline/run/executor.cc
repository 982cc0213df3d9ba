#include "pipeline/run/executor.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "models/failpoints/failpoints.h"
#include "models/spec/targets.h"
#include "pipeline/compile/memory/memory_plan.h"
#include "pipeline/run/bit_flip.h"

namespace sluice {
namespace {

bool Loads(const Instruction& instruction) {
  return instruction.step == Step::kLoadInput || instruction.step == Step::kLoadTargets ||
         instruction.step == Step::kLoadStarts;
}

bool CallsLayer(const Instruction& instruction) {
  return instruction.step == Step::kForward || instruction.step == Step::kRestore ||
         instruction.step == Step::kBackwardInput || instruction.step == Step::kBackwardWeight;
}

// Notes when an instruction runs, where somebody wants to know.
class Noted {
 public:
  Noted(InstructionClock* clock, size_t instruction) : clock_(clock), instruction_(instruction) {
    if (clock_ != nullptr) clock_->Begin(instruction_);
  }
  ~Noted() {
    if (clock_ != nullptr) clock_->End(instruction_);
  }
  Noted(const Noted&) = delete;
  Noted& operator=(const Noted&) = delete;

 private:
  InstructionClock* const clock_;
  const size_t instruction_;
};

// Updates of each stage's weights in a pass; the last one may have fewer micro-batches.
int UpdatesOf(const RunPlan& plan) {
  const int each = plan.update_micro_batches();
  return (plan.lowered.micro_batches + each - 1) / each;
}

}  // namespace

Executor::Executor(RankState* state, const RankProgram& program,
                   const std::vector<int64_t>& offsets, Communicator* communicator,
                   const Dataset* data, Communicator* group)
    : state_(*state),
      program_(program),
      bound_(*state, program, offsets),
      places_(state->plan(), state->world_rank(), program),
      communicator_(*communicator),
      progress_(communicator->progress()),
      data_(*data),
      clock_(&state->device(), state->stream(), program.actions.size()),
      recordings_(program.instructions.size()),
      targets_(static_cast<size_t>(state->plan().lowered.micro_batches) *
               static_cast<size_t>(state->plan().replicas())),
      loss_scales_(static_cast<size_t>(UpdatesOf(state->plan()))),
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
  if (prepared_.ok()) bound_.Bind(losses_, correct_);
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

absl::Status Executor::Reduce(const Instruction& instruction, const Pass& pass) {
  const auto index = static_cast<size_t>(instruction.index);
  const ActionClock::Waiting waiting(&clock_, current_action_);
  BoundProgram::Reduction& reduction = bound_.reduction(instruction.index);
  auto* work = static_cast<float*>(bound_.Address(instruction.buffer));
  const auto elements = static_cast<size_t>(program_.reductions[index].work_elements);
  AddFunction add;
  if (state_.device().queues()) {
    add = [this](int64_t n, const float* x, float* y, bool onto) {
      const AddedTensor sum = {n, x, y};
      state_.kernels().accumulate(state_.stream(), {&sum, 1}, onto);
    };
  }
  absl::Status status =
      ReduceScatter(*group_, reduction.sums, absl::MakeSpan(work, elements), pass.timeout, add);
  if (status.ok()) {
    status = AllGatherSlices(*group_, reduction.gathered, pass.timeout);
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
  const Instant deadline = Instant::Now() + actions * pass.timeout;
  const Progress::Waiting waiting(progress_, deadline);
  absl::Status status = state_.device().Synchronize(state_.stream(), deadline);
  // What was queued may have come to its end because a rank was lost.
  if (status.ok() && state_.device().queues()) status = communicator_.failure();
  if (!status.ok()) return WithWhere(status, places_.AtEndOfStep());
  clock_.Finish();
  if (pass.instructions != nullptr) pass.instructions->Finish();
  return data_.status();
}

absl::Status Executor::Queue(const Pass& pass) {
  current_action_ = -1;
  CountTargets(pass);
  clock_.Start();
  if (pass.instructions != nullptr) pass.instructions->Start();
  // Passes that are alike ask for the same calls with the same memory each time.
  const bool repeats = pass.train && pass.check_finite == nullptr && pass.micro_batches < 0 &&
                       pass.audit == nullptr && !MayFlip(pass);
  const std::vector<Instruction>& instructions = program_.instructions;
  for (size_t i = 0; i < instructions.size(); ++i) {
    const Instruction& instruction = instructions[i];
    if (pass.micro_batches >= 0 && instruction.micro_batch >= pass.micro_batches) continue;
    Note(i, pass);
    if (const size_t end = EndOfCalls(i); repeats && end > i) {
      for (size_t call = i; pass.instructions != nullptr && call < end; ++call)
        pass.instructions->Ran(call);
      state_.device().Repeat(state_.stream(), &recordings_[i], [&] {
        for (size_t call = i; call < end; ++call) ExecuteCall(call, pass);
      });
      i = end - 1;
      continue;
    }
    const Noted noted(pass.instructions, i);
    absl::Status status = Execute(instruction, pass);
    if (!status.ok()) return places_.Explain(status, i);
  }
  if (pass.at != nullptr) pass.at->store({}, std::memory_order_relaxed);
  return absl::OkStatus();
}

void Executor::ExecuteCall(size_t instruction, const Pass& pass) {
  const Noted noted(pass.instructions, instruction);
  CallLayer(program_.instructions[instruction], pass);
}

void Executor::Note(size_t instruction, const Pass& pass) const {
  if (pass.at != nullptr) pass.at->store(places_.ActionOf(instruction), std::memory_order_relaxed);
  if (progress_ != nullptr) progress_->Step();
}

int64_t Executor::CountingSamples(Split split, int64_t micro_batch) const {
  const int64_t size = state_.plan().request.batch.size;
  if (split == Split::kTrain) return size;
  return std::clamp<int64_t>(data_.samples(split) - micro_batch * size, 0, size);
}

void Executor::CountTargets(const Pass& pass) {
  const RunPlan& plan = state_.plan();
  const int64_t size = plan.request.batch.size;
  for (size_t mb = 0; mb < targets_.size(); ++mb) {
    const int64_t number = pass.first_micro_batch + static_cast<int64_t>(mb);
    const int64_t counting = CountingSamples(pass.split, number);
    int64_t& count = targets_[mb] = 0;
    if (counting == size) {
      count = data_.counted_targets(pass.split, number, size);
      continue;
    }
    for (int64_t i = 0; i < counting; ++i)
      count += data_.counted_targets(pass.split, number * size + i, 1);
  }
  const auto of_update = static_cast<std::ptrdiff_t>(plan.update_micro_batches()) * plan.replicas();
  auto first = targets_.begin();
  for (float& scale : loss_scales_) {
    const auto end = first + std::min(of_update, targets_.end() - first);
    const int64_t count = std::accumulate(first, end, int64_t{0});
    // A scale of 0 would ask for no gradients; an update without a target has some, which are 0.
    const auto rows = static_cast<double>(std::max<int64_t>(count, 1));
    scale = pass.train ? static_cast<float>(1.0 / rows) : 0.0F;
    first = end;
  }
}

size_t Executor::EndOfCalls(size_t first) const {
  size_t end = first;
  while (end < program_.instructions.size() && Repeats(program_.instructions[end])) ++end;
  return end;
}

bool Executor::Repeats(const Instruction& instruction) const {
  if (!CallsLayer(instruction)) return false;
  const int local = program_.calls[static_cast<size_t>(instruction.index)].layer;
  const bool has_loss = state_.layer(local).decl().output_shape.empty();
  const std::optional<Lora>& lora = state_.plan().request.adaptation.lora;
  if (lora.has_value() && lora->dropout > 0) return false;  // other values are dropped each time
  return !has_loss || !state_.plan().request.documents;
}

absl::Status Executor::Execute(const Instruction& instruction, const Pass& pass) {
  switch (instruction.step) {
    case Step::kBeginAction:
      current_action_ = instruction.index;
      if (!ranges_.empty())
        state_.device().PushRange(ranges_[static_cast<size_t>(current_action_)].c_str());
      clock_.Begin(current_action_);
      return absl::OkStatus();
    case Step::kEndAction:
      clock_.End(current_action_);
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
    case Step::kLoadStarts:
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
  void* data = bound_.Address(instruction.buffer);
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
  const auto buffer = static_cast<size_t>(instruction.buffer);
  void* memory =
      samples_ == nullptr ? bound_.Address(instruction.buffer) : samples_ + samples_offset_[buffer];
  const int number = state_.plan().GlobalMicroBatch(state_.replica(), instruction.micro_batch);
  SampleBuffers samples;
  if (instruction.step == Step::kLoadInput) samples.input = memory;
  if (instruction.step == Step::kLoadTargets) samples.targets = static_cast<int32_t*>(memory);
  if (instruction.step == Step::kLoadStarts) samples.starts = static_cast<int32_t*>(memory);
  const int64_t global = pass.first_micro_batch + number;
  data_.Fill(pass.split, global, request.batch.size, state_.plan().layers.front().input_dtype,
             samples);
  if (samples.targets != nullptr) {
    const int64_t per_sample =
        program_.buffers[buffer].bytes / static_cast<int64_t>(sizeof(int32_t)) / request.batch.size;
    const int64_t counting = CountingSamples(pass.split, global);
    std::fill(samples.targets + counting * per_sample,
              samples.targets + request.batch.size * per_sample, kNoTarget);
  }
  if (samples_ == nullptr) return;
  state_.device().Copy(state_.stream(), bound_.Address(instruction.buffer), memory,
                       static_cast<size_t>(program_.buffers[buffer].bytes));
}

bool Executor::MayFlip(const Pass& pass) const {
  return kHasFailpoints && state_.plan().audits() && pass.train;
}

void Executor::CallLayer(const Instruction& instruction, const Pass& pass) {
  LayerCall& call = bound_.call(instruction.index);
  Layer& layer = state_.layer(program_.calls[static_cast<size_t>(instruction.index)].layer);
  call.loss_scale = loss_scale(instruction.micro_batch);
  const int number = state_.plan().GlobalMicroBatch(state_.replica(), instruction.micro_batch);
  const int64_t rows = state_.plan().request.batch.rows();
  call.seed = pass.seed;
  call.first_row = pass.train ? (pass.first_micro_batch + number) * rows : -1;
  const bool may_flip = MayFlip(pass);
  if (may_flip) MaybeFlipInput(state_, instruction.step, layer.decl(), call);
  if (pass.audit != nullptr) pass.audit->Before(instruction, call);
  MakeCall(instruction.step, layer, call);
  if (may_flip) MaybeFlipResult(state_, instruction.step, layer.decl(), call);
  if (pass.audit != nullptr) pass.audit->After(instruction, call);
  if (pass.check_finite == nullptr) return;
  FiniteCheck(state_, program_, finite_)
      .Look(instruction, call, program_.actions[static_cast<size_t>(current_action_)],
            pass.check_finite);
}

}  // namespace sluice
