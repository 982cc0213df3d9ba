#ifndef SLUICE_PIPELINE_STATE_STATE_GATHER_H_
#define SLUICE_PIPELINE_STATE_STATE_GATHER_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "comm/communicator.h"
#include "pipeline/state/host_state.h"
#include "pipeline/state/rank_state.h"
#include "pipeline/state/rounds.h"
#include "pipeline/state/state_pieces.h"

namespace sluice {

enum class StateKind : uint8_t { kWeight, kMoment1, kMoment2 };

// A tensor of the parameter's state; `data` is null where this rank has none.
HeldTensor TensorOf(const ParameterView& view, StateKind kind);
// Elements first ... first + count - 1 of that tensor, counted within the whole of it, of which this
// rank may have a slice: as HostReader::Read.
const float* ReadState(const ParameterView& view, StateKind kind, int64_t first, int64_t count,
                       HostReader* reader);

// Brings weights and optimizer state to rank 0 of the world, by messages, from whichever ranks hold
// them: for hashes. A few pieces are in memory at a time, whatever the model.
class StateGather {
 public:
  // `world` joins the ranks of all replicas, by ordinary memory. A rank that stops is missed after
  // `timeout`, however long the whole takes.
  StateGather(const RankState& state, absl::Duration timeout, Communicator& world);
  // Members point to each other.
  StateGather(const StateGather&) = delete;
  StateGather& operator=(const StateGather&) = delete;

  // Takes some elements, in order.
  using Sink = std::function<absl::Status(const float* values, int64_t count)>;

  // All elements of the parameter with canonical index `parameter` go to rank 0's `sink`; that of
  // other ranks is not called. Every rank must call this for the same tensors in the same order,
  // then Finish.
  absl::Status Gather(StateKind kind, int parameter, const Sink& sink);
  // Returns once all ranks have called it.
  absl::Status Finish() { return rounds_.Finish(); }

 private:
  const RunPlan& plan_;
  const absl::Duration timeout_;
  Communicator& world_;
  Rounds rounds_;
  std::vector<int> rank_of_;                 // [parameter]: rank of the pipeline that holds it
  std::vector<bool> split_;                  // [parameter]
  std::vector<const ParameterView*> views_;  // [parameter]; null where another rank has it
  StatePieces pieces_;
  HostReader reader_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_STATE_STATE_GATHER_H_
