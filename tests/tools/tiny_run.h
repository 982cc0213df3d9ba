#ifndef SLUICE_TESTS_TOOLS_TINY_RUN_H_
#define SLUICE_TESTS_TOOLS_TINY_RUN_H_

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/models/data/files.h"

namespace sluice {

// The smallest GPT that has something on each of two stages; a step takes a millisecond or two.
// Flags in `more` stand instead of these.
inline std::string WithTinyRun(const std::string& more) {
  std::string flags = more;
  for (const std::string flag :
       {"--layers 2", "--dim 16", "--heads 2", "--seq 16", "--stages 2", "--micro-batch-size 2",
        "--micro-batches 2", "--eval-micro-batches 1", "--steps 2", "--no-pin"}) {
    const std::string name = flag.substr(0, flag.find(' '));
    if (!absl::StrContains(absl::StrCat(more, " "), name + " ")) absl::StrAppend(&flags, " ", flag);
  }
  return flags;
}

inline void WriteText(const std::string& path) {
  std::string text;
  for (int verse = 1; verse <= 60; ++verse) {
    absl::StrAppend(&text, verse, " And the evening and the morning were day ", verse, ".\n");
  }
  WriteBytes(path, text);
}

}  // namespace sluice

#endif  // SLUICE_TESTS_TOOLS_TINY_RUN_H_
