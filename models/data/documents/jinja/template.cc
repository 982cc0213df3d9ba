#include "models/data/documents/jinja/template.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "models/data/documents/jinja/builtins.h"
#include "models/data/documents/jinja/parser.h"

namespace sluice::jinja {
namespace {

constexpr int kDeepest = 50;                          // statements inside each other
constexpr size_t kLongestTemplate = size_t{1} << 20;  // bytes
constexpr size_t kMostFields = 100;                   // of a namespace, which are looked through

using Statements = std::vector<Statement>;

absl::Status AtLine(int line, const absl::Status& status) {
  if (status.ok() || absl::StartsWith(status.message(), "line ")) return status;
  return absl::Status(status.code(), absl::StrCat("line ", line, ": ", status.message()));
}

struct Loop {
  std::vector<std::string> names;
  Expression list;
  Expression condition;  // or none
  Statements body;
  Statements otherwise;
  bool names_itself = false;  // the body has the word `loop`
};

// What `loop` is in the body.
Value LoopValue(const Values& all, size_t i) {
  const auto count = static_cast<int64_t>(all.size());
  const auto at = static_cast<int64_t>(i);
  Value loop = Value::object();
  auto& fields = loop.get_ref<Value::object_t&>();
  fields.reserve(11);               // and nobody looks for one that is there already
  fields.emplace_back("depth", 1);  // there are no loops that call themselves
  fields.emplace_back("depth0", 0);
  fields.emplace_back("index", at + 1);
  fields.emplace_back("index0", at);
  fields.emplace_back("first", at == 0);
  fields.emplace_back("last", at + 1 == count);
  fields.emplace_back("length", count);
  fields.emplace_back("revindex", count - at);
  fields.emplace_back("revindex0", count - at - 1);
  if (i > 0) fields.emplace_back("previtem", all[i - 1]);
  if (i + 1 < all.size()) fields.emplace_back("nextitem", all[i + 1]);
  return loop;
}

absl::Status Bind(const std::vector<std::string>& names, const Value& whole, const Environment& env,
                  std::map<std::string, Value>* scope) {
  if (names.size() == 1) {
    (*scope)[names.front()] = whole;
    return absl::OkStatus();
  }
  const Value& element = ListOfTuple(whole, env);
  if (!element.is_array() || element.size() != names.size()) {
    return absl::InvalidArgumentError("several names need a list of as many values");
  }
  for (size_t i = 0; i < names.size(); ++i) (*scope)[names[i]] = element[i];
  return absl::OkStatus();
}

bool GivesPairs(const Loop& loop) {
  return loop.list.iterator() != nullptr && loop.list.iterator()->has_pairs;
}

// The elements of a loop's list for which its condition holds.
absl::StatusOr<Values> Elements(const Loop& loop, Environment& env) {
  absl::StatusOr<Value> list = loop.list.Elements(env);
  if (list.ok() && GivesPairs(loop) && loop.names.size() == 1) list = TuplesOf(*list, env);
  if (!list.ok()) return list.status();
  if (list->is_binary()) list = Value(ListOfTuple(*list, env));
  Values elements;
  if (list->is_object()) {
    for (const auto& [key, value] : list->items()) elements.emplace_back(key);
  } else if (list->is_array()) {
    elements.assign(list->begin(), list->end());
  } else if (list->is_string()) {
    for (const absl::string_view character : CharactersOf(list->get_ref<const std::string&>())) {
      elements.emplace_back(std::string(character));
    }
  } else if (!list->is_discarded()) {
    return absl::InvalidArgumentError(absl::StrCat("a loop cannot go over ", TextOf(*list)));
  }
  if (!loop.condition) return elements;
  Values kept;
  for (const Value& element : elements) {
    std::map<std::string, Value> scope;
    if (absl::Status status = Charge(kWorkOfCall, env); !status.ok()) return status;
    if (absl::Status status = Bind(loop.names, element, env, &scope); !status.ok()) return status;
    env.scopes.push_back(std::move(scope));
    const absl::StatusOr<bool> holds = loop.condition.IsTrue(env);
    env.scopes.pop_back();
    if (!holds.ok()) return holds.status();
    if (*holds) kept.push_back(element);
  }
  return kept;
}

absl::Status RunLoop(const Loop& loop, Environment& env) {
  const absl::StatusOr<Values> elements = Elements(loop, env);
  if (!elements.ok()) return elements.status();
  if (elements->empty()) return RunInScope(loop.otherwise, env);
  for (size_t i = 0; i < elements->size(); ++i) {
    std::map<std::string, Value> scope;
    if (absl::Status s = Charge(kWorkOfCall, env); !s.ok()) return s;
    if (loop.names_itself) {
      Value& itself = scope["loop"] = LoopValue(*elements, i);
      // They are tuples, which nobody asks for where the pair has two names.
      for (const char* name : {"previtem", "nextitem"}) {
        if (GivesPairs(loop) && loop.names.size() > 1 && itself.contains(name)) {
          itself[name] = AFunction();
        }
      }
    }
    if (absl::Status s = Bind(loop.names, (*elements)[i], env, &scope); !s.ok()) return s;
    absl::Status status = RunInScope(loop.body, env, std::move(scope));
    if (!status.ok()) return status;
    const LoopControl control = std::exchange(env.control, LoopControl::kNone);
    if (control == LoopControl::kBreak) break;
  }
  return absl::OkStatus();
}

class StatementParser {
 public:
  explicit StatementParser(const std::vector<Token>& tokens) : reader_(tokens) {}

