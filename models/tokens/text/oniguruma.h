#ifndef SLUICE_MODELS_TOKENS_TEXT_ONIGURUMA_H_
#define SLUICE_MODELS_TOKENS_TEXT_ONIGURUMA_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Rewrites a regular expression of Oniguruma's Ruby syntax, in which tokenizer.json has its splits,
// as one of PCRE2's (options UTF, UCP and MULTILINE) that matches the same. InvalidArgument names a
// construct, and its place, whose meaning differs between the two and which no published tokenizer
// of the supported families has: \w, \b, \h, \R, \X, \K, back references, classes inside classes,
// intersections of classes, POSIX brackets, conditions and other special groups, {,n}, {n}?, a
// possessive {m,n}+; without regard to case letters beyond ASCII, and ss, st, ff, fi and fl, which
// are one character, too.
absl::StatusOr<std::string> TranslateOniguruma(absl::string_view pattern);

// A regular expression of PCRE2 that matches just `text`.
std::string EscapeForPcre2(absl::string_view text);

}  // namespace sluice

#endif  // SLUICE_MODELS_TOKENS_TEXT_ONIGURUMA_H_
