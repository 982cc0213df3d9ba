#include "models/spec/show_text.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_replace.h"
#include "models/spec/json_text.h"

namespace sluice {

std::string ShowText(absl::string_view text) {
  const std::string quoted = JsonText(nlohmann::json(std::string(text)));
  // JSON escapes these two for its own sake.
  return absl::StrReplaceAll(absl::string_view(quoted).substr(1, quoted.size() - 2),
                             {{"\\\"", "\""}, {"\\\\", "\\"}});
}

}  // namespace sluice
