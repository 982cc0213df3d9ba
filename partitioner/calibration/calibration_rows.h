#ifndef SLUICE_PARTITIONER_CALIBRATION_CALIBRATION_ROWS_H_
#define SLUICE_PARTITIONER_CALIBRATION_CALIBRATION_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/spec/layer_spec.h"
#include "partitioner/costs/parallel.h"

namespace sluice {

// One measured training step of a GPT.
struct MeasuredStep {
  std::string file;
  int line = 0;
  std::string model;  // rows of one model are left out together
  int64_t layers = 0, hidden = 0, heads = 0, seq = 0, vocab = 0;
  int64_t global_batch = 0, micro_batch = 0;
  Parallel parallel;
  int pipeline = 1;
  int chunks = 1;  // stages a rank
  Recompute recompute = Recompute::kFull;
  bool flash_attention = false;
  double seconds = 0;

  int64_t micro_batches() const { return global_batch / (micro_batch * parallel.data); }
};

// A table of measured steps: CSV with a header. Columns:
//   params_b  the model's name, usually its billions of parameters
//   layers, hidden, heads, seq_len, global_batch, micro_batch, tp, dp, pp
//   and may be left out: vocab (51200), chunks (1), gpus (tp dp pp; checked), recompute (none,
//   selective or full; full), sequence_parallel (0 or 1; 0), flash_attention (0 or 1; 0)
// and one or more of what was measured, each a MeasuredStep:
//   iteration_ms or iteration_s
//   full_recompute_s                 with full recomputation
//   sequence_parallel_selective_s    with sequence parallelism and selective recomputation
// InvalidArgument names `file`, line and column of what is missing, unknown or out of range.
absl::StatusOr<std::vector<MeasuredStep>> ParseMeasuredSteps(absl::string_view csv,
                                                             absl::string_view file);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_CALIBRATION_CALIBRATION_ROWS_H_
