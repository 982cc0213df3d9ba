#ifndef SLUICE_SCHEDULES_GENERATORS_DID_YOU_MEAN_H_
#define SLUICE_SCHEDULES_GENERATORS_DID_YOU_MEAN_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace sluice {

// What to say of a name that is none of `names`, which must not be empty:
// "did you mean '1f1b'? there are: 1f1b, gpipe, ...", the nearest first (by Levenshtein's distance:
// how many letters to insert, delete or replace); of names that are equally near, in the order
// given. Where even the nearest differs in more than half of its letters, there is no question, and
// all are in the order given.
std::string DidYouMean(absl::string_view name, const std::vector<std::string>& names);
// The nearest alone; nothing where it differs in more than half of its letters, or `names` is empty.
std::optional<std::string> NearestName(absl::string_view name,
                                       const std::vector<std::string>& names);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_GENERATORS_DID_YOU_MEAN_H_
