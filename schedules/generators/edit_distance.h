#ifndef SLUICE_SCHEDULES_GENERATORS_EDIT_DISTANCE_H_
#define SLUICE_SCHEDULES_GENERATORS_EDIT_DISTANCE_H_

#include "absl/strings/string_view.h"

namespace sluice {

// Levenshtein distance: how many letters to insert, delete or replace. For "did you mean".
int EditDistance(absl::string_view a, absl::string_view b);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_GENERATORS_EDIT_DISTANCE_H_
