#ifndef SLUICE_MODELS_DATA_JINJA_TEMPLATE_H_
#define SLUICE_MODELS_DATA_JINJA_TEMPLATE_H_

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "models/data/jinja/builtins.h"

namespace sluice::jinja {

struct Rendered {
  std::string text;
  // Between {% generation %} and {% endgeneration %}: begin and end of each, in bytes.
  std::vector<std::pair<size_t, size_t>> generations;
};

struct Environment;
// Evaluates one expression, or runs one statement.
using Expression = std::function<absl::StatusOr<Value>(Environment&)>;
using Statement = std::function<absl::Status(Environment&)>;

// What a loop's body asks for.
enum class LoopControl : uint8_t { kNone, kBreak, kContinue };

struct Macro {
  std::vector<std::pair<std::string, Expression>> parameters;  // with their defaults, or null
  std::shared_ptr<const std::vector<Statement>> body;
};

// A run of a template.
struct Environment {
  std::vector<std::map<std::string, Value>> scopes;
  std::map<std::string, Macro> macros;
  std::vector<Value> namespaces;  // a value that is one: {kNamespace: its place here}
  Rendered out;
  LoopControl control = LoopControl::kNone;
  int depth = 0;      // of calls of macros
  int64_t steps = 0;  // statements that were run
};

inline constexpr char kNamespace[] = "\x01namespace";

// A template of Jinja2, as transformers sets it up. Any thread. What Jinja2 has beyond what the
// templates of chats use is refused by name.
class Template {
 public:
  // InvalidArgument: "line 3: ...".
  static absl::StatusOr<Template> Parse(absl::string_view text);
  // InvalidArgument where the template raises an exception, or asks for what is not supported.
  absl::StatusOr<Rendered> Render(std::map<std::string, Value> variables) const;
  bool has_generations() const { return has_generations_; }

 private:
  std::vector<Statement> statements_;
  bool has_generations_ = false;
};

absl::Status RunAll(const std::vector<Statement>& statements, Environment& environment);

}  // namespace sluice::jinja

#endif  // SLUICE_MODELS_DATA_JINJA_TEMPLATE_H_
