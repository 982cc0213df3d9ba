#include "models/tokens/text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "models/tokens/text/oniguruma.h"
#include "models/tokens/text/unicode.h"

namespace sluice {
namespace {

constexpr size_t kJitStackBytes = size_t{8} << 20;  // the most; it grows from the first number on
constexpr size_t kJitStackStart = size_t{32} << 10;

struct FreeContext {
  void operator()(pcre2_compile_context* context) const { pcre2_compile_context_free(context); }
};
struct FreeMatchData {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeMatchContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
struct FreeStack {
  void operator()(pcre2_jit_stack* stack) const { pcre2_jit_stack_free(stack); }
};

PCRE2_SPTR Units(absl::string_view text) {
  // A null pointer is an error to PCRE2 even where the length is 0.
  return reinterpret_cast<PCRE2_SPTR>(text.empty() ? "" : text.data());
}

std::string Message(int code) {
  unsigned char text[256];
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

// What searches need beside a pattern; one per thread, since many of the texts are short.
struct Search {
  const std::unique_ptr<pcre2_match_data, FreeMatchData> data;
  const std::unique_ptr<pcre2_match_context, FreeMatchContext> context;
  const std::unique_ptr<pcre2_jit_stack, FreeStack> stack;

  Search()
      : data(pcre2_match_data_create(1, nullptr)),  // of the match alone, not of its groups
        context(pcre2_match_context_create(nullptr)),
        stack(pcre2_jit_stack_create(kJitStackStart, kJitStackBytes, nullptr)) {
    if (data == nullptr || context == nullptr || stack == nullptr) throw std::bad_alloc();
    pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  }
};

}  // namespace

struct Pattern::Compiled {
  struct Free {
    void operator()(pcre2_code* compiled) const { pcre2_code_free(compiled); }
  };
  std::unique_ptr<pcre2_code, Free> code;
  std::string shown;  // in messages
};

Pattern::Pattern(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
Pattern::Pattern(Pattern&&) noexcept = default;
Pattern& Pattern::operator=(Pattern&&) noexcept = default;
Pattern::~Pattern() = default;

absl::StatusOr<Pattern> Pattern::Compile(const PatternText& text) {
  absl::StatusOr<std::string> pcre2 = EscapeForPcre2(text.text);
  if (text.is_regex) pcre2 = TranslateOniguruma(text.text);
  if (!pcre2.ok()) return pcre2.status();
  const std::unique_ptr<pcre2_compile_context, FreeContext> context(
      pcre2_compile_context_create(nullptr));
  if (context == nullptr) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto compiled = std::make_unique<Compiled>();
  compiled->shown = absl::CHexEscape(text.text);
  compiled->code.reset(pcre2_compile(Units(*pcre2), pcre2->size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &offset,
                                     context.get()));
  if (compiled->code == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("the regular expression ", compiled->shown,
                                                   " cannot be compiled: ", Message(error)));
  }
  // Without the JIT compiler, or on a machine that it does not know, PCRE2 interprets the pattern.
  pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE);
  return Pattern(std::move(compiled));
}

absl::Status Pattern::FindAll(absl::string_view text, std::vector<Part>* parts) const {
  parts->clear();
  if (text.empty()) {
    parts->push_back({0, 0, false});
    return absl::OkStatus();
  }
  std::string stand_ins;
  const absl::string_view searched =
      ReplaceLaterCharacters(text, &stand_ins) ? absl::string_view(stand_ins) : text;
  thread_local const Search search;
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(search.data.get());
  size_t from = 0;  // where the next search starts
  size_t end = 0;   // of the last match
  bool any = false;
  while (from <= searched.size()) {
    const auto match = [&](uint32_t options) {
      return pcre2_match(compiled_->code.get(), Units(searched), searched.size(), from,
                         PCRE2_NO_UTF_CHECK | options, search.data.get(), search.context.get());
    };
    int result = match(0);
    // The interpreter keeps on the heap what machine code keeps on a stack.
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      return absl::ResourceExhaustedError(absl::StrCat("the regular expression ", compiled_->shown,
                                                       " gives up at byte ", from,
                                                       " of a text: ", Message(result)));
    }
    if (found[0] == found[1] && any && found[1] == end) {
      if (from == searched.size()) break;
      NextCodePoint(searched, &from);
      continue;
    }
    if (end != found[0]) parts->push_back({end, found[0], false});
    parts->push_back({found[0], found[1], true});
    from = end = found[1];
    any = true;
  }
  if (end != text.size()) parts->push_back({end, text.size(), false});
  return absl::OkStatus();
}

}  // namespace sluice
