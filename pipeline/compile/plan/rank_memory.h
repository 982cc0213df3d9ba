#ifndef SLUICE_PIPELINE_COMPILE_PLAN_RANK_MEMORY_H_
#define SLUICE_PIPELINE_COMPILE_PLAN_RANK_MEMORY_H_

#include <cstdint>
#include <string>

namespace sluice {

// The bytes of one rank's arena, by what they are for. total is the arena's size, alignment
// included.
struct RankMemory {
  int64_t parameters = 0;  // weights, of split ones the bf16
  // Includes the accumulator of the groups after the first, where there are several groups.
  int64_t gradients = 0;
  // AdamW: two moments; of split weights the low halves; with ZeRO this rank's slices of them.
  int64_t optimizer = 0;
  int64_t packed = 0;   // compute copies of the weights
  int64_t stashed = 0;  // older versions of weights and compute copies (asynchronous schedules)
  // Another rank's trained weights, gradients and optimizer state (RunRequest::mirror).
  int64_t mirror = 0;
  // What an audited micro-batch came with (RunRequest::audit_every). Where another rank's is
  // computed again is part of `activations`.
  int64_t audit = 0;
  // Everything that lives within a step: activations, their gradients, work areas, messages, weight
  // gradients that ZeRO 2 has not summed over the group of ranks yet.
  int64_t activations = 0;
  int64_t total = 0;
};

// "1.50 GiB (1610612736 bytes): parameters 400 MiB, ...": what takes it, for people.
std::string DescribeArena(const RankMemory& memory);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_PLAN_RANK_MEMORY_H_
