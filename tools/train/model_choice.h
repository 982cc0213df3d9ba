#ifndef SLUICE_TOOLS_TRAIN_MODEL_CHOICE_H_
#define SLUICE_TOOLS_TRAIN_MODEL_CHOICE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/spec/decoder.h"
#include "models/spec/model_spec.h"

namespace sluice {

// The model and its shape; the same flags for every subcommand. 0: the model's own value.
struct ModelChoice {
  std::string model;  // a preset, a Hugging Face config.json, or a folder that has one
  int layers = 0;
  int dim = 0;
  int heads = 0;
  int vocab = 0;
  bool tied = false;
  std::optional<NormKind> norm = {};  // nullopt: the model's own
  int head_rows = 0;                  // of a decoder's logits at a time; no shape

  // Whether any flag other than the model itself was given.
  bool shapes() const {
    return layers != 0 || dim != 0 || heads != 0 || vocab != 0 || tied || norm.has_value();
  }
};

// The flags that set the shape.
inline constexpr char kShapeFlags[] = "--layers, --dim, --heads, --vocab, --tied and --norm";

// Whether MODEL is a graph of operations: a PipeDream profile, graph.txt.
bool NamesGraphFile(const ModelChoice& choice);

// Whether MODEL is a path rather than a preset's name: it looks like one, or something is there.
bool NamesFile(const ModelChoice& choice);

// Of such a MODEL, the file that describes it: of a folder its config.json.
std::string ModelFile(const ModelChoice& choice);

// Of such a MODEL, the folder with its weights. "": there are none, or MODEL is a preset.
std::string FolderOfWeights(const ModelChoice& choice);

// The text of ModelFile. NotFound where it is not there: says what MODEL may be; otherwise as ReadWholeFile.
absl::StatusOr<std::string> ReadModelJson(const ModelChoice& choice);

// InvalidArgument where a shape was given: `choice.model` is no preset that can be shaped.
absl::Status RefuseShapeFlags(const ModelChoice& choice);

// The model, to be trained or only to be planned for, for sequences of `seq` tokens (0: the model's
// own length). It is called what MODEL is, also where that is a path. A GPT preset's table of
// positions is made as long as `seq`; a config.json's is what it is. `assume` is the family to read
// a config.json of an unknown model_type as; empty: none. NotFound suggests the preset that was
// meant, or says that a path leads nowhere.
absl::StatusOr<ModelSpec> ResolveModel(const ModelChoice& choice, int seq,
                                       const std::string& assume = "");

// The same where the model must train: InvalidArgument as CheckTrainable.
absl::StatusOr<ModelSpec> ResolveTrainable(const ModelChoice& choice, int seq);

// InvalidArgument where --seq was given for a model whose samples are not of tokens.
absl::Status CheckSeqFlag(const ModelSpec& spec, bool given);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_MODEL_CHOICE_H_