  Statements ParseTemplate() {
    Statements statements = Block({});
    if (reader_.ok() && !reader_.Is(TokenKind::kEnd)) reader_.Fail("expected the end");
    return statements;
  }
  const std::string& error() const { return reader_.error(); }
  bool has_generations() const { return has_generations_; }

 private:
  // Statements up to a tag that begins with one of `ends`, whose name is then the next token.
  Statements Block(std::initializer_list<absl::string_view> ends) {
    Statements statements;
    if (++depth_ > kDeepest) reader_.Fail("statements are nested too deep");
    while (reader_.ok() && !reader_.Is(TokenKind::kEnd)) {
      const Token token = reader_.Take();
      if (token.kind == TokenKind::kText) {
        statements.push_back([text = token.text](Environment& env) {
          env.out.text += text;
          return absl::OkStatus();
        });
      } else if (token.kind == TokenKind::kBeginOutput) {
        statements.push_back(Output(token.line));
      } else if (std::find(ends.begin(), ends.end(), reader_.Peek().text) != ends.end()) {
        --depth_;
        return statements;
      } else {
        statements.push_back(Tag(token.line));
      }
    }
    if (ends.size() != 0)
      reader_.Fail(absl::StrCat("a tag {% ", *(ends.end() - 1), " %} is missing"));
    --depth_;
    return statements;
  }

  void EndTag() { reader_.Expect(TokenKind::kEndStatement); }
  // {% NAME %}, whose beginning was read.
  void CloseBlock(absl::string_view name) {
    reader_.Expect(TokenKind::kName, name);
    EndTag();
  }

  Statement Output(int line) {
    const Expression value = ParseExpression(reader_);
    reader_.Expect(TokenKind::kEndOutput);
    return [value, line](Environment& env) {
      Value made;
      const absl::StatusOr<const Value*> result = value.In(env, &made);
      if (!result.ok()) return AtLine(line, result.status());
      if (absl::Status status = CheckHasText("{{ }}", **result); !status.ok()) {
        return AtLine(line, status);
      }
      env.out.text += TextOf(**result);
      return absl::OkStatus();
    };
  }

