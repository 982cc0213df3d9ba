#include "tools/help/flags_meant.h"

#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/str_replace.h"
#include "schedules/generators/did_you_mean.h"

namespace sluice {
namespace {

using Names = std::vector<std::string>;

// Names of flags that other programs train with, and the flags of sluice's commands that say it.
struct Row {
  Names elsewhere;
  Names here;
};

std::vector<Row> Rows() {
  return {
      {{"batch-size", "batch", "train-batch-size", "global-batch-size"},
       {"micro-batch-size", "micro-batches", "global-batch"}},
      {{"per-device-train-batch-size", "device-batch-size"}, {"micro-batch-size"}},
      {{"gradient-accumulation-steps", "grad-accum", "accumulate-grad-batches"}, {"micro-batches"}},
      {{"learning-rate"}, {"lr"}},
      {{"lr-scheduler", "lr-scheduler-type", "lr-decay-style"}, {"lr-schedule"}},
      {{"epochs", "num-epochs", "num-train-epochs", "max-steps", "iterations", "max-iters",
        "train-iters"},
       {"steps"}},
      {{"max-grad-norm", "grad-clip", "clip-grad", "gradient-clip-val"}, {"clip"}},
      {{"seq-len", "seq-length", "sequence-length", "max-seq-length", "max-length", "block-size",
        "context-length"},
       {"seq", "context"}},
      {{"num-layers", "n-layer", "num-hidden-layers"}, {"layers"}},
      {{"hidden-size", "d-model", "n-embd"}, {"dim"}},
      {{"num-heads", "n-head", "num-attention-heads"}, {"heads"}},
      {{"pp", "pipeline-parallel", "pipeline-parallel-size"}, {"stages"}},
      {{"dp", "ddp"}, {"data-parallel"}},
      {{"tp"}, {"tensor-parallel"}},
      {{"gpus", "num-gpus"}, {"devices", "stages"}},
      {{"precision", "mixed-precision", "bf16", "fp16"}, {"dtype"}},
      {{"gradient-checkpointing", "activation-checkpointing"}, {"recompute"}},
      {{"output-dir", "save-dir", "out-dir", "checkpoint-dir"}, {"save"}},
      {{"checkpoint", "ckpt"}, {"resume", "load"}},
      {{"dataset", "train-file", "input"}, {"data"}},
  };
}

// What `flags` have of what is called `given` elsewhere, also with underscores.
Names MeantElsewhere(absl::string_view given, const Names& flags) {
  static const std::vector<Row> rows = Rows();
  const std::string name = absl::StrReplaceAll(given, {{"_", "-"}});
  Names meant;
  for (const Row& row : rows) {
    if (!absl::c_linear_search(row.elsewhere, name)) continue;
    for (const std::string& flag : row.here) {
      if (absl::c_linear_search(flags, flag)) meant.push_back(flag);
    }
  }
  return meant;
}

}  // namespace

std::vector<std::string> FlagsMeant(absl::string_view given,
                                    const std::vector<std::string>& flags) {
  Names meant = MeantElsewhere(given, flags);
  if (!meant.empty()) return meant;
  const std::optional<std::string> nearest = NearestName(given, flags);
  return nearest ? Names{*nearest} : Names{};
}

}  // namespace sluice
