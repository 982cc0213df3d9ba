#ifndef SLUICE_TOOLS_TRAIN_MODEL_FLAGS_H_
#define SLUICE_TOOLS_TRAIN_MODEL_FLAGS_H_

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "models/spec/model_spec.h"

namespace sluice {

// What shapes a model on the command line, the same for every subcommand. 0: as the model says.
struct ModelFlags {
  std::string model;  // a preset, or a Hugging Face config.json
  int layers = 0;
  int dim = 0;
  int heads = 0;
  int vocab = 0;
  bool tied = false;
  std::string norm;  // "layer" or "rms"; empty: as the model says

  // Whether any of the shape flags was given.
  bool shapes() const {
    return layers != 0 || dim != 0 || heads != 0 || vocab != 0 || tied || !norm.empty();
  }
};

inline constexpr char kShapeFlags[] = "--layers, --dim, --heads, --vocab, --tied and --norm";

// Whether MODEL is a graph of operations: a PipeDream profile, graph.txt.
bool NamesGraphFile(const ModelFlags& flags);

// Adds kShapeFlags.
void AddShapeFlags(CLI::App& command, ModelFlags* flags);

// InvalidArgument where one of these was given: `flags.model` is no preset that can be shaped.
absl::Status RefuseShapeFlags(const ModelFlags& flags);

// The model that `flags` name, for sequences of `seq` tokens (0: the model's own length). A
// preset's table of positions is made as long as `seq`; a config.json's is what it is.
absl::StatusOr<ModelSpec> ResolveModel(const ModelFlags& flags, int seq);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_MODEL_FLAGS_H_
