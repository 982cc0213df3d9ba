#ifndef SLUICE_MODELS_DATA_DOCUMENTS_DOCUMENT_H_
#define SLUICE_MODELS_DATA_DOCUMENTS_DOCUMENT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

struct ChatMessage {
  std::string role;
  std::string content;
};

// A line of a .jsonl file.
struct Document {
  enum class Form : uint8_t { kText, kPrompt, kMessages };
  Form form = Form::kText;
  std::string text;        // of kText; the prompt of kPrompt
  std::string completion;  // of kPrompt
  std::vector<ChatMessage> messages;
};

// Reads {"text"}, {"prompt","completion"} or {"messages":[{"role","content"}]}; what else the object
// holds is not looked at, but calls of tools are refused. InvalidArgument says where ("column 7", or
// "field 'messages[2].role'"), what was found and what was expected; the caller names file and line.
absl::StatusOr<Document> ParseDocument(absl::string_view line);

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_DOCUMENTS_DOCUMENT_H_