  Statement Tag(int line) {
    const std::string name = reader_.ExpectName();
    Statement statement = TagOf(name);
    return [statement, line](Environment& env) { return AtLine(line, statement(env)); };
  }

  Statement TagOf(const std::string& name) {
    if (name == "if") return If();
    if (name == "for") return For();
    if (name == "set") return Set();
    if (name == "with") return With();
    if (name == "filter") return FilterBlock();
    if (name == "macro") return DefineMacro();
    if (name == "generation") return Generation();
    if (name == "break" || name == "continue") {
      if (loops_ == 0) reader_.Fail(absl::StrCat("a {% ", name, " %} stands in no loop"));
      EndTag();
      const LoopControl control = name == "break" ? LoopControl::kBreak : LoopControl::kContinue;
      return [control](Environment& env) {
        env.control = control;
        return absl::OkStatus();
      };
    }
    reader_.Fail(absl::StrCat("the tag {% ", name, " %} is not supported"));
    return nullptr;
  }

  // Behind `if` or `elif`.
  Statement If() {
    const Expression condition = ParseExpression(reader_);
    EndTag();
    Statements then = Block({"elif", "else", "endif"});
    Statements otherwise;
    if (reader_.TakeName("elif")) {
      if (++depth_ > kDeepest) reader_.Fail("statements are nested too deep");
      if (reader_.ok()) otherwise.push_back(If());
      --depth_;
    } else {
      if (reader_.TakeName("else")) {
        EndTag();
        otherwise = Block({"endif"});
      }
      CloseBlock("endif");
    }
    return [condition, then, otherwise](Environment& env) {
      const absl::StatusOr<bool> holds = condition.IsTrue(env);
      if (!holds.ok()) return holds.status();
      return RunAll(*holds ? then : otherwise, env);
    };
  }

  Statement For() {
    Loop loop;
    do {
      loop.names.push_back(reader_.ExpectName());
    } while (reader_.TakeOperator(","));
    reader_.Expect(TokenKind::kName, "in");
    loop.list = ParseCondition(reader_);
    if (reader_.TakeName("if")) loop.condition = ParseExpression(reader_);
    EndTag();
    const size_t begin = reader_.taken();
    ++loops_;
    loop.body = Block({"else", "endfor"});
    --loops_;
    loop.names_itself = reader_.HasTaken(begin, "loop");
    if (reader_.TakeName("else")) {
      EndTag();
      loop.otherwise = Block({"endfor"});
    }
    CloseBlock("endfor");
    return [loop](Environment& env) { return RunLoop(loop, env); };
  }

  Statement Set() {
    const std::string name = reader_.ExpectName();
    if (reader_.Is(TokenKind::kOperator, ",")) return SetSeveral(name);
    const std::string field = reader_.TakeOperator(".") ? reader_.ExpectName() : "";
    Expression value;
    if (reader_.TakeOperator("=")) {
      value = ParseExpression(reader_);
      if (value.is_safe()) reader_.MarkSafe(field.empty() ? name : absl::StrCat(".", field));
      EndTag();
    } else {
      EndTag();
      value = Captured(std::make_shared<const Statements>(Block({"endset"})));
      CloseBlock("endset");
    }
    return [name, field, value](Environment& env) {
      absl::StatusOr<Value> result = value(env);
      if (!result.ok()) return result.status();
      if (field.empty()) return Assign(*std::move(result), env.scopes.back()[name], env);
      for (auto scope = env.scopes.rbegin(); scope != env.scopes.rend(); ++scope) {
        const auto found = scope->find(name);
        if (found == scope->end()) continue;
        const std::optional<size_t> place = PlaceOfNamespace(found->second, env);
        if (!place) continue;
        Value& space = env.objects[*place];
        if (space.size() >= kMostFields && !space.contains(field)) {
          return absl::InvalidArgumentError("a namespace has too many fields");
        }
        return Assign(*std::move(result), space[field], env);
      }
      return absl::InvalidArgumentError(absl::StrCat("'", name, "' is no namespace"));
    };
  }

