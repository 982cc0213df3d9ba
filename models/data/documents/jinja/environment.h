#ifndef SLUICE_MODELS_DATA_DOCUMENTS_JINJA_ENVIRONMENT_H_
#define SLUICE_MODELS_DATA_DOCUMENTS_JINJA_ENVIRONMENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/data/documents/jinja/builtins.h"
#include "models/data/documents/jinja/render_limits.h"

// What a template is when it has been read, and what a run of it has.
namespace sluice::jinja {

struct Rendered {
  std::string text;
  // Between {% generation %} and {% endgeneration %}: begin and end of each, in bytes.
  std::vector<std::pair<size_t, size_t>> generations;
};

struct Environment;
// Runs one statement.
using Statement = std::function<absl::Status(Environment&)>;

// What an expression gives that is no list in Jinja2, though it has elements: a generator, a
// reversed list, a view of a dictionary, or a range. A name cannot hold one.
struct Iterator {
  std::string name;         // what gives it: "the filter 'reverse'"
  bool has_length = false;  // and is true where it has elements; one without a length always is
  bool has_places = false;  // [0] is its first element
  bool has_pairs = false;   // its elements are pairs of a key and its value, which are tuples
};

// Evaluates to a value, which is made, or which has a place: that of a name, or within the value of
// a name. Copying an expression is cheap.
class Expression {
 public:
  using Make = std::function<absl::StatusOr<Value>(Environment&)>;
  using Find = std::function<absl::StatusOr<const Value*>(Environment&)>;

  Expression() = default;
  template <typename Function>
  Expression(Function make)  // NOLINT(google-explicit-constructor): as std::function does
      : make_(std::make_shared<const Make>(std::move(make))) {}
  static Expression OfPlace(Find find);
  // `make` gives the list of the elements, pairs as lists of two.
  static Expression OfIterator(Make make, Iterator iterator);

  explicit operator bool() const { return make_ != nullptr || find_ != nullptr; }
  bool has_place() const { return find_ != nullptr; }
  // Or nullptr.
  const Iterator* iterator() const { return iterator_.get(); }
  // Whether it may be what the filter `safe` gives: `+` escapes the text beside that.
  bool is_safe() const { return is_safe_; }
  Expression Safe(bool is_safe) const;

  // The list of an iterator's elements, and the value of any other expression.
  absl::StatusOr<Value> Elements(Environment& environment) const;
  // A copy of the value where it has a place, which is then charged. An iterator is refused here,
  // and by `In`.
  absl::StatusOr<Value> operator()(Environment& environment) const;
  // Where the value is, until anything else is evaluated: in `*made` where it has no place.
  absl::StatusOr<const Value*> In(Environment& environment, Value* made) const;
  absl::StatusOr<bool> IsTrue(Environment& environment) const;

 private:
  std::shared_ptr<const Make> make_;
  std::shared_ptr<const Find> find_;  // one of the two
  std::shared_ptr<const Iterator> iterator_;
  bool is_safe_ = false;
};

// What a loop's body asks for.
enum class LoopControl : uint8_t { kNone, kBreak, kContinue };

struct Macro {
  std::vector<std::pair<std::string, Expression>> parameters;  // with their defaults, or none
  std::shared_ptr<const std::vector<Statement>> body;
  size_t scopes = 0;  // that it sees: those around its definition, and not those around a call
};

// A run of a template.
struct Environment {
  RenderLimits limits;
  std::vector<std::map<std::string, Value>> scopes;
  std::map<std::string, Macro> macros;
  // The fields of each namespace, and the elements of each tuple: what NamespaceAt and TuplesOf
  // name.
  std::vector<Value> objects;
  std::map<std::string, Value> characters;  // that an index of a text has given, where they stay
  Rendered out;
  LoopControl control = LoopControl::kNone;
  int depth = 0;      // of calls of macros
  int evaluated = 0;  // expressions, one inside the other, also those of macros that are called
  int64_t steps = 0;  // statements that were run
  int64_t work = 0;   // of calls, turns of loops and values that were made, in units of Charge
  int64_t kept = 0;   // of those that were given a name, less those that they replaced
};

// Counts `value`, which was just made, as work of this run: one unit for each value within it and
// for every 64 bytes of text. So a template that doubles a text again and again ends with
// InvalidArgument, as one does whose lists are nested too deep to be copied.
absl::Status Charge(const Value& value, Environment& environment);
absl::Status Charge(int64_t units, Environment& environment);
// Of the call of a macro, and of a turn of a loop, which makes the value `loop`.
inline constexpr int64_t kWorkOfCall = 16;
// Moves `value` to what has a name, and counts what all names hold.
absl::Status Assign(Value value, Value& name, Environment& environment);

// The value that is the namespace at a place of Environment::objects: of a type of which no data
// are, as no text of JSON has it.
Value NamespaceAt(size_t place);
// A list of tuples, which are of that type, too, for a list of lists.
absl::StatusOr<Value> TuplesOf(const Value& lists, Environment& environment);
// The elements of a tuple as a list, or the value itself.
const Value& ListOfTuple(const Value& value, const Environment& environment);
// The same, and the fields of a namespace as a dictionary.
const Value& Resolve(const Value& value, const Environment& environment);
// That place, or nothing where `value` is no namespace of this run.
std::optional<size_t> PlaceOfNamespace(const Value& value, const Environment& environment);

// Runs one statement after another, until one fails or ends the body of a loop.
absl::Status RunAll(const std::vector<Statement>& statements, Environment& environment);
// The same in a scope of their own, in which these names are: what they set is gone behind them.
absl::Status RunInScope(const std::vector<Statement>& statements, Environment& environment,
                        std::map<std::string, Value> scope = {});

}  // namespace sluice::jinja

#endif  // SLUICE_MODELS_DATA_DOCUMENTS_JINJA_ENVIRONMENT_H_
