#ifndef SLUICE_TOOLS_TRAIN_TRAIN_SHAPE_H_
#define SLUICE_TOOLS_TRAIN_TRAIN_SHAPE_H_

#include "absl/status/status.h"
#include "models/spec/model_spec.h"
#include "tools/train/train_question.h"

namespace sluice {

// Chooses what the question leaves open of stages and replicas (TrainQuestion::chooses_shape) for
// `ranks` ranks, not all of which need to have work: the fastest step by the layers' FLOPs and the
// bytes that replicas exchange, the same answer for the same arguments. The step keeps its
// micro-batches and the groups in which they are summed, so the bits of the run are those of any other
// number of ranks. InvalidArgument where nothing fits says why the last attempt did not.
absl::Status ChooseShape(const ModelSpec& spec, int ranks, TrainQuestion* question);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_TRAIN_SHAPE_H_