  // {% set a, b = 1, 2 %}, or one list of as many values.
  Statement SetSeveral(const std::string& first) {
    std::vector<std::string> names = {first};
    while (reader_.TakeOperator(",")) names.push_back(reader_.ExpectName());
    reader_.Expect(TokenKind::kOperator, "=");
    std::vector<Expression> values;
    do {
      values.push_back(ParseExpression(reader_));
    } while (reader_.TakeOperator(","));
    EndTag();
    for (size_t i = 0; i < names.size(); ++i) {
      if (values[std::min(i, values.size() - 1)].is_safe()) reader_.MarkSafe(names[i]);
    }
    return [names, values](Environment& env) -> absl::Status {
      Value whole = Value::array();
      for (const Expression& value : values) {
        absl::StatusOr<Value> one = values.size() == 1 ? value.Elements(env) : value(env);
        if (!one.ok()) return one.status();
        if (values.size() == 1) {
          whole = *std::move(one);
        } else {
          whole.push_back(*std::move(one));
        }
      }
      std::map<std::string, Value> made;
      if (absl::Status status = Bind(names, whole, env, &made); !status.ok()) return status;
      for (auto& [name, value] : made) {
        absl::Status status = Assign(std::move(value), env.scopes.back()[name], env);
        if (!status.ok()) return status;
      }
      return absl::OkStatus();
    };
  }

  // {% with a = 1, b = 2 %}: names of the block alone.
  Statement With() {
    std::vector<std::pair<std::string, Expression>> names;
    while (reader_.ok() && !reader_.Is(TokenKind::kEndStatement)) {
      if (!names.empty()) reader_.Expect(TokenKind::kOperator, ",");
      const std::string name = reader_.ExpectName();
      reader_.Expect(TokenKind::kOperator, "=");
      names.emplace_back(name, ParseExpression(reader_));
      if (names.back().second.is_safe()) reader_.MarkSafe(name);
    }
    EndTag();
    const Statements body = Block({"endwith"});
    CloseBlock("endwith");
    return [names, body](Environment& env) -> absl::Status {
      std::map<std::string, Value> scope;
      for (const auto& [name, expression] : names) {
        absl::StatusOr<Value> value = expression(env);
        if (!value.ok()) return value.status();
        scope[name] = *std::move(value);
      }
      return RunInScope(body, env, std::move(scope));
    };
  }

  // {% filter upper | trim %}: of what the block writes.
  Statement FilterBlock() {
    const auto block = std::make_shared<Statements>();
    const Expression filtered = ParseFilters(reader_, Captured(block));
    EndTag();
    const int around = std::exchange(loops_, 0);
    const bool before = std::exchange(has_generations_, false);
    *block = Block({"endfilter"});
    if (has_generations_) reader_.Fail("a generation inside {% filter %} is not supported");
    has_generations_ = before || has_generations_;
    loops_ = around;
    CloseBlock("endfilter");
    return [filtered](Environment& env) -> absl::Status {
      const absl::StatusOr<Value> text = filtered(env);
      if (!text.ok()) return text.status();
      if (!text->is_string()) return WrongType("the output of {% filter %}", *text);
      env.out.text += text->get_ref<const std::string&>();
      return absl::OkStatus();
    };
  }

  // What a block writes, as a value.
  static Expression Captured(const std::shared_ptr<const Statements>& block) {
    return [block](Environment& env) -> absl::StatusOr<Value> {
      Rendered outside = std::exchange(env.out, {});
      const absl::Status status = RunInScope(*block, env);
      const Rendered inside = std::exchange(env.out, std::move(outside));
      if (!status.ok()) return status;
      return Value(inside.text);
    };
  }

