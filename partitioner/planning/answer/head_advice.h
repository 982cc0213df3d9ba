#ifndef SLUICE_PARTITIONER_PLANNING_ANSWER_HEAD_ADVICE_H_
#define SLUICE_PARTITIONER_PLANNING_ANSWER_HEAD_ADVICE_H_

#include <cstdint>
#include <string>

#include "models/spec/dtype.h"
#include "models/spec/head_blocks.h"
#include "models/spec/layer_spec.h"
#include "models/spec/model_spec.h"

namespace sluice {

// A sentence that says what --head-rows would save, for what does not fit into `memory` bytes; empty
// where the logits that the head keeps at a time take less than an eighth of them.
std::string HeadAdvice(const ModelSpec& spec, const BatchShape& batch, DType dtype,
                       const HeadLimits& limits, int64_t memory);

}  // namespace sluice

#endif  // SLUICE_PARTITIONER_PLANNING_ANSWER_HEAD_ADVICE_H_
