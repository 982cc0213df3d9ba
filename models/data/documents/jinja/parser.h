#ifndef SLUICE_MODELS_DATA_DOCUMENTS_JINJA_PARSER_H_
#define SLUICE_MODELS_DATA_DOCUMENTS_JINJA_PARSER_H_

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/data/documents/jinja/environment.h"
#include "models/data/documents/jinja/lexer.h"

namespace sluice::jinja {

// Reads tokens one after another, and keeps the first error: after it, `ok()` is false and what is
// returned means nothing.
class TokenReader {
 public:
  explicit TokenReader(const std::vector<Token>& tokens) : tokens_(tokens) {}

  const Token& Peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  bool Is(TokenKind kind, absl::string_view text = "") const {
    return ok() && Peek().kind == kind && (text.empty() || Peek().text == text);
  }
  // How many tokens were taken, and whether one of those from `begin` on is this name.
  size_t taken() const { return at_; }
  bool HasTaken(size_t begin, absl::string_view name) const {
    return std::any_of(tokens_.begin() + static_cast<std::ptrdiff_t>(begin),
                       tokens_.begin() + static_cast<std::ptrdiff_t>(at_), [&](const Token& token) {
                         return token.kind == TokenKind::kName && token.text == name;
                       });
  }
  Token Take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  bool TakeIf(TokenKind kind, absl::string_view text = "") {
    if (!Is(kind, text)) return false;
    Take();
    return true;
  }
  bool TakeOperator(absl::string_view text) { return TakeIf(TokenKind::kOperator, text); }
  bool TakeName(absl::string_view text) { return TakeIf(TokenKind::kName, text); }
  // Names, and a namespace's ".field", that were set to what the filter `safe` gives.
  void MarkSafe(const std::string& name) { safe_names_.insert(name); }
  bool IsSafe(const std::string& name) const { return safe_names_.contains(name); }
  void Expect(TokenKind kind, absl::string_view text = "");
  std::string ExpectName();
  void Fail(absl::string_view what);
  bool ok() const { return error_.empty(); }
  const std::string& error() const { return error_; }

 private:
  const std::vector<Token>& tokens_;
  size_t at_ = 0;
  std::string error_;
  std::set<std::string> safe_names_;
};

// An expression from the reader's place on.
Expression ParseExpression(TokenReader& reader);
// The same without `if ... else` behind it, as the list of a loop is.
Expression ParseCondition(TokenReader& reader);

// What the filters from the reader's place on, "upper | trim", give of `value`.
Expression ParseFilters(TokenReader& reader, Expression value);

}  // namespace sluice::jinja

#endif  // SLUICE_MODELS_DATA_DOCUMENTS_JINJA_PARSER_H_
