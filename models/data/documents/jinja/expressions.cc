#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "models/data/documents/jinja/parser.h"

namespace sluice::jinja {
namespace {

constexpr int kDeepest = 100;       // expressions inside each other
constexpr int kDeepestCall = 50;    // macros that call each other
constexpr int kMostLinks = 1000;    // operators, filters and attributes around a value
constexpr size_t kMostKeys = 1000;  // of a dictionary, or named arguments of a call

struct Arguments {
  std::vector<Expression> positional;
  std::vector<std::pair<std::string, Expression>> named;
};

// Where named arguments of filters and methods stand among the others. The first of `map` is a
// filter, which no name has.
size_t PlaceOfArgument(const std::string& of, const std::string& name) {
  static const auto* const parameters = new std::map<std::string, std::vector<std::string>>(
      {{"default", {"default_value", "boolean"}},
       {"d", {"default_value", "boolean"}},
       {"dictsort", {"case_sensitive", "by", "reverse"}},
       {"float", {"default"}},
       {"indent", {"width", "first", "blank"}},
       {"int", {"default", "base"}},
       {"join", {"d", "attribute"}},
       {"map", {"", "attribute", "default"}},
       {"rsplit", {"sep", "maxsplit"}},
       {"sort", {"reverse", "case_sensitive", "attribute"}},
       {"split", {"sep", "maxsplit"}},
       {"tojson", {"ensure_ascii", "indent", "separators", "sort_keys"}},
       {"trim", {"chars"}}});
  const auto known = parameters->find(of);
  if (known == parameters->end()) return std::string::npos;
  const auto at = std::find(known->second.begin(), known->second.end(), name);
  return at == known->second.end() ? std::string::npos : at - known->second.begin();
}

absl::StatusOr<Values> Evaluate(const std::vector<Expression>& expressions, Environment& env,
                                bool takes_tuples = false) {
  Values values;
  for (const Expression& expression : expressions) {
    absl::StatusOr<Value> value = takes_tuples ? expression.Elements(env) : expression(env);
    if (!value.ok()) return value.status();
    values.push_back(*std::move(value));
  }
  return values;
}

// Those that transformers gives a template, but for strftime_now, which is not defined here.
bool IsFunction(const std::string& name) {
  return name == "range" || name == "namespace" || name == "raise_exception" || name == "dict" ||
         name == "lipsum" || name == "cycler" || name == "joiner";
}

const Value& Lookup(const std::string& name, const Environment& env) {
  for (size_t i = env.scopes.size(); i-- > 0;) {
    const auto found = env.scopes[i].find(name);
    if (found != env.scopes[i].end()) return found->second;
  }
  return IsFunction(name) || env.macros.contains(name) ? AFunction() : NoValue();
}

absl::StatusOr<Value> Charged(absl::StatusOr<Value> value, Environment& env) {
  if (!value.ok()) return value;
  if (absl::Status status = Charge(*value, env); !status.ok()) return status;
  return value;
}

// What a filter or a method does with a value; those named here look at no element of a list.
absl::Status ChargeUse(const std::string& name, const Value& value, Environment& env) {
  const bool looks = value.is_string() || (name != "length" && name != "count" && name != "first" &&
                                           name != "last" && name != "default" && name != "get");
  return looks ? Charge(value, env) : Charge(1, env);
}

// Of a call, by parameter; what the macro's own defaults are for is not there.
absl::StatusOr<std::map<std::string, Value>> GivenValues(const Macro& macro,
                                                         const Arguments& arguments,
                                                         Environment& env) {
  absl::StatusOr<Values> values = Evaluate(arguments.positional, env);
  if (!values.ok()) return values.status();
  if (values->size() > macro.parameters.size()) {
    return absl::InvalidArgumentError("a macro is called with too many arguments");
  }
  std::map<std::string, Value> given;
  for (size_t i = 0; i < values->size(); ++i) {
    given[macro.parameters[i].first] = std::move((*values)[i]);
  }
  for (const auto& [name, expression] : arguments.named) {
    const bool is_known =
        std::any_of(macro.parameters.begin(), macro.parameters.end(),
                    [&name = name](const auto& known) { return known.first == name; });
    if (!is_known || given.contains(name)) {
      return absl::InvalidArgumentError(absl::StrCat("a macro is called with the argument '", name,
                                                     is_known ? "' twice" : "', which it has not"));
    }
    absl::StatusOr<Value> value = expression(env);
    if (!value.ok()) return value.status();
    given[name] = *std::move(value);
  }
  return given;
}

// The values of the parameters that a call does not give. Defaults may call macros, too: they count
// as deep as the body.
absl::Status TakeDefaults(const Macro& macro, Environment& env) {
  for (const auto& [name, otherwise] : macro.parameters) {
    if (env.scopes.back().contains(name)) continue;
    absl::StatusOr<Value> value = otherwise ? otherwise(env) : absl::StatusOr<Value>(Undefined());
    if (!value.ok()) return value.status();
    env.scopes.back()[name] = *std::move(value);
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> RunMacro(const Macro& macro, std::map<std::string, Value> scope,
                               Environment& env) {
  const size_t seen = std::min(macro.scopes, env.scopes.size());
  const auto first = env.scopes.begin() + static_cast<std::ptrdiff_t>(seen);
  std::vector<std::map<std::string, Value>> hidden(std::make_move_iterator(first),
                                                   std::make_move_iterator(env.scopes.end()));
  env.scopes.resize(seen);
  env.scopes.push_back(std::move(scope));
  Rendered outside = std::exchange(env.out, {});
  absl::Status status = TakeDefaults(macro, env);
  if (status.ok()) status = RunAll(*macro.body, env);
  env.scopes.resize(seen);
  std::move(hidden.begin(), hidden.end(), std::back_inserter(env.scopes));
  Rendered inside = std::exchange(env.out, std::move(outside));
  if (!status.ok()) return status;
  return Charged(Value(std::move(inside.text)), env);
}

absl::StatusOr<Value> CallMacro(const Macro& macro, const Arguments& arguments, Environment& env) {
  absl::StatusOr<std::map<std::string, Value>> given = GivenValues(macro, arguments, env);
  if (!given.ok()) return given.status();
  if (env.depth == kDeepestCall) {
    return absl::InvalidArgumentError("macros call each other too deep");
  }
  if (absl::Status status = Charge(kWorkOfCall, env); !status.ok()) return status;
  ++env.depth;
  absl::StatusOr<Value> text = RunMacro(macro, *std::move(given), env);
  --env.depth;
  return text;
}

// Python's range(end), range(begin, end) or range(begin, end, step), as a list.
absl::StatusOr<Value> Range(const Values& given) {
  constexpr int64_t kMost = 1'000'000;
  const bool whole =
      std::all_of(given.begin(), given.end(), [](const Value& v) { return v.is_number_integer(); });
  if (!whole || given.size() > 3)
    return absl::InvalidArgumentError("range takes 1 to 3 whole numbers");
  const int64_t begin = given.size() > 1 ? given[0].get<int64_t>() : 0;
  const int64_t end = given[given.size() > 1 ? 1 : 0].get<int64_t>();
  const int64_t by = given.size() > 2 ? given[2].get<int64_t>() : 1;
  if (by == 0) return absl::InvalidArgumentError("range goes by steps of 0");
  int64_t span = 0;
  const bool is_wide = by > 0 ? __builtin_sub_overflow(end, begin, &span)
                              : __builtin_sub_overflow(begin, end, &span);
  const int64_t most = std::numeric_limits<int64_t>::max();
  const int64_t step = by > 0 ? by : -std::max(by, -most);
  const int64_t count = span > 0 ? (span - 1) / step + 1 : 0;
  if (is_wide || count > kMost) return absl::InvalidArgumentError("range is too long");
  Value list = Value::array();
  for (int64_t i = 0; i < count; ++i) list.push_back(begin + i * by);
  return list;
}

absl::StatusOr<Value> CallFunction(const std::string& name, const Arguments& arguments,
                                   Environment& env) {
  const auto macro = env.macros.find(name);
  if (macro != env.macros.end()) {
    const Macro called = macro->second;  // which may define its own name anew
    return CallMacro(called, arguments, env);
  }
  absl::StatusOr<Values> values = Evaluate(arguments.positional, env);
  if (!values.ok()) return values.status();
  if (!arguments.named.empty() && name != "namespace" && name != "dict") {
    return absl::InvalidArgumentError(absl::StrCat("the argument '", arguments.named.front().first,
                                                   "' of the function '", name,
                                                   "' is not supported"));
  }
  if (name == "raise_exception") {
    return absl::InvalidArgumentError(absl::StrCat("the template refuses this conversation: ",
                                                   values->empty() ? "" : TextOf(values->front())));
  }
  if (name == "namespace" || name == "dict") {
    if (!values->empty()) {
      return absl::InvalidArgumentError(absl::StrCat(name == "dict" ? "'dict'" : "a namespace",
                                                     " of values without names is not supported"));
    }
    Value made = Value::object();
    for (const auto& [field, expression] : arguments.named) {
      absl::StatusOr<Value> value = expression(env);
      if (!value.ok()) return value;
      if (name == "dict") {
        made[field] = *std::move(value);
      } else if (absl::Status s = Assign(*std::move(value), made[field], env); !s.ok()) {
        return s;
      }
    }
    if (name == "dict") return made;
    env.objects.push_back(std::move(made));
    return NamespaceAt(env.objects.size() - 1);
  }
  if (name == "range" && !values->empty()) return Range(*values);
  return absl::InvalidArgumentError(absl::StrCat("the function '", name, "' is not supported"));
}

class ExpressionParser {
 public:
  ExpressionParser(TokenReader& reader, int depth) : reader_(reader), depth_(depth) {}

  Expression Whole() {
    if (depth_ < kDeepest) return Ternary();
    reader_.Fail("expressions are nested too deep");
    return [](Environment&) { return Undefined(); };
  }

  Expression Ternary() {
    Expression value = Or();
    if (!reader_.TakeName("if")) return value;
    Expression condition = Or();
    Expression otherwise = [](Environment&) { return Undefined(); };
    if (reader_.TakeName("else")) otherwise = Inner();
    const Expression chosen = [value, condition,
                               otherwise](Environment& env) -> absl::StatusOr<Value> {
      const absl::StatusOr<bool> holds = condition.IsTrue(env);
      if (!holds.ok()) return holds.status();
      return *holds ? value(env) : otherwise(env);
    };
    return chosen.Safe(value.is_safe() || otherwise.is_safe());
  }

  Expression Or() {
    Expression left = And();
    while (reader_.TakeName("or")) {
      CountLink();
      left = Either(left, And(), true);
    }
    return left;
  }

  // What filters one behind the other, "upper | trim", give of a value.
  Expression Filters(Expression value) {
    do {
      value = Filtered(value);
    } while (reader_.TakeOperator("|"));
    return value;
  }

 private:
  Expression Inner() {
    ExpressionParser inner(reader_, depth_ + 1);
    Expression value = inner.Whole();
    links_within_ = std::max(links_within_, inner.links_ + inner.links_within_);
    if (links_ + links_within_ > kMostLinks) FailOfLinks();
    return value;
  }

  // `left or right` stops at the first that is true, `left and right` at the first that is not.
  static Expression Either(const Expression& left, const Expression& right, bool stop) {
    const Expression chosen = [left, right, stop](Environment& env) -> absl::StatusOr<Value> {
      Value made;
      const absl::StatusOr<const Value*> first = left.In(env, &made);
      if (!first.ok()) return first.status();
      return IsTrue(**first) == stop ? Charged(**first, env) : right(env);
    };
    return chosen.Safe(left.is_safe() || right.is_safe());
  }

  Expression And() {
    Expression left = Not();
    while (reader_.TakeName("and")) {
      CountLink();
      left = Either(left, Not(), false);
    }
    return left;
  }

  static Expression Negated(const Expression& value) {
    return [value](Environment& env) -> absl::StatusOr<Value> {
      const absl::StatusOr<bool> holds = value.IsTrue(env);
      if (!holds.ok()) return holds.status();
      return Value(!*holds);
    };
  }

  Expression Not() {
    int times = 0;
    while (reader_.TakeName("not")) ++times;
    Expression value = Comparison();
    if (times > 0 && times % 2 == 0) value = Negated(value);  // to true or false, whatever it was
    return times > 0 ? Negated(value) : value;
  }

  static Expression Operation(const std::string& op, const Expression& left,
                              const Expression& right) {
    const bool escapes = op == "+" && (left.is_safe() || right.is_safe());
    const bool looks_within =
        op == "in" && right.iterator() != nullptr && !right.iterator()->has_pairs;
    const Expression result = [op, left, right, escapes,
                               looks_within](Environment& env) -> absl::StatusOr<Value> {
      if (escapes) {
        return absl::InvalidArgumentError(
            "'+' of what the filter 'safe' gives, which escapes the text beside it, is not "
            "supported; write '~', which does not");
      }
      absl::StatusOr<Value> a = left(env);
      if (!a.ok()) return a;
      absl::StatusOr<Value> b = looks_within ? right.Elements(env) : right(env);
      if (!b.ok()) return b;
      return Charged(Binary(op, *a, *b), env);
    };
    return result.Safe(op == "*" && (left.is_safe() || right.is_safe()));
  }

  // Operators of one rank, from left to right.
  Expression Rank(std::initializer_list<const char*> operators,
                  Expression (ExpressionParser::*next)()) {
    Expression left = (this->*next)();
    for (bool found = true; found && reader_.ok();) {
      found = false;
      for (const char* op : operators) {
        if (!reader_.TakeOperator(op)) continue;
        CountLink();
        left = Operation(op, left, (this->*next)());
        found = true;
        break;
      }
    }
    return left;
  }

  // Python reads `a < b < c` as `a < b and b < c`; no template is known to need that.
  Expression Comparison() {
    Expression left = Sum();
    for (bool again = false; reader_.ok(); again = true) {
      CountLink();
      const bool not_in = reader_.Is(TokenKind::kName, "not") && reader_.Peek(1).text == "in";
      if (not_in) reader_.Take();
      if (again && (not_in || reader_.Is(TokenKind::kName, "in"))) return Chained();
      if (reader_.TakeName("in")) {
        left = Operation("in", left, Sum());
        if (not_in) left = Negated(left);
        continue;
      }
      const std::string op = reader_.Peek().text;
      const bool compares =
          reader_.Is(TokenKind::kOperator) &&
          (op == "==" || op == "!=" || op == "<" || op == ">" || op == "<=" || op == ">=");
      if (!compares) break;
      if (again) return Chained();
      reader_.Take();
      left = Operation(op, left, Sum());
    }
    return left;
  }

  Expression Chained() {
    reader_.Fail("comparisons in a chain are not supported; join them by 'and'");
    return [](Environment&) { return Undefined(); };
  }

  Expression Sum() { return Rank({"+", "-"}, &ExpressionParser::Joined); }
  Expression Joined() { return Rank({"~"}, &ExpressionParser::Product); }
  Expression Product() { return Rank({"*", "//", "/", "%"}, &ExpressionParser::Unary); }

  Expression Unary() {
    const bool negative = reader_.TakeOperator("-");
    Expression value = Postfix(Primary());
    if (negative)
      value = Operation(
          "-", [](Environment&) { return Value(0); }, value);
    while (reader_.ok()) {
      CountLink();
      if (reader_.TakeOperator("|")) {
        value = Postfix(Filtered(value));
      } else if (reader_.TakeName("is")) {
        value = Tested(value);
      } else {
        break;
      }
    }
    return value;
  }

  // Moves the arguments with names among those without, where nothing stands for what is left out.
  void PlaceNamed(const std::string& of, absl::string_view kind, Arguments* arguments) {
    for (const auto& [name, expression] : arguments->named) {
      const size_t at = PlaceOfArgument(of, name);
      const bool is_free = at >= arguments->positional.size() || !arguments->positional[at];
      if (at == std::string::npos || !is_free) {
        reader_.Fail(absl::StrCat("the argument '", name, "' of the ", kind, " '", of,
                                  "' is not supported"));
        return;
      }
      if (at >= arguments->positional.size()) arguments->positional.resize(at + 1);
      arguments->positional[at] = expression;
    }
    for (Expression& argument : arguments->positional) {
      if (!argument) argument = [](Environment&) { return Undefined(); };
    }
  }

  Expression Filtered(const Expression& value) {
    CountLink();
    const std::string name = reader_.ExpectName();
    Arguments arguments = reader_.TakeOperator("(") ? TakeArguments() : Arguments();
    if (name == "tojson" && !arguments.positional.empty()) {
      reader_.Fail("the filter 'tojson' with arguments that have no name is not supported");
    }
    PlaceNamed(name, "filter", &arguments);
    const Expression result = Use(Filter, name, value, arguments);
    // Of an iterator without a length, whose elements Jinja2 reads into a list for that.
    const bool makes_list =
        name == "reverse" && value.iterator() != nullptr && !value.iterator()->has_length;
    const bool has_pairs = name == "items" || name == "dictsort";
    if (Selects(name) || name == "map" || name == "unique" || has_pairs ||
        (name == "reverse" && !makes_list)) {
      return Expression::OfIterator(result, {.name = absl::StrCat("the filter '", name, "'"),
                                             .has_length = name == "dictsort",
                                             .has_pairs = has_pairs});
    }
    return result.Safe(name == "safe" || (value.is_safe() && KeepsSafe(name)));
  }

  static bool Selects(const std::string& filter) {
    return filter == "select" || filter == "reject" || filter == "selectattr" ||
           filter == "rejectattr";
  }

  static bool KeepsSafe(const std::string& filter) {
    return filter != "tojson" && filter != "length" && filter != "count" && filter != "list" &&
           filter != "join" && filter != "replace" && filter != "int" && filter != "float";
  }

  // Whether a filter takes the elements of an iterator as it does those of a list.
  static bool TakesIterator(const std::string& filter, const Iterator& iterator) {
    if (filter == "list" || filter == "first") return true;
    if (filter == "length" || filter == "count" || filter == "last") return iterator.has_length;
    return !iterator.has_pairs && (filter == "join" || filter == "reverse" || filter == "map" ||
                                   filter == "unique" || filter == "sort" || filter == "sum" ||
                                   filter == "min" || filter == "max" || Selects(filter));
  }

  static absl::StatusOr<Value> ElementsOf(const Expression& value, Environment& env) {
    absl::StatusOr<Value> elements = value.Elements(env);
    if (!elements.ok() || !value.iterator()->has_pairs) return elements;
    return TuplesOf(*elements, env);
  }

  // A filter or a method of a value.
  static Expression Use(absl::StatusOr<Value> (*use)(const std::string&, const Value&,
                                                     const Values&),
                        const std::string& name, const Expression& value,
                        const Arguments& arguments) {
    const bool takes_elements =
        use == Filter && value.iterator() != nullptr && TakesIterator(name, *value.iterator());
    // Which look only at the elements of what they are given.
    const bool takes_tuples = use == Filter
                                  ? name == "tojson"
                                  : name == "startswith" || name == "endswith" || name == "join";
    return [use, name, value, arguments, takes_elements,
            takes_tuples](Environment& env) -> absl::StatusOr<Value> {
      const absl::StatusOr<Values> values = Evaluate(arguments.positional, env, takes_tuples);
      if (!values.ok()) return values.status();
      if (takes_elements) {
        const absl::StatusOr<Value> elements = ElementsOf(value, env);
        if (!elements.ok()) return elements.status();
        return Charged(use(name, *elements, *values), env);
      }
      Value made;
      const absl::StatusOr<const Value*> of = value.In(env, &made);
      if (!of.ok()) return of.status();
      const Value& used = ListOfTuple(**of, env);
      if (absl::Status status = ChargeUse(name, used, env); !status.ok()) return status;
      return Charged(use(name, used, *values), env);
    };
  }

  Expression Tested(const Expression& value) {
    const bool negated = reader_.TakeName("not");
    const std::string name = reader_.ExpectName();
    Arguments arguments;
    if (reader_.TakeOperator("(")) {
      arguments = TakeArguments();
    } else if (TakesArgument()) {  // as `is divisibleby 3`
      arguments.positional.push_back(Postfix(Primary()));
    }
    PlaceNamed(name, "test", &arguments);
    return [name, value, arguments, negated](Environment& env) -> absl::StatusOr<Value> {
      const absl::StatusOr<Values> values = Evaluate(arguments.positional, env);
      if (!values.ok()) return values.status();
      Value made;
      const absl::StatusOr<const Value*> of = value.In(env, &made);
      if (!of.ok()) return of.status();
      const absl::StatusOr<bool> holds = Test(name, ListOfTuple(**of, env), *values);
      if (!holds.ok()) return holds.status();
      return Value(*holds != negated);
    };
  }

  // Whether what stands behind the name of a test is its argument.
  bool TakesArgument() const {
    if (reader_.Is(TokenKind::kString) || reader_.Is(TokenKind::kNumber)) return true;
    if (reader_.Is(TokenKind::kOperator, "[") || reader_.Is(TokenKind::kOperator, "{")) return true;
    const std::string& word = reader_.Peek().text;
    return reader_.Is(TokenKind::kName) && word != "and" && word != "or" && word != "not" &&
           word != "if" && word != "else" && word != "in" && word != "is";
  }

  // Behind the opening bracket.
  Arguments TakeArguments() {
    Arguments arguments;
    while (reader_.ok() && !reader_.TakeOperator(")")) {
      if (reader_.Is(TokenKind::kName) && reader_.Peek(1).kind == TokenKind::kOperator &&
          reader_.Peek(1).text == "=") {
        const std::string name = reader_.ExpectName();
        reader_.Take();
        arguments.named.emplace_back(name, Inner());
        if (arguments.named.size() > kMostKeys) reader_.Fail("a call has too many arguments");
      } else {
        arguments.positional.push_back(Inner());
      }
      if (!reader_.Is(TokenKind::kOperator, ")")) reader_.Expect(TokenKind::kOperator, ",");
    }
    return arguments;
  }

  Expression Postfix(Expression value) {
    while (reader_.ok()) {
      CountLink();
      if (reader_.TakeOperator(".")) {
        const std::string name = reader_.ExpectName();
        value = reader_.TakeOperator("(")
                    ? MethodCall(value, name)
                    : ItemOf(
                          value, [name](Environment&) { return Value(name); }, true)
                          .Safe(reader_.IsSafe(absl::StrCat(".", name)));
      } else if (reader_.TakeOperator("[")) {
        value = Subscript(value);
      } else {
        break;
      }
    }
    return value;
  }

  Expression MethodCall(const Expression& value, const std::string& name) {
    if (name == "replace" && value.is_safe()) {
      reader_.Fail("the method 'replace' of what the filter 'safe' gives is not supported");
    }
    Arguments arguments = TakeArguments();
    PlaceNamed(name, "method", &arguments);
    const Expression result = Use(Method, name, value, arguments);
    if (name != "items" && name != "keys" && name != "values") {
      return result.Safe(value.is_safe());
    }
    return Expression::OfIterator(result, {.name = absl::StrCat("the method '", name, "'"),
                                           .has_length = true,
                                           .has_pairs = name == "items"});
  }

  // A character of a text, or NoValue().
  static absl::StatusOr<const Value*> CharacterAt(const Value& text, int64_t at, Environment& env) {
    if (absl::Status status = Charge(text, env); !status.ok()) return status;
    const int64_t size = LengthOf(text);
    if (at >= size || at < -size) return &NoValue();
    const int64_t place = at < 0 ? at + size : at;
    absl::StatusOr<Value> found = Slice(text, place, place + 1, Undefined());
    if (!found.ok()) return found.status();
    const auto character = env.characters.try_emplace(found->get<std::string>(), *found);
    return &character.first->second;
  }

  // value.index, where it is an attribute, or value[index]. A namespace has no methods.
  static absl::StatusOr<const Value*> ItemIn(const Value& value, const Value& index,
                                             bool is_attribute, Environment& env) {
    const Value& within = Resolve(value, env);
    if (within.is_string() && index.is_number_integer())
      return CharacterAt(within, index.get<int64_t>(), env);
    return is_attribute && !PlaceOfNamespace(value, env)
               ? Attribute(within, index.get_ref<const std::string&>())
               : Item(within, index);
  }

  static Expression ItemOf(const Expression& value, const Expression& index, bool is_attribute) {
    if (!value.has_place()) {
      const bool has_places =
          !is_attribute && value.iterator() != nullptr && value.iterator()->has_places;
      const Expression found = [value, index, is_attribute,
                                has_places](Environment& env) -> absl::StatusOr<Value> {
        absl::StatusOr<Value> of = has_places ? value.Elements(env) : value(env);
        if (!of.ok()) return of;
        const absl::StatusOr<Value> at = index(env);
        if (!at.ok()) return at.status();
        const absl::StatusOr<const Value*> item = ItemIn(*of, *at, is_attribute, env);
        if (!item.ok()) return item.status();
        return Charged(**item, env);
      };
      return found.Safe(value.is_safe());
    }
    return Expression::OfPlace(
        [value, index, is_attribute](Environment& env) -> absl::StatusOr<const Value*> {
          const absl::StatusOr<Value> at = index(env);  // first: what it calls may move the value
          if (!at.ok()) return at.status();
          Value none;
          const absl::StatusOr<const Value*> of = value.In(env, &none);
          if (!of.ok()) return of.status();
          if (absl::Status status = Charge(1, env); !status.ok()) return status;
          return ItemIn(**of, *at, is_attribute, env);
        });
  }

  // Behind the opening bracket.
  Expression Subscript(const Expression& value) {
    const auto border = [this]() -> Expression {
      if (reader_.Is(TokenKind::kOperator, ":") || reader_.Is(TokenKind::kOperator, "]")) {
        return [](Environment&) { return Undefined(); };
      }
      return Inner();
    };
    const Expression begin = border();
    if (reader_.TakeOperator("]")) return ItemOf(value, begin, false);
    reader_.Expect(TokenKind::kOperator, ":");
    const Expression end = border();
    const Expression step =
        reader_.TakeOperator(":") ? border() : Expression([](Environment&) { return Undefined(); });
    reader_.Expect(TokenKind::kOperator, "]");
    const Expression part = [value, begin, end, step](Environment& env) -> absl::StatusOr<Value> {
      const absl::StatusOr<Values> borders = Evaluate({begin, end, step}, env);
      if (!borders.ok()) return borders.status();
      Value made;
      const absl::StatusOr<const Value*> of = value.In(env, &made);
      if (!of.ok()) return of.status();
      // The characters of a text are counted from its beginning.
      if (absl::Status s = (*of)->is_string() ? Charge(**of, env) : absl::OkStatus(); !s.ok()) {
        return s;
      }
      return Charged(Slice(**of, (*borders)[0], (*borders)[1], (*borders)[2]), env);
    };
    return part.Safe(value.is_safe());
  }

  Expression Primary() {
    const Token token = reader_.Take();
    if (token.kind == TokenKind::kString) {
      std::string text = token.text;
      while (reader_.Is(TokenKind::kString)) text += reader_.Take().text;
      return [text](Environment& env) { return Charged(Value(text), env); };
    }
    if (token.kind == TokenKind::kNumber) return Number(token.text);
    if (token.kind == TokenKind::kName) return Named(token.text);
    if (token.kind == TokenKind::kOperator && token.text == "(") {
      Expression value = Inner();
      if (reader_.TakeOperator(",")) return Tuple(value);
      reader_.Expect(TokenKind::kOperator, ")");
      return value;
    }
    if (token.kind == TokenKind::kOperator && token.text == "[") return List();
    if (token.kind == TokenKind::kOperator && token.text == "{") return Dictionary();
    reader_.Fail(absl::StrCat("expected a value, found '", token.text, "'"));
    return [](Environment&) { return Undefined(); };
  }

  Expression Number(const std::string& text) {
    Value number;
    int64_t whole = 0;
    double fraction = 0;
    const bool is_whole = text.find_first_not_of("0123456789") == std::string::npos;
    if (is_whole && absl::SimpleAtoi(text, &whole)) {
      number = whole;
    } else if (text.find('.') != std::string::npos && absl::SimpleAtod(text, &fraction)) {
      number = fraction;
    } else {
      reader_.Fail(
          absl::StrCat("expected a whole number of at most 64 bits, or one as 0.5, found ", text));
    }
    return [number](Environment&) { return number; };
  }

  Expression Named(const std::string& name) {
    if (reader_.TakeOperator("(")) {
      const Arguments arguments = TakeArguments();
      Expression call = [name, arguments](Environment& env) {
        return Charged(CallFunction(name, arguments, env), env);
      };
      if (name != "range") return call;
      return Expression::OfIterator(call,
                                    {.name = "range", .has_length = true, .has_places = true});
    }
    if (name == "self") reader_.Fail("'self' is not supported");
    if (name == "loop" && !reader_.Is(TokenKind::kOperator, ".") &&
        !reader_.Is(TokenKind::kOperator, "[") && !reader_.Is(TokenKind::kEndStatement) &&
        !reader_.Is(TokenKind::kName)) {
      return [](Environment& env) -> absl::StatusOr<Value> {
        if (!Lookup("loop", env).is_object()) return Value(Lookup("loop", env));
        return absl::InvalidArgumentError("'loop' without one of its fields is not supported");
      };
    }
    if (name == "true" || name == "True") return [](Environment&) { return Value(true); };
    if (name == "false" || name == "False") return [](Environment&) { return Value(false); };
    if (name == "none" || name == "None") return [](Environment&) { return Value(); };
    const Expression named =
        Expression::OfPlace([name](Environment& env) -> absl::StatusOr<const Value*> {
          if (absl::Status status = Charge(1, env); !status.ok()) return status;
          return &Lookup(name, env);
        });
    return named.Safe(reader_.IsSafe(name));
  }

  // Behind the first comma.
  Expression Tuple(const Expression& first) {
    return Expression::OfIterator(ListUpTo(")", {first}),
                                  {.name = "a tuple", .has_length = true, .has_places = true});
  }

  Expression List() { return ListUpTo("]", {}); }

  Expression ListUpTo(absl::string_view close, std::vector<Expression> elements) {
    while (reader_.ok() && !reader_.TakeOperator(close)) {
      elements.push_back(Inner());
      if (!reader_.Is(TokenKind::kOperator, close)) reader_.Expect(TokenKind::kOperator, ",");
    }
    return [elements](Environment& env) -> absl::StatusOr<Value> {
      absl::StatusOr<Values> values = Evaluate(elements, env);
      if (!values.ok()) return values.status();
      return Charged(Value(*std::move(values)), env);
    };
  }

  Expression Dictionary() {
    std::vector<Expression> parts;  // keys and values in turn
    while (reader_.ok() && !reader_.TakeOperator("}")) {
      parts.push_back(Inner());
      reader_.Expect(TokenKind::kOperator, ":");
      parts.push_back(Inner());
      if (!reader_.Is(TokenKind::kOperator, "}")) reader_.Expect(TokenKind::kOperator, ",");
    }
    // Each key is looked for among those before it.
    if (parts.size() > 2 * kMostKeys) reader_.Fail("a dictionary has too many keys");
    return [parts](Environment& env) -> absl::StatusOr<Value> {
      const absl::StatusOr<Values> values = Evaluate(parts, env);
      if (!values.ok()) return values.status();
      Value object = Value::object();
      for (size_t i = 0; i + 1 < values->size(); i += 2) {
        if (!(*values)[i].is_string()) {
          return absl::InvalidArgumentError(
              "a key of a dictionary that is no text is not supported");
        }
        object[(*values)[i].get_ref<const std::string&>()] = (*values)[i + 1];
      }
      return Charged(object, env);
    };
  }

  // Each link stands around what is left of it, so that evaluating a long chain needs a deep stack,
  // and copying it as many steps as it has links. Those in brackets stand below those around them.
  void CountLink() {
    if (++links_ + links_within_ > kMostLinks) FailOfLinks();
  }
  void FailOfLinks() { reader_.Fail("an expression has too many parts"); }

  TokenReader& reader_;
  const int depth_;
  int links_ = 0;
  int links_within_ = 0;  // of the expression in brackets that has most of them
};

}  // namespace

Expression ParseExpression(TokenReader& reader) { return ExpressionParser(reader, 0).Whole(); }

Expression ParseFilters(TokenReader& reader, Expression value) {
  return ExpressionParser(reader, 0).Filters(std::move(value));
}

Expression ParseCondition(TokenReader& reader) { return ExpressionParser(reader, 0).Or(); }

}  // namespace sluice::jinja
