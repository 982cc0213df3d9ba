#ifndef SLUICE_MODELS_DATA_DOCUMENTS_JINJA_LEXER_H_
#define SLUICE_MODELS_DATA_DOCUMENTS_JINJA_LEXER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice::jinja {

enum class TokenKind : uint8_t {
  kText,            // between tags
  kBeginOutput,     // {{
  kEndOutput,       // }}
  kBeginStatement,  // {%
  kEndStatement,    // %}
  kName,
  kString,
  kNumber,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;  // of a string: its value
  int line = 1;
};

// The tokens of a template, at last kEnd. Each of \r\n and \r is a newline; white space and
// comments are taken away as Jinja2 does with trim_blocks and lstrip_blocks, which transformers
// sets. InvalidArgument: "line 3: ...".
absl::StatusOr<std::vector<Token>> Tokenize(absl::string_view text);

}  // namespace sluice::jinja

#endif  // SLUICE_MODELS_DATA_DOCUMENTS_JINJA_LEXER_H_
