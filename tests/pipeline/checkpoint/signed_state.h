#ifndef SLUICE_TESTS_PIPELINE_CHECKPOINT_SIGNED_STATE_H_
#define SLUICE_TESTS_PIPELINE_CHECKPOINT_SIGNED_STATE_H_

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "models/files/file_writer.h"

// The checksums in state.json, which anybody can compute, so they are no protection against an
// attacker.
namespace sluice {

// The entry of state.json for a file with these bytes.
inline std::string RecordOf(const std::string& bytes) {
  return absl::StrCat("{\"bytes\": ", bytes.size(), ", \"xxh3_128\": \"",
                      Checksum(bytes.data(), bytes.size()), "\"}");
}

// Gives a state.json the checksum that it should have; a text that does not end like one is left as
// it is.
inline std::string SignState(std::string text) {
  constexpr size_t kDigits = 32;
  const std::string end = "\"\n}\n";
  if (!absl::EndsWith(text, end) || text.size() < end.size() + kDigits) return text;
  const size_t digits = text.size() - end.size() - kDigits;
  text.replace(digits, kDigits, std::string(kDigits, '0'));
  return text.replace(digits, kDigits, Checksum(text.data(), text.size()));
}

}  // namespace sluice

#endif  // SLUICE_TESTS_PIPELINE_CHECKPOINT_SIGNED_STATE_H_
