#ifndef SLUICE_PIPELINE_RUN_FINITE_CHECK_H_
#define SLUICE_PIPELINE_RUN_FINITE_CHECK_H_

#include <cstdint>

#include "pipeline/compile/plan/program.h"
#include "pipeline/state/rank_state.h"

namespace sluice {

// The first value that was not finite, as found by a checking run.
struct NonFinite {
  enum class Where : uint8_t { kNowhere, kForward, kInputGrad, kWeightGrad };
  Where where = Where::kNowhere;
  int layer = 0;  // of the model
  int stage = 0;
  int micro_batch = 0;  // among those of all replicas
};

// Looks at what single calls of layers have computed. Waits for the device after each.
class FiniteCheck {
 public:
  // `flag` is memory that host and device share. All must outlive this.
  FiniteCheck(RankState& state, const RankProgram& program, bool* flag)
      : state_(state), program_(program), flag_(flag) {}

  // Notes in `found`, unless something is noted there already, whether the result of `call`, which
  // `instruction` of `action` has queued, is not finite.
  void Look(const Instruction& instruction, const LayerCall& call, const Action& action,
            NonFinite* found);

 private:
  bool IsFinite(DType dtype, int64_t count, const void* values);
  bool IsFinite(const double& loss);

  RankState& state_;
  const RankProgram& program_;
  bool* const flag_;
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_RUN_FINITE_CHECK_H_
