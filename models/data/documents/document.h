#ifndef SLUICE_MODELS_DATA_DOCUMENTS_DOCUMENT_H_
#define SLUICE_MODELS_DATA_DOCUMENTS_DOCUMENT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

struct ChatMessage {
  std::string role;
  std::string content;
  // All its fields as a chat template sees them, which are those two where this is null.
  nlohmann::ordered_json fields = nullptr;
};

bool CallsTools(const ChatMessage& message);

struct Conversation {
  std::vector<ChatMessage> messages;
  nlohmann::ordered_json tools = nullptr;  // a list of descriptions (JSON schemas), or null
};

// A line of a .jsonl file.
struct Document {
  enum class Form : uint8_t { kText, kPrompt, kMessages };
  Form form = Form::kText;
  std::string text;           // of kText; the prompt of kPrompt
  std::string completion;     // of kPrompt
  Conversation conversation;  // of kMessages
};

// Reads {"text"}, {"prompt","completion"} or {"messages":[{"role","content"}]}, the last with "tools"
// and, in the assistant's messages, "tool_calls", as the API of OpenAI and transformers have them:
// such a message needs no content. What else a message holds is for the chat template; what else
// the object holds is not looked at. InvalidArgument says where ("column 7", or
// "field 'messages[2].role'"), what was found and what was expected; the caller names file and line.
absl::StatusOr<Document> ParseDocument(absl::string_view line);

}  // namespace sluice

#endif  // SLUICE_MODELS_DATA_DOCUMENTS_DOCUMENT_H_
