#ifndef SLUICE_TOOLS_TRAIN_ADAPTATION_FLAGS_H_
#define SLUICE_TOOLS_TRAIN_ADAPTATION_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/spec/adaptation.h"
#include "models/spec/dtype.h"

namespace CLI {
class App;
}  // namespace CLI

namespace sluice {

// What of a model is trained, and what weights are kept in, as it was typed.
struct AdaptationFlags {
  std::string lora;                 // "r=16,targets=q_proj,v_proj"; empty: none
  std::string adapter;              // a folder of PEFT's, instead; empty: none
  std::vector<std::string> freeze;  // lists of patterns: "a*,b*"
  std::string base_dtype;           // "bf16" or "fp32"; empty: as the compute type
  std::string master_weights;       // "whole" or "split"; empty: as usual on the device
};
// The options are listed under `group` in --help.
void AddAdaptationFlags(CLI::App& command, const std::string& group, AdaptationFlags* flags);

// Of a run that computes in `dtype`; rank, scale and maps of an adapter are those that its folder
// says. InvalidArgument names the flag that makes no sense; otherwise errors are OpenAdapter's.
absl::StatusOr<Adaptation> AdaptationOf(const AdaptationFlags& flags, DType dtype);
// Nothing where the device decides. Requires flags that AdaptationOf accepts.
std::optional<MasterWeights> MasterWeightsOf(const AdaptationFlags& flags);

}  // namespace sluice

#endif  // SLUICE_TOOLS_TRAIN_ADAPTATION_FLAGS_H_
