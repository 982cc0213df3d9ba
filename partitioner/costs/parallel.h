#ifndef SLUICE_PARTITIONER_COSTS_PARALLEL_H_
#define SLUICE_PARTITIONER_COSTS_PARALLEL_H_

#include "absl/status/status.h"

namespace sluice {

// How the ranks of one pipeline stage share its work; how many stages there are is a question
// apart. Ranks are numbered with tensor innermost, then data, then the pipeline (Narayanan et al.,
// Efficient Large-Scale Language Model Training on GPU Clusters, 2021, section 3).
struct Parallel {
  int data = 1;    // replicas, each with its own micro-batches
  int tensor = 1;  // ranks that share every layer
  // Tensor-parallel ranks keep slices of the tokens between what they share (Korthikanti et al.
  // 2022).
  bool sequence = false;
  // What replicas share instead of keeping copies (Rajbhandari et al., ZeRO, 2020): 1 the optimizer
  // with its fp32 weights, 2 the gradients, too.
  int zero = 0;

  int ranks() const { return data * tensor; }
};

// InvalidArgument names the field that makes no sense.
absl::Status ValidateParallel(const Parallel& parallel);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_COSTS_PARALLEL_H_
