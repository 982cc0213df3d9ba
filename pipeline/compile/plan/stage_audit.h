#ifndef SLUICE_PIPELINE_COMPILE_PLAN_STAGE_AUDIT_H_
#define SLUICE_PIPELINE_COMPILE_PLAN_STAGE_AUDIT_H_

#include <cstdint>
#include <vector>

#include "pipeline/compile/plan/program.h"

namespace sluice {

// How a rank computes one micro-batch of a stage again that another rank holds
// (RunRequest::audit_every): the stage's layers, forward and backward, in memory of its own.
// Nothing that it computes depends on what the stage's rank recomputes or keeps, nor on the order
// in which that does its work.
struct StageAudit {
  // `layers`, `buffers` and calls of layers alone; nothing is received or loaded.
  RankProgram program;
  // Buffers of the program. They are filled before it runs, with what the stage's rank had:
  std::vector<std::vector<BufferId>> weights;  // [local layer][parameter]
  BufferId input = kNoBuffer;
  BufferId starts = kNoBuffer;       // as LayerCall's, where samples have documents
  BufferId targets = kNoBuffer;      // of the model's last layer
  BufferId output_grad = kNoBuffer;  // of every other last layer of a stage
  // The weights' gradients, to which the micro-batch adds its own: [local layer][parameter];
  // kNoBuffer of what is frozen. They are brought only where a sum does not start with it.
  std::vector<std::vector<BufferId>> gradients;
  std::vector<BufferId> packed;  // [local layer] compute copies, made of the weights

  std::vector<int64_t> offsets = {};  // [buffer], from where its memory begins
  int64_t bytes = 0;                  // of the memory
};

// What a rank is asked about in an audited step.
struct AuditTurn {
  int stage = 0;        // of the rank
  int micro_batch = 0;  // of its pipeline
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_COMPILE_PLAN_STAGE_AUDIT_H_
