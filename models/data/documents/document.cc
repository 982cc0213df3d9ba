#include "models/data/documents/document.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "models/spec/json.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr JsonLimits kLimits = {.fields = 1000};  // each is looked for among those before it

constexpr char kForms[] =
    R"({"text": ...}, {"prompt": ..., "completion": ...} or {"messages": [...]})";

absl::Status FieldError(absl::string_view field, absl::string_view found,
                        absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("field '", field, "' ", found, "; expected ", expected));
}

// Copies the text of field `name`; `around` is what stands in front of its name.
absl::Status CopyText(const Json& object, const std::string& name, absl::string_view around,
                      std::string* text) {
  const auto field = object.find(name);
  const std::string full = absl::StrCat(around, name);
  if (field == object.end()) return FieldError(full, "is missing", "a text");
  if (!field->is_string()) return FieldError(full, absl::StrCat("is ", ShowJson(*field)), "a text");
  *text = field->get_ref<const std::string&>();
  return absl::OkStatus();
}

// Tables, whose rows have all columns, write what is not there as null, or empty.
bool IsGiven(const Json& object, const char* name) {
  const auto field = object.find(name);
  return field != object.end() && !field->empty();
}

absl::Status Refuse(const Json& object, absl::string_view around,
                    absl::Span<const char* const> names, absl::string_view expected) {
  for (const char* name : names) {
    if (!IsGiven(object, name)) continue;
    return FieldError(absl::StrCat(around, name), absl::StrCat("is ", ShowJson(object.at(name))),
                      expected);
  }
  return absl::OkStatus();
}

// As OpenAI's API had them before there were tools; no template knows them.
absl::Status RefuseFunctions(const Json& object, absl::string_view around) {
  return Refuse(object, around, {"function_call", "functions"},
                "'tools' and 'tool_calls', which took the place of functions");
}

// {"function": {"name": ...}}, or what is in it alone.
bool IsToolCall(const Json& call) {
  if (!call.is_object()) return false;
  const Json& function = call.contains("function") ? call.at("function") : call;
  return function.is_object() && function.contains("name") && function.at("name").is_string();
}

absl::Status CheckToolCalls(const Json& message, absl::string_view around) {
  if (!IsGiven(message, "tool_calls")) return absl::OkStatus();
  const Json& calls = message.at("tool_calls");
  if (calls.is_array() && std::all_of(calls.begin(), calls.end(), IsToolCall)) {
    return absl::OkStatus();
  }
  return FieldError(absl::StrCat(around, "tool_calls"), absl::StrCat("is ", ShowJson(calls)),
                    R"(a list of {"function": {"name": ..., "arguments": ...}})");
}

absl::Status TakeMessage(Json& json, absl::string_view around, ChatMessage* message) {
  absl::Status status = RefuseFunctions(json, around);
  if (status.ok()) status = CheckToolCalls(json, around);
  if (status.ok()) status = CopyText(json, "role", around, &message->role);
  if (!status.ok()) return status;
  // A call of tools may be all that the assistant says.
  const auto content = json.find("content");
  const bool is_silent = content == json.end() || content->is_null();
  if (!is_silent || !IsGiven(json, "tool_calls")) {
    status = CopyText(json, "content", around, &message->content);
    if (!status.ok()) return status;
  }
  message->fields = std::move(json);
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
    absl::Status status = TakeMessage(list[i], absl::StrCat(name, "."), &messages->emplace_back());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// A list, or the text of one: tables whose columns have types keep it so.
absl::Status TakeTools(Json& object, Json* tools) {
  const auto field = object.find("tools");
  if (field == object.end() || field->is_null()) return absl::OkStatus();
  Json list = std::move(*field);
  if (list.is_string()) {
    absl::StatusOr<Json> parsed = ParseOrderedJson(list.get_ref<const std::string&>(), kLimits);
    if (parsed.ok()) list = *std::move(parsed);
  }
  const auto is_object = [](const Json& tool) { return tool.is_object(); };
  if (!list.is_array() || !std::all_of(list.begin(), list.end(), is_object)) {
    return FieldError("tools", absl::StrCat("is ", ShowJson(list)),
                      "a list of objects that describe tools");
  }
  *tools = std::move(list);
  return absl::OkStatus();
}

// Whether a number is so large that it may have been a whole one that was rounded.
bool HasVastNumber(const Json& value) {
  constexpr double kVast = 9.2e18;
  if (value.is_number_float()) return std::abs(value.get<double>()) > kVast;
  return value.is_structured() && std::any_of(value.begin(), value.end(), HasVastNumber);
}

// Of "text", "prompt" and so on those that a line has: "'prompt' and 'messages'".
std::string FormsOf(const Json& document) {
  std::vector<std::string> fields;
  for (const char* field : {"text", "prompt", "completion", "messages"}) {
    if (document.contains(field)) fields.push_back(absl::StrCat("'", field, "'"));
  }
  return absl::StrJoin(fields, " and ");
}

}  // namespace

bool CallsTools(const ChatMessage& message) { return IsGiven(message.fields, "tool_calls"); }

absl::StatusOr<Document> ParseDocument(absl::string_view line) {
  absl::StatusOr<Json> json = ParseOrderedJson(line, kLimits);
  if (!json.ok()) {
    absl::string_view why = json.status().message();
    absl::ConsumePrefix(&why, "line 1, ");  // the caller says which line of the file it is
    return absl::InvalidArgumentError(absl::StrCat(why, "; expected ", kForms));
  }
  if (!json->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat("is ", ShowJson(*json), "; expected ", kForms));
  }
  const bool has_other = json->contains("text") || json->contains("messages");
  // Data sets of conversations often name the first message's text, too.
  const bool has_prompt = json->contains("completion") || (json->contains("prompt") && !has_other);
  const int forms = (json->contains("text") ? 1 : 0) + (has_prompt ? 1 : 0) +
                    (json->contains("messages") ? 1 : 0);
  if (forms > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("is ", ShowJson(*json), ", which has several forms: ", FormsOf(*json),
                     "; expected one of ", kForms, "; leave out the fields of the others"));
  }
  if (forms == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "is ", ShowJson(*json), ", which has none of these fields; expected ", kForms));
  }
  // A template would write it otherwise than it is given.
  if (json->contains("messages") && HasVastNumber(*json)) {
    JsonLimits exact = kLimits;
    exact.whole_numbers_fit = true;
    if (const auto again = ParseOrderedJson(line, exact); !again.ok()) {
      absl::string_view why = again.status().message();
      absl::ConsumePrefix(&why, "line 1, ");
      return absl::InvalidArgumentError(why);
    }
  }
  Document document;
  absl::Status status = RefuseFunctions(*json, "");
  if (status.ok() && !json->contains("messages")) {
    status = Refuse(*json, "", {"tools"}, "no tools beside a text: they belong to messages");
  }
  if (status.ok() && json->contains("text")) {
    status = CopyText(*json, "text", "", &document.text);
  } else if (status.ok() && has_prompt) {
    document.form = Document::Form::kPrompt;
    status = CopyText(*json, "prompt", "", &document.text);
    if (status.ok()) status = CopyText(*json, "completion", "", &document.completion);
  } else if (status.ok()) {
    document.form = Document::Form::kMessages;
    status = TakeMessages(json->at("messages"), &document.conversation.messages);
    if (status.ok()) status = TakeTools(*json, &document.conversation.tools);
  }
  if (!status.ok()) return status;
  return document;
}

}  // namespace sluice
