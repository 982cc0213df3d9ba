#ifndef SLUICE_TESTS_FUZZ_PROMISES_H_
#define SLUICE_TESTS_FUZZ_PROMISES_H_

#include <cstdio>
#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/match.h"

// What the fuzzed readers have in common.
namespace sluice {

inline constexpr char kFuzzedFile[] = "fuzz.input";

inline void Require(bool kept, const char* promise) {
  if (kept) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

// "fuzz.input: field 'x' ..." or "fuzz.input:12: ...".
inline void RequireRefusal(const absl::Status& error) {
  Require(error.code() == absl::StatusCode::kInvalidArgument, "bad input is InvalidArgument");
  Require(absl::StartsWith(error.message(), kFuzzedFile), "an error names its file");
}

// A refusal with the place in the text.
inline void RequirePlace(const absl::Status& error) {
  RequireRefusal(error);
  Require(
      absl::StrContains(error.message(), "line ") && absl::StrContains(error.message(), "column "),
      "an error has a line and a column");
}

}  // namespace sluice

#endif  // SLUICE_TESTS_FUZZ_PROMISES_H_
