#ifndef SLUICE_PIPELINE_RUN_BOUND_PROGRAM_H_
#define SLUICE_PIPELINE_RUN_BOUND_PROGRAM_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/types/span.h"
#include "comm/collectives/collectives.h"
#include "pipeline/compile/plan/program.h"
#include "pipeline/state/rank_state.h"

namespace sluice {

// A rank's program with the places of its buffers in the rank's arena: what its calls of layers and
// its sums over ranks read and write.
class BoundProgram {
 public:
  // A reduction of the program: its parameters, and its slices to gather.
  struct Reduction {
    std::vector<SlicedSum> sums;
    std::vector<SlicedBytes> gathered;
  };

  // `offsets` are the places of the buffers in the state's arena. All must outlive this.
  BoundProgram(RankState& state, const RankProgram& program, const std::vector<int64_t>& offsets);
  BoundProgram(const BoundProgram&) = delete;
  BoundProgram& operator=(const BoundProgram&) = delete;

  // Makes the calls and reductions; to be called once. [micro-batch] `losses` and `correct` are
  // where the last layer's forward leaves its results.
  void Bind(absl::Span<double> losses, absl::Span<int64_t> correct);

  // Null for kNoBuffer.
  void* Address(BufferId buffer) const;
  // As numbered in the program.
  LayerCall& call(int32_t index) { return calls_[static_cast<size_t>(index)]; }
  Reduction& reduction(int32_t index) { return reductions_[static_cast<size_t>(index)]; }

 private:
  void BindCalls(absl::Span<double> losses, absl::Span<int64_t> correct);
  void BindGradients(const CallBuffers& buffers, LayerCall* call);
  void BindReductions();
  // Where the whole gradients of a reduction's or call's layer lie.
  float* GradientOf(const ParameterView& view, BufferId sharded, bool second) const;

  RankState& state_;
  const RankProgram& program_;
  const std::vector<int64_t>& offsets_;
  std::vector<LayerCall> calls_;
  std::vector<void*> tensors_;  // what the calls' spans point into
  // What the calls' spans of sharded gradients point into.
  std::deque<std::vector<float*>> layer_gradients_;
  std::vector<Reduction> reductions_;
};

// Calls the layer as `step`, of an instruction that calls a layer, says.
void MakeCall(Step step, Layer& layer, const LayerCall& call);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_BOUND_PROGRAM_H_
