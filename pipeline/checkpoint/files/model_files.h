#ifndef SLUICE_PIPELINE_CHECKPOINT_FILES_MODEL_FILES_H_
#define SLUICE_PIPELINE_CHECKPOINT_FILES_MODEL_FILES_H_

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Small files of a model's folder that every checkpoint of a run has as they were, byte for byte:
// config.json, the tokenizer's, and what transformers generates with. They are in memory, so that
// neither the folder that they come from need stay, nor a checkpoint that is removed.
struct ModelFiles {
  std::string origin;  // that folder, for people
  // By name; config.json is not there for a preset. "FOLDER/NAME" is in a folder of the model's.
  std::map<std::string, std::string> texts;
};

// Whether a file of that name is kept beside config.json: the tokenizer's files, the templates
// chat_template.jinja and additional_chat_templates/NAME.jinja, and generation_config.json.
bool IsKeptFile(absl::string_view name);

// Adds to `files` what `folder` has of these and `files` lacks. Errors, which name the file, are
// those of reading one that is there.
absl::Status AddKeptFiles(const std::string& folder, ModelFiles* files);

// Where the files come from, as the `more` of a checkpoint's state says it; "" where it does not.
std::string OriginOf(const std::string& more);
// `more`, a JSON object, with that; as it is where `origin` is empty.
std::string WithOrigin(const std::string& more, const std::string& origin);

// The whole of such a file. Errors are ReadWholeFile's.
absl::StatusOr<std::string> ReadModelFile(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_FILES_MODEL_FILES_H_
