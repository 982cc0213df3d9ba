#ifndef SLUICE_PIPELINE_CHECKPOINT_FILES_PEFT_CONFIG_H_
#define SLUICE_PIPELINE_CHECKPOINT_FILES_PEFT_CONFIG_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/spec/adaptation.h"

namespace sluice {

// PEFT's adapter_config.json of an adapter whose tensors have these `names`; `transposed` where
// the base model stores its maps' weights [in, out], as GPT-2 does. `base` is where the base model
// is; "": null.
std::string PeftConfig(const Lora& lora, const std::vector<std::string>& names, bool transposed,
                       const std::string& base = "");

// Reads PEFT's adapter_config.json, which messages call `file`. `names` are those of the adapter's
// tensors: where target_modules is a regular expression, PEFT has matched it against the whole
// names of modules when the adapter was made, so the targets are the modules that have tensors.
// InvalidArgument names the field of a wrong type or range, and one that changes what the adapter
// computes and is not built: use_dora, modules_to_save, rank_pattern, alpha_pattern, layers_to_transform, a bias.
absl::StatusOr<Lora> ParsePeftConfig(absl::string_view text, const std::string& file,
                                     const std::vector<std::string>& names);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_FILES_PEFT_CONFIG_H_
