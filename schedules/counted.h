#ifndef SLUICE_SCHEDULES_COUNTED_H_
#define SLUICE_SCHEDULES_COUNTED_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace sluice {

// A number, of any integer type, and its noun, as people read them: "1 rank", "4 micro-batches",
// "0 processes".
std::string Counted(const absl::AlphaNum& count, absl::string_view noun);

}  // namespace sluice

#endif  // SLUICE_SCHEDULES_COUNTED_H_
