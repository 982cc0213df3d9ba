#ifndef SLUICE_PIPELINE_CHECKPOINT_FILES_PEFT_CONFIG_H_
#define SLUICE_PIPELINE_CHECKPOINT_FILES_PEFT_CONFIG_H_

#include <string>
#include <vector>

#include "models/spec/adaptation.h"

namespace sluice {

// PEFT's adapter_config.json of an adapter whose tensors have these `names`; `transposed` where
// the base model stores its maps' weights [in, out], as GPT-2 does.
std::string PeftConfig(const Lora& lora, const std::vector<std::string>& names, bool transposed);

}  // namespace sluice

#endif  // SLUICE_PIPELINE_CHECKPOINT_FILES_PEFT_CONFIG_H_
