#ifndef SLUICE_MODELS_SPEC_ADAPTATION_H_
#define SLUICE_MODELS_SPEC_ADAPTATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/spec/dtype.h"

namespace sluice {

// Low-rank adaptation (Hu et al. 2021, "LoRA", section 4.1): a map's weight W stays as it is, and
// the map has scale() * B A added to it, A [rank, in] and B [out, rank].
struct Lora {
  int64_t rank = 16;
  double alpha = 32;
  double dropout = 0;            // share of the adapter's inputs that a step drops
  bool rank_stabilised = false;  // rsLoRA (Kalajdzievski 2023): alpha / sqrt(rank)
  // Last parts of the names of maps, "q_proj"; empty: every map of every block.
  std::vector<std::string> targets = {};

  double scale() const;
  // Whether the map `module`, "model.layers.0.self_attn.q_proj", has an adapter.
  bool Targets(absl::string_view module) const;
  friend bool operator==(const Lora&, const Lora&) = default;
};

// "r=16,alpha=32,dropout=0.1,targets=q_proj,v_proj,rslora=1": what is left out keeps its default,
// and targets are names up to the next "key=". InvalidArgument says what is wrong, and what is
// expected.
absl::StatusOr<Lora> ParseLora(absl::string_view text);

// What of a model is trained, where that is not everything.
struct Adaptation {
  // Patterns of Hugging Face names, with * for any characters and ? for one.
  std::vector<std::string> freeze = {};
  // Everything but the adapter is frozen.
  std::optional<Lora> lora = {};
  // What frozen matrices and tables are kept in: kFloat32, or kBFloat16 where that is the compute
  // type. Frozen vectors (norms, biases) are fp32: kernels read them so, and they are few.
  DType base_dtype = DType::kFloat32;

  // Whether the parameter stored as `name` (a tied one as the one that it equals) is frozen.
  bool Freezes(absl::string_view name) const;
  // "lora r=16,alpha=32,rslora=0,targets=all-linear; freeze *.bias; base bf16"; "" where all is
  // trained. Equal texts train the same.
  std::string ToString() const;
  friend bool operator==(const Adaptation&, const Adaptation&) = default;
};

// What ToString wrote. InvalidArgument says what else was found.
absl::StatusOr<Adaptation> ParseAdaptation(absl::string_view text);

// What PEFT's files put in front of the name of a map.
inline constexpr char kAdapterPrefix[] = "base_model.model.";

// "base_model.model.<module>.lora_A.weight", and the other one, as PEFT's files have them.
std::string AdapterA(absl::string_view module);
std::string AdapterB(absl::string_view module);
bool IsAdapter(absl::string_view name);

// Whether all of `text` is as `pattern` says, with * for any characters and ? for one.
bool MatchesPattern(absl::string_view pattern, absl::string_view text);

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_ADAPTATION_H_
