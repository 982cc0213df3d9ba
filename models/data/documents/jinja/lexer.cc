#include "models/data/documents/jinja/lexer.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "models/data/documents/jinja/builtins.h"

namespace sluice::jinja {
namespace {

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
}

class Lexer {
 public:
  explicit Lexer(std::string text) : whole_(std::move(text)), text_(whole_) {
    absl::ConsumeSuffix(&text_, "\n");  // keep_trailing_newline is off
  }

  absl::StatusOr<std::vector<Token>> Run() {
    while (at_ < text_.size()) {
      const size_t tag = NextTag();
      TakeText(tag);
      if (at_ == text_.size()) break;
      absl::Status status = text_[at_ + 1] == '#' ? SkipComment() : TakeTag();
      if (!status.ok()) return status;
    }
    Add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  size_t NextTag() const {
    for (size_t at = at_; (at = text_.find('{', at)) != absl::string_view::npos; ++at) {
      if (at + 1 < text_.size() && absl::StrContains("{%#", text_[at + 1])) return at;
    }
    return text_.size();
  }

  // Up to `end`, where a tag begins or the template ends.
  void TakeText(size_t end) {
    absl::string_view text = text_.substr(at_, end - at_);
    const bool line_begins = at_ == 0 || text_[at_ - 1] == '\n';
    if (strip_) text = StripSpaces(text, true, false);
    const char mark = end + 2 < text_.size() ? text_[end + 2] : ' ';
    if (end < text_.size() && mark == '-') {
      text = StripSpaces(text, false, true);
    } else if (end < text_.size() && text_[end + 1] != '{' && mark != '+') {
      const size_t newline = text.rfind('\n');
      const size_t line = newline == absl::string_view::npos ? 0 : newline + 1;
      const bool is_blank = StripSpaces(text.substr(line), true, false).empty();
      if (is_blank && (line > 0 || line_begins)) text = text.substr(0, line);
    }
    if (!text.empty()) Add(TokenKind::kText, std::string(text));
    Advance(end);
  }

  absl::Status SkipComment() {
    const size_t marked = at_ + 2;  // what stands here is of the beginning: {#-#} ends with no '-'
    const bool has_mark = marked < text_.size() && absl::StrContains("-+", text_[marked]);
    const size_t begin = marked + (has_mark ? 1 : 0);
    const size_t end = text_.find("#}", begin);
    if (end == absl::string_view::npos) return Error("a comment has no #}");
    const char mark = end > begin ? text_[end - 1] : ' ';
    Advance(end + 2);
    AfterTag(/*strip=*/mark == '-', /*trims=*/mark != '+');
    return absl::OkStatus();
  }

  // What follows the end of a tag: a '-' takes all white space away, a statement's end one newline.
  void AfterTag(bool strip, bool trims) {
    strip_ = strip;
    if (!strip && trims && at_ < text_.size() && text_[at_] == '\n') Advance(at_ + 1);
  }

  absl::Status TakeTag() {
    const bool output = text_[at_ + 1] == '{';
    const absl::string_view close = output ? "}}" : "%}";
    Add(output ? TokenKind::kBeginOutput : TokenKind::kBeginStatement, "");
    Advance(at_ + 2);
    if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) Advance(at_ + 1);
    int open = 0;  // braces of a dictionary
    while (true) {
      while (at_ < text_.size() && absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) {
        Advance(at_ + 1);
      }
      if (at_ == text_.size()) return Error(absl::StrCat("a tag has no ", close));
      const absl::string_view rest = text_.substr(at_);
      const bool dash = rest[0] == '-' && absl::StartsWith(rest.substr(1), close);
      if (open == 0 && (dash || absl::StartsWith(rest, close))) {
        Add(output ? TokenKind::kEndOutput : TokenKind::kEndStatement, "");
        Advance(at_ + (dash ? 3 : 2));
        AfterTag(dash, !output);
        return absl::OkStatus();
      }
      if (rest[0] == '{') ++open;
      if (rest[0] == '}') --open;
      if (absl::Status status = TakeToken(rest); !status.ok()) return status;
    }
  }

  absl::Status TakeToken(absl::string_view rest) {
    if (rest[0] == '\'' || rest[0] == '"') return TakeString(rest);
    if (IsNameCharacter(rest[0])) {
      const bool is_place = !tokens_.empty() && tokens_.back().text == ".";
      const auto* end = std::find_if_not(rest.begin(), rest.end(), IsNameCharacter);
      const bool number = absl::ascii_isdigit(static_cast<unsigned char>(rest[0]));
      const bool has_fraction = number && !is_place && rest.end() - end > 1 && *end == '.' &&
                                absl::ascii_isdigit(static_cast<unsigned char>(end[1]));
      if (has_fraction) end = std::find_if_not(end + 1, rest.end(), IsNameCharacter);
      const std::string word(rest.begin(), end);
      Add(number ? TokenKind::kNumber : TokenKind::kName, word);
      Advance(at_ + word.size());
      return absl::OkStatus();
    }
    for (const absl::string_view op :
         {"==", "!=", "<=", ">=", "//", "+", "-", "*", "/", "%", "~", "|",
          ".",  ",",  ":",  "(",  ")",  "[", "]", "{", "}", "=", "<", ">"}) {
      if (!absl::StartsWith(rest, op)) continue;
      Add(TokenKind::kOperator, std::string(op));
      Advance(at_ + op.size());
      return absl::OkStatus();
    }
    return Error(absl::StrCat("unexpected character '", absl::CHexEscape(rest.substr(0, 1)), "'"));
  }

  absl::Status TakeString(absl::string_view rest) {
    std::string value;
    size_t i = 1;
    for (; i < rest.size() && rest[i] != rest[0]; ++i) {
      if (rest[i] != '\\' || i + 1 == rest.size()) {
        value += rest[i];
        continue;
      }
      const char escaped = rest[++i];
      constexpr absl::string_view kFrom = "ntr\\'\"";
      constexpr absl::string_view kTo = "\n\t\r\\'\"";
      const size_t which = kFrom.find(escaped);
      if (which == absl::string_view::npos) {
        return Error(absl::StrCat("the escape \\", absl::CHexEscape(rest.substr(i, 1)),
                                  " in a string is not supported"));
      }
      value += kTo[which];
    }
    if (i == rest.size()) return Error("a string has no end");
    Add(TokenKind::kString, std::move(value));
    Advance(at_ + i + 1);
    return absl::OkStatus();
  }

  void Add(TokenKind kind, std::string text) {
    tokens_.push_back({.kind = kind, .text = std::move(text), .line = line_});
  }
  void Advance(size_t to) {
    line_ += static_cast<int>(std::count(text_.begin() + at_, text_.begin() + to, '\n'));
    at_ = to;
  }
  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("line ", line_, ": ", what));
  }

  const std::string whole_;
  absl::string_view text_;
  size_t at_ = 0;
  int line_ = 1;
  bool strip_ = false;  // the tag before ended with '-'
  std::vector<Token> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(absl::string_view text) {
  return Lexer(absl::StrReplaceAll(text, {{"\r\n", "\n"}, {"\r", "\n"}})).Run();
}

}  // namespace sluice::jinja
