#ifndef SLUICE_PIPELINE_RECOVER_STATE_ACCESS_H_
#define SLUICE_PIPELINE_RECOVER_STATE_ACCESS_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "pipeline/recover/state_ranges.h"
#include "pipeline/state/host_state.h"
#include "pipeline/state/rank_state.h"

namespace sluice {

// Reads and writes ranges of a rank's state as fp32, whatever they are kept as and wherever.
class StateAccess {
 public:
  // `state` must outlive this.
  explicit StateAccess(RankState& state);

  // Elements first ... first + count - 1 of the tensor of `range`, until the next call.
  const float* Read(const StateRange& range, int64_t first, int64_t count);
  // Whether all that was read is what lay there, as HostReader::Check.
  absl::Status CheckRead(absl::Duration timeout) { return reader_.Check(timeout); }
  // Wherever this rank keeps them: one that holds two copies of the model may do so twice.
  void Write(const StateRange& range, const float* values, int64_t first, int64_t count);

 private:
  using Views = std::map<int, std::vector<const ParameterView*>>;  // by StateRange::parameter

  Views views_;
  Views mirrored_;
  HostReader reader_;
  HostWriter writer_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RECOVER_STATE_ACCESS_H_
