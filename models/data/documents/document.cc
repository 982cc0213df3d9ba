#include "models/data/documents/document.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "models/spec/json.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr char kForms[] =
    R"({"text": ...}, {"prompt": ..., "completion": ...} or {"messages": [...]})";

absl::Status FieldError(absl::string_view field, absl::string_view found,
                        absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("field '", field, "' ", found, "; expected ", expected));
}

// Moves the text of field `name` to `*text`; `around` is what stands in front of its name.
absl::Status TakeText(Json& object, const std::string& name, absl::string_view around,
                      std::string* text) {
  const auto field = object.find(name);
  const std::string full = absl::StrCat(around, name);
  if (field == object.end()) return FieldError(full, "is missing", "a text");
  if (!field->is_string()) return FieldError(full, absl::StrCat("is ", ShowJson(*field)), "a text");
  *text = std::move(field->get_ref<std::string&>());
  return absl::OkStatus();
}

absl::Status RefuseTools(const Json& object, absl::string_view around) {
  for (const char* name : {"tools", "tool_calls", "tool_call_id", "function_call", "functions"}) {
    const auto field = object.find(name);
    if (field == object.end() || field->is_null() || field->empty()) continue;
    return FieldError(absl::StrCat(around, name), absl::StrCat("is ", ShowJson(*field)),
                      "no calls of tools, which are not supported");
  }
  return absl::OkStatus();
}

absl::Status TakeMessages(Json& list, std::vector<ChatMessage>* messages) {
  if (!list.is_array() || list.empty()) {
    return FieldError("messages", absl::StrCat("is ", ShowJson(list)),
                      R"(a list of {"role": ..., "content": ...})");
  }
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string name = absl::StrCat("messages[", i, "]");
    if (!list[i].is_object()) {
      return FieldError(name, absl::StrCat("is ", ShowJson(list[i])),
                        R"({"role": ..., "content": ...})");
    }
    const std::string around = absl::StrCat(name, ".");
    ChatMessage& message = messages->emplace_back();
    absl::Status status = RefuseTools(list[i], around);
    if (status.ok()) status = TakeText(list[i], "role", around, &message.role);
    if (status.ok()) status = TakeText(list[i], "content", around, &message.content);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Document> ParseDocument(absl::string_view line) {
  absl::StatusOr<Json> json = ParseJson(line);
  if (!json.ok()) {
    absl::string_view why = json.status().message();
    absl::ConsumePrefix(&why, "line 1, ");  // the caller says which line of the file it is
    return absl::InvalidArgumentError(absl::StrCat(why, "; expected ", kForms));
  }
  if (!json->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat("is ", ShowJson(*json), "; expected ", kForms));
  }
  const bool has_prompt = json->contains("prompt") || json->contains("completion");
  const int forms = (json->contains("text") ? 1 : 0) + (has_prompt ? 1 : 0) +
                    (json->contains("messages") ? 1 : 0);
  if (forms != 1) {
    return absl::InvalidArgumentError(absl::StrCat("is ", ShowJson(*json), ", which has ",
                                                   forms == 0 ? "none" : "several",
                                                   " of these fields; expected ", kForms));
  }
  Document document;
  absl::Status status = RefuseTools(*json, "");
  if (status.ok() && json->contains("text")) {
    status = TakeText(*json, "text", "", &document.text);
  } else if (status.ok() && has_prompt) {
    document.form = Document::Form::kPrompt;
    status = TakeText(*json, "prompt", "", &document.text);
    if (status.ok()) status = TakeText(*json, "completion", "", &document.completion);
  } else if (status.ok()) {
    document.form = Document::Form::kMessages;
    status = TakeMessages(json->at("messages"), &document.messages);
  }
  if (!status.ok()) return status;
  return document;
}

}  // namespace sluice
