#include "schedules/counted.h"

#include "absl/strings/match.h"

namespace sluice {

std::string Counted(const absl::AlphaNum& count, absl::string_view noun) {
  const char* ending = count.Piece() == "1"                                      ? ""
                       : absl::EndsWith(noun, "s") || absl::EndsWith(noun, "ch") ? "es"
                                                                                 : "s";
  return absl::StrCat(count, " ", noun, ending);
}

}  // namespace sluice
