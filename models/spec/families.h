#ifndef SLUICE_MODELS_SPEC_FAMILIES_H_
#define SLUICE_MODELS_SPEC_FAMILIES_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "models/spec/decoder.h"
#include "models/spec/fields.h"

namespace sluice {

// A GPT's model_type and architecture: those of transformers' GPT2LMHeadModel, and sluice's own for
// a GPT with RMS norms, of which transformers would compute layer norms and start biases that are
// not there.
inline constexpr char kGpt2ModelType[] = "gpt2";
inline constexpr char kGpt2Architecture[] = "GPT2LMHeadModel";
inline constexpr char kOwnModelType[] = "sluice_gpt";
inline constexpr char kOwnArchitecture[] = "SluiceGPT";

// A kind of decoder as Hugging Face's config.json describes it.
struct Family {
  const char* model_type;
  // Fills in `config`, whose `family` is set, as far as the reader's status stays OK.
  void (*read)(FieldReader& reader, DecoderConfig* config);
};

absl::Span<const Family> Families();
// nullptr where there is none of this model_type.
const Family* FindFamily(absl::string_view model_type);

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_FAMILIES_H_
