#ifndef SLUICE_MODELS_DATA_DOCUMENTS_JSON_LINES_H_
#define SLUICE_MODELS_DATA_DOCUMENTS_JSON_LINES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/data/documents/document_encoder.h"
#include "models/data/documents/documents.h"

namespace sluice {

struct JsonLinesOptions {
  LossOn loss_on = LossOn::kAssistant;
  int64_t seq = 0;  // conversations and prompts are cut after that many tokens
  int threads = 1;  // that encode; the tokens do not depend on it
};

// The documents of .jsonl files, with what became of their lines.
struct JsonLines {
  Documents documents;
  int64_t lines = 0;           // that are not empty
  int64_t cut = 0;             // conversations and prompts that were longer than `seq`
  int64_t cut_tokens = 0;      // that these had behind `seq`
  int64_t without_target = 0;  // documents of which no target counts, which are left out
  int64_t without_end = 0;     // texts and completions that no word ends, as none is known

  std::vector<std::string> Notes(const std::string& path, int64_t seq) const;
};

// Reads and encodes all lines; lines of white space are passed over. InvalidArgument names the first
// line that is wrong: "FILE: line 7, field 'text' is 3; expected a text".
absl::StatusOr<JsonLines> ReadJsonLines(const std::vector<std::string>& paths,
                                        const TextFormat& format, const JsonLinesOptions& options);

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_DOCUMENTS_JSON_LINES_H_
