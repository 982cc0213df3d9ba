#ifndef SLUICE_PIPELINE_CHECKPOINT_FILES_RUN_STATE_H_
#define SLUICE_PIPELINE_CHECKPOINT_FILES_RUN_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "models/spec/dtype.h"
#include "models/spec/model_spec.h"
#include "pipeline/checkpoint/files/model_files.h"

namespace sluice {

// What a checkpoint says about its run, beside the tensors: the content of state.json and config.json.
struct RunState {
  int64_t step = 0;  // steps done
  uint64_t seed = 0;
  ModelSpec model;
  std::string optimizer;                           // "adamw", "sgd"
  std::map<std::string, double> hyper_parameters;  // of the optimizer and the learning rate; finite
  int64_t micro_batch_size = 1;
  int64_t micro_batches = 1;  // of a step, of all replicas
  int64_t sum_groups = 0;     // in which their gradients are summed; 0: an older checkpoint's
  // Of the micro-batches within each group, as SumOrder::ToString says it.
  std::string sum_order = "ascending";
  // When weights are updated: "flush", or a schedule without one; empty: an older checkpoint's.
  std::string updates;
  std::string adaptation;  // what is trained, as Adaptation::ToString says it; empty: everything
  // Of a run with an adapter, whose checkpoints do not have the weights that it began with: where
  // these were, from the root ("": random ones, of the seed), and their hash (base_hash.h).
  std::string base;
  std::string base_hash;
  std::string partition;  // layers of each stage, "0-3,4-7", of a run without a flush; else empty
  int64_t seq = 1;
  int64_t head_rows = 0;  // DecoderConfig::head_rows, which config.json does not have
  DType dtype = DType::kFloat32;
  std::string data_path;
  std::string data_fingerprint;  // Dataset::fingerprint()
  // What computed the run and so decides its bits, in words; empty: an older checkpoint's.
  std::string arithmetic;
  // The run was stopped after this step, before the evaluation that it would have made there.
  bool evaluation_due = false;
  // A JSON object, nested less than JsonLimits says; kept but for its layout and the order of its
  // fields.
  std::string more = "{}";
  // What the folder has beside; null: nothing, and a config.json that is written anew.
  std::shared_ptr<const ModelFiles> model_files = {};
};

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_FILES_RUN_STATE_H_
