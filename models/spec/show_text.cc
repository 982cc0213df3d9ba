#include "models/spec/show_text.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_replace.h"

namespace sluice {

std::string ShowText(absl::string_view text) {
  const std::string quoted = nlohmann::json(std::string(text))
                                 .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  // JSON escapes these two for its own sake.
  return absl::StrReplaceAll(absl::string_view(quoted).substr(1, quoted.size() - 2),
                             {{"\\\"", "\""}, {"\\\\", "\\"}});
}

}  // namespace sluice
