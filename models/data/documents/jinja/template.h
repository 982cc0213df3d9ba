#ifndef SLUICE_MODELS_DATA_DOCUMENTS_JINJA_TEMPLATE_H_
#define SLUICE_MODELS_DATA_DOCUMENTS_JINJA_TEMPLATE_H_

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/data/documents/jinja/environment.h"

namespace sluice::jinja {

// A template of Jinja2, as transformers sets it up. Any thread. What Jinja2 has beyond what the
// templates of chats use is refused by name.
class Template {
 public:
  // InvalidArgument: "line 3: ...".
  static absl::StatusOr<Template> Parse(absl::string_view text);
  // InvalidArgument where the template raises an exception, or asks for what is not supported.
  absl::StatusOr<Rendered> Render(std::map<std::string, Value> variables,
                                  const RenderLimits& limits = {}) const;
  bool has_generations() const { return has_generations_; }
  // Whether a name, or a text, in one of its tags is this one.
  bool Mentions(const std::string& name) const { return words_.contains(name); }

 private:
  std::vector<Statement> statements_;
  std::set<std::string> words_;
  bool has_generations_ = false;
};

}  // namespace sluice::jinja

#endif  // SLUICE_MODELS_DATA_DOCUMENTS_JINJA_TEMPLATE_H_
