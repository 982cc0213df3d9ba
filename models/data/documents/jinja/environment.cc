#include "models/data/documents/jinja/environment.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice::jinja {
namespace {

constexpr int kDeepestValue = 100;  // lists inside each other
constexpr size_t kBytesPerUnit = 64;
constexpr int kDeepestEvaluation = 2000;  // expressions, of some hundred bytes of stack each

// Evaluates an expression with `evaluate` unless too many are being evaluated around it.
template <typename Result, typename Evaluate>
absl::StatusOr<Result> Within(Environment& environment, const Evaluate& evaluate) {
  if (environment.evaluated == kDeepestEvaluation) {
    return absl::InvalidArgumentError("expressions call each other too deep");
  }
  ++environment.evaluated;
  absl::StatusOr<Result> result = evaluate(environment);
  --environment.evaluated;
  return result;
}

absl::Status RefuseIterator(const Iterator& iterator) {
  return absl::InvalidArgumentError(
      absl::StrCat("what ", iterator.name,
                   " gives is supported only where a loop goes over it, or "
                   "a test of its truth or a filter as 'list' takes it; write '| list' behind it"));
}

// Units of `value`, or -1 where it is nested too deep.
int64_t UnitsOf(const Value& value, int depth) {
  if (value.is_string()) {
    return 1 + static_cast<int64_t>(value.get_ref<const std::string&>().size() / kBytesPerUnit);
  }
  if (!value.is_structured()) return 1;
  if (depth == kDeepestValue) return -1;
  int64_t units = 1;
  for (const Value& element : value) {
    const int64_t more = UnitsOf(element, depth + 1);
    if (more < 0) return -1;
    units += more;
  }
  return units;
}

}  // namespace

absl::Status Charge(const Value& value, Environment& environment) {
  const int64_t units = UnitsOf(value, 0);
  if (units < 0) return absl::InvalidArgumentError("lists are nested too deep");
  return Charge(units, environment);
}

absl::Status Charge(int64_t units, Environment& environment) {
  const RenderLimits& limits = environment.limits;
  environment.work += units;
  if (units > limits.kept || environment.work > limits.work || environment.kept > limits.kept) {
    return absl::InvalidArgumentError("the template makes too much text, or too many values");
  }
  return absl::OkStatus();
}

Expression Expression::OfPlace(Find find) {
  Expression result;
  result.find_ = std::make_shared<const Find>(std::move(find));
  return result;
}

Expression Expression::OfIterator(Make make, Iterator iterator) {
  Expression result(std::move(make));
  result.iterator_ = std::make_shared<const Iterator>(std::move(iterator));
  return result;
}

Expression Expression::Safe(bool is_safe) const {
  Expression result = *this;
  result.is_safe_ = is_safe;
  return result;
}

absl::StatusOr<Value> Expression::Elements(Environment& environment) const {
  return iterator_ != nullptr ? Within<Value>(environment, *make_) : (*this)(environment);
}

absl::StatusOr<Value> Expression::operator()(Environment& environment) const {
  if (iterator_ != nullptr) return RefuseIterator(*iterator_);
  if (make_ != nullptr) return Within<Value>(environment, *make_);
  const absl::StatusOr<const Value*> place = Within<const Value*>(environment, *find_);
  if (!place.ok()) return place.status();
  if (absl::Status status = Charge(**place, environment); !status.ok()) return status;
  return **place;
}

absl::StatusOr<const Value*> Expression::In(Environment& environment, Value* made) const {
  if (find_ != nullptr) return Within<const Value*>(environment, *find_);
  if (iterator_ != nullptr) return RefuseIterator(*iterator_);
  absl::StatusOr<Value> value = Within<Value>(environment, *make_);
  if (!value.ok()) return value.status();
  *made = *std::move(value);
  return made;
}

absl::StatusOr<bool> Expression::IsTrue(Environment& environment) const {
  if (iterator_ != nullptr) {
    const absl::StatusOr<Value> elements = Elements(environment);
    if (!elements.ok()) return elements.status();
    return !iterator_->has_length || jinja::IsTrue(*elements);
  }
  Value made;
  const absl::StatusOr<const Value*> value = In(environment, &made);
  if (!value.ok()) return value.status();
  return jinja::IsTrue(**value);
}

absl::Status Assign(Value value, Value& name, Environment& environment) {
  environment.kept += std::max<int64_t>(UnitsOf(value, 0), 0) - UnitsOf(name, 0);
  absl::Status status = Charge(value, environment);
  if (status.ok()) name = std::move(value);
  return status;
}

// The bytes tell a tuple from a namespace, the subtype is the place.
Value NamespaceAt(size_t place) { return Value::binary({}, place); }

absl::StatusOr<Value> TuplesOf(const Value& lists, Environment& environment) {
  Value tuples = Value::array();
  for (const Value& list : lists) {
    absl::Status status = Assign(list, environment.objects.emplace_back(), environment);
    if (!status.ok()) return status;
    tuples.push_back(Value::binary({kTuple}, environment.objects.size() - 1));
  }
  return tuples;
}

const Value& Resolve(const Value& value, const Environment& environment) {
  const bool has_place = value.is_binary() && value.get_binary().has_subtype() &&
                         value.get_binary().subtype() < environment.objects.size();
  return has_place ? environment.objects[value.get_binary().subtype()] : value;
}

const Value& ListOfTuple(const Value& value, const Environment& environment) {
  const Value& resolved = Resolve(value, environment);
  return resolved.is_array() ? resolved : value;
}

std::optional<size_t> PlaceOfNamespace(const Value& value, const Environment& environment) {
  if (!value.is_binary() || !Resolve(value, environment).is_object()) return std::nullopt;
  return static_cast<size_t>(value.get_binary().subtype());
}

absl::Status RunAll(const std::vector<Statement>& statements, Environment& environment) {
  for (const Statement& statement : statements) {
    if (environment.control != LoopControl::kNone) return absl::OkStatus();
    if (++environment.steps > environment.limits.statements ||
        environment.out.text.size() > environment.limits.text) {
      return absl::InvalidArgumentError("the template does not end");
    }
    if (absl::Status status = statement(environment); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status RunInScope(const std::vector<Statement>& statements, Environment& environment,
                        std::map<std::string, Value> scope) {
  environment.scopes.push_back(std::move(scope));
  absl::Status status = RunAll(statements, environment);
  environment.scopes.pop_back();
  return status;
}

}  // namespace sluice::jinja
