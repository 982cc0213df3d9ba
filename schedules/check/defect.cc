#include "schedules/check/defect.h"

#include "absl/strings/str_cat.h"

namespace sluice {

std::string ToString(const Defect& defect) {
  std::string text;
  if (defect.rank >= 0) absl::StrAppend(&text, "rank ", defect.rank, ", ");
  if (defect.position >= 0) absl::StrAppend(&text, "position ", defect.position, ", ");
  if (!defect.action.empty()) absl::StrAppend(&text, defect.action, ": ");
  return text + defect.message;
}

}  // namespace sluice
