#ifndef SLUICE_TESTS_TOOLS_TINY_RUN_H_
#define SLUICE_TESTS_TOOLS_TINY_RUN_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/models/data/files.h"

namespace sluice {

// The smallest GPT that has parameters on each of two stages; a step takes one or two milliseconds.
// Flags in `more` replace these.
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

// The summary of a run with --json, which is its last line; null where it printed nothing, discarded
// where that is no JSON.
inline nlohmann::json LastLine(const std::string& out) {
  const std::vector<std::string> lines = absl::StrSplit(out, '\n', absl::SkipEmpty());
  return lines.empty() ? nlohmann::json() : nlohmann::json::parse(lines.back(), nullptr, false);
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
