#ifndef SLUICE_TOOLS_TRAIN_TRAIN_SHAPE_H_
#define SLUICE_TOOLS_TRAIN_TRAIN_SHAPE_H_

#include "absl/status/status.h"
#include "models/spec/model_spec.h"
#include "partitioner/planning/answer/default_partition.h"
#include "tools/train/train_question.h"

namespace sluice {

// Chooses what the question leaves open of stages and replicas (TrainQuestion::chooses_shape) for
// `ranks` ranks, not all of which need to have work: the fastest step by the layers' FLOPs and the
// bytes that replicas exchange, the same answer for the same arguments. The step keeps its
// micro-batches and the groups in which they are summed, so the bits of the run are those of any other
// number of ranks. Where the question knows the ranks' speeds, the last ones are those that may have no
// work. InvalidArgument where nothing fits says why the last attempt did not.
absl::Status ChooseShape(const ModelSpec& spec, int ranks, TrainQuestion* question);

// What the question's layers cost on ranks of `stages` stages and `replicas` replicas. `spec`: must
// outlive it.
TrainedLayers LayersOf(const TrainQuestion& question, const ModelSpec& spec, int stages,
                       int replicas);

// Of a batch.
BatchShape BatchOf(const TrainQuestion& question, const ModelSpec& spec);

// Seconds per step that its replicas take to exchange their gradients, by the same measure as
// DefaultStages::seconds.
double ExchangeSeconds(const TrainQuestion& question, const ModelSpec& spec, int stages,
                       int replicas);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_TRAIN_SHAPE_H_