  Statement DefineMacro() {
    const std::string name = reader_.ExpectName();
    Macro macro;
    reader_.Expect(TokenKind::kOperator, "(");
    while (reader_.ok() && !reader_.TakeOperator(")")) {
      const std::string parameter = reader_.ExpectName();
      Expression otherwise;
      if (reader_.TakeOperator("=")) otherwise = ParseExpression(reader_);
      macro.parameters.emplace_back(parameter, otherwise);
      if (!reader_.Is(TokenKind::kOperator, ")")) reader_.Expect(TokenKind::kOperator, ",");
    }
    EndTag();
    const int around = std::exchange(loops_, 0);
    const size_t begin = reader_.taken();
    macro.body = std::make_shared<const Statements>(Block({"endmacro"}));
    loops_ = around;
    for (const char* rest : {"varargs", "kwargs"}) {
      if (reader_.HasTaken(begin, rest)) {
        reader_.Fail(absl::StrCat("'", rest, "' in a macro is not supported"));
      }
    }
    CloseBlock("endmacro");
    return [name, macro](Environment& env) {
      env.macros[name] = macro;
      env.macros[name].scopes = env.scopes.size();
      return absl::OkStatus();
    };
  }

  Statement Generation() {
    has_generations_ = true;
    EndTag();
    if (std::exchange(in_generation_, true)) reader_.Fail("a generation stands inside another one");
    const int around = std::exchange(loops_, 0);
    const Statements body = Block({"endgeneration"});
    loops_ = around;
    CloseBlock("endgeneration");
    in_generation_ = false;
    return [body](Environment& env) {
      const size_t begin = env.out.text.size();
      absl::Status status = RunInScope(body, env);
      env.out.generations.emplace_back(begin, env.out.text.size());
      return status;
    };
  }

  TokenReader reader_;
  int depth_ = 0;
  int loops_ = 0;  // around the reader's place, without those around a macro or a generation
  bool has_generations_ = false;
  bool in_generation_ = false;  // which texts it is in would be counted twice
};

}  // namespace

void TokenReader::Fail(absl::string_view what) {
  if (ok()) error_ = absl::StrCat("line ", Peek().line, ": ", what);
}

void TokenReader::Expect(TokenKind kind, absl::string_view text) {
  if (TakeIf(kind, text) || !ok()) return;
  const absl::string_view expected = kind == TokenKind::kEndStatement ? "%}"
                                     : kind == TokenKind::kEndOutput  ? "}}"
                                                                      : text;
  Fail(absl::StrCat("expected ", expected, ", found '", Peek().text, "'"));
}

std::string TokenReader::ExpectName() {
  if (Is(TokenKind::kName)) return Take().text;
  Fail(absl::StrCat("expected a name, found '", Peek().text, "'"));
  return "";
}

absl::StatusOr<Template> Template::Parse(absl::string_view text) {
  if (text.size() > kLongestTemplate) {
    return absl::InvalidArgumentError(absl::StrCat("has ", text.size(), " bytes; expected at most ",
                                                   kLongestTemplate, " of a chat template"));
  }
  const absl::StatusOr<std::vector<Token>> tokens = Tokenize(text);
  if (!tokens.ok()) return tokens.status();
  StatementParser parser(*tokens);
  Template result;
  result.statements_ = parser.ParseTemplate();
  if (!parser.error().empty()) return absl::InvalidArgumentError(parser.error());
  result.has_generations_ = parser.has_generations();
  for (const Token& token : *tokens) {
    if (token.kind == TokenKind::kName || token.kind == TokenKind::kString) {
      result.words_.insert(token.text);
    }
  }
  return result;
}

absl::StatusOr<Rendered> Template::Render(std::map<std::string, Value> variables,
                                          const RenderLimits& limits) const {
  Environment environment;
  environment.limits = limits;
  environment.scopes.push_back(std::move(variables));
  if (absl::Status status = RunAll(statements_, environment); !status.ok()) return status;
  return std::move(environment.out);
}

}  // namespace sluice::jinja
