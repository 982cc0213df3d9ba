#ifndef SLUICE_TESTS_TOOLS_TINY_RUN_H_
#define SLUICE_TESTS_TOOLS_TINY_RUN_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/models/data/files.h"

namespace sluice {

// The smallest GPT that has something on each of two stages; a step takes a millisecond or two.
constexpr char kTinyShape[] = " --layers 2 --dim 16 --heads 2 --seq 16";
constexpr char kTinyBatch[] =
    " --stages 2 --micro-batch-size 2 --micro-batches 2 --no-pin --eval-micro-batches 1";

inline void WriteText(const std::string& path) {
  std::string text;
  for (int verse = 1; verse <= 60; ++verse) {
    absl::StrAppend(&text, verse, " And the evening and the morning were day ", verse, ".\n");
  }
  WriteBytes(path, text);
}

// The arguments of a run on the text at `data`, without --steps.
inline std::string TinyTrain(const std::string& data) {
  return absl::StrCat("train --data ", data, kTinyShape, kTinyBatch);
}

}  // namespace sluice

#endif  // SLUICE_TESTS_TOOLS_TINY_RUN_H_
