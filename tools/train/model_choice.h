#ifndef SLUICE_TOOLS_TRAIN_MODEL_CHOICE_H_
#define SLUICE_TOOLS_TRAIN_MODEL_CHOICE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/spec/model_spec.h"

namespace sluice {

// Which model, and what shapes it; the same for every subcommand. 0: as the model says.
struct ModelChoice {
  std::string model;  // a preset, or a Hugging Face config.json
  int layers = 0;
  int dim = 0;
  int heads = 0;
  int vocab = 0;
  bool tied = false;
  std::optional<NormKind> norm = {};  // nullopt: as the model says

  // Whether anything but the model itself was given.
  bool shapes() const {
    return layers != 0 || dim != 0 || heads != 0 || vocab != 0 || tied || norm.has_value();
  }
};

// What gives them on the command line.
inline constexpr char kShapeFlags[] = "--layers, --dim, --heads, --vocab, --tied and --norm";

// Whether MODEL is a graph of operations: a PipeDream profile, graph.txt.
bool NamesGraphFile(const ModelChoice& choice);

// InvalidArgument where a shape was given: `choice.model` is no preset that can be shaped.
absl::Status RefuseShapeFlags(const ModelChoice& choice);

// The model, for sequences of `seq` tokens (0: the model's own length). A preset's table of positions
// is made as long as `seq`; a config.json's is what it is.
absl::StatusOr<ModelSpec> ResolveModel(const ModelChoice& choice, int seq);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_MODEL_CHOICE_H_
