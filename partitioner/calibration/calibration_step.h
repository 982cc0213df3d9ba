#ifndef SLUICE_PARTITIONER_CALIBRATION_CALIBRATION_STEP_H_
#define SLUICE_PARTITIONER_CALIBRATION_CALIBRATION_STEP_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "models/spec/decoder.h"
#include "partitioner/bounds/step_model.h"
#include "partitioner/calibration/calibration_rows.h"
#include "partitioner/costs/cluster.h"
#include "partitioner/costs/decoder_cost.h"
#include "partitioner/partition_problem.h"
#include "partitioner/step_costs.h"

namespace sluice {

// A measured step made ready to be predicted again and again for other clusters. As Megatron-LM
// runs it: 1F1B, interleaved where ranks have several stages; blocks spread evenly, the embedding
// in the first stage and the head in the last; only blocks recomputed; no ZeRO; Adam in mixed
// precision; dropout; gradients summed over the replicas after the last micro-batch.
class PredictedStep {
 public:
  // InvalidArgument, with file and line, where there is no such timetable.
  static absl::StatusOr<PredictedStep> Compile(const MeasuredStep& step);

  // The simulated step, updates and gradient sums included, as the planner predicts it. Devices are
  // those of the cluster's first kind; how many there are does not matter. Not thread-safe.
  double Seconds(const ClusterSpec& cluster);

  const MeasuredStep& measured() const { return step_; }

 private:
  PredictedStep(const MeasuredStep& step, StepModel model);

  void Reset(int stages);
  void SetSends(const ClusterSpec& cluster, int64_t bytes);

  MeasuredStep step_;
  DecoderConfig config_;  // with one block: all blocks are alike
  DecoderTraining training_;
  StepModel model_;
  StepCosts costs_;
};

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_CALIBRATION_CALIBRATION_STEP_H_
