#ifndef SLUICE_TESTS_PIPELINE_CHECKPOINT_FORGED_CHECKPOINT_H_
#define SLUICE_TESTS_PIPELINE_CHECKPOINT_FORGED_CHECKPOINT_H_

#include <regex>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/models/data/files.h"
#include "tests/pipeline/checkpoint/signed_state.h"

// Checkpoints as an attacker may write them: the checksums match whatever is in the files, since
// anybody can compute them.
namespace sluice {

// Replaces `from`, which must be there, by `to` in a file of the checkpoint in `folder`.
inline void Forge(const std::string& folder, const std::string& file, const std::string& from,
                  const std::string& to) {
  std::string text = ReadBytes(folder + "/" + file);
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from << " is not in " << text;
  text.replace(at, from.size(), to);
  const std::string state_path = folder + "/state.json";
  if (file == "state.json") return WriteBytes(state_path, SignState(text));
  WriteBytes(folder + "/" + file, text);
  const std::regex record("\"" + file + "\": \\{[^}]*\\}");
  const std::string state = ReadBytes(state_path);
  WriteBytes(state_path, SignState(std::regex_replace(
                             state, record, absl::StrCat("\"", file, "\": ", RecordOf(text)))));
}

// A JSON text of this many lists inside each other.
inline std::string DeepJson(size_t levels = 200'000) {
  return std::string(levels, '[') + std::string(levels, ']');
}

}  // namespace sluice

#endif  // SLUICE_TESTS_PIPELINE_CHECKPOINT_FORGED_CHECKPOINT_H_
