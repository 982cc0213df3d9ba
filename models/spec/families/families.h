#ifndef SLUICE_MODELS_SPEC_FAMILIES_FAMILIES_H_
#define SLUICE_MODELS_SPEC_FAMILIES_FAMILIES_H_

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "models/spec/families/family.h"

namespace sluice {

absl::Span<const Family> Families();
// nullptr where there is none of this model_type.
const Family* FindFamily(absl::string_view model_type);

}  // namespace sluice

#endif  // SLUICE_MODELS_SPEC_FAMILIES_FAMILIES_H_
