#include "models/data/documents/chat_template.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "models/data/documents/jinja/template.h"

namespace sluice {
namespace {

using jinja::Rendered;
using jinja::Value;

// A range of bytes of a rendered conversation that counts.
using Range = std::pair<size_t, size_t>;

// The names that a message's reasoning has: transformers takes the first of them that is given.
constexpr const char* kReasoningFields[] = {"reasoning_content", "thinking", "reasoning"};

// What a template is given of a message, as transformers writes it: without the fields that are
// null, and with its reasoning under the names that templates read, whichever of them it has.
Value FieldsOf(const ChatMessage& message) {
  if (message.fields.is_null()) return {{"role", message.role}, {"content", message.content}};
  Value fields = Value::object();
  const Value* reasoning = nullptr;
  for (const char* name : kReasoningFields) {
    const auto field = message.fields.find(name);
    if (reasoning != nullptr || field == message.fields.end() || field->is_null()) continue;
    reasoning = &*field;
  }
  if (reasoning != nullptr) fields["thinking"] = *reasoning;
  for (const auto& [name, value] : message.fields.items()) {
    if (!value.is_null()) fields[name] = value;
  }
  if (reasoning != nullptr) fields["reasoning_content"] = *reasoning;
  return fields;
}

class Chat {
 public:
  Chat(jinja::Template chat_template, std::string name, SpecialWords words,
       const jinja::RenderLimits& limits)
      : template_(std::move(chat_template)),
        name_(std::move(name)),
        words_(std::move(words)),
        limits_(limits) {}

  absl::StatusOr<std::vector<ChatPiece>> Render(const Conversation& conversation,
                                                LossOn loss_on) const {
    if (absl::Status status = CheckTools(conversation); !status.ok()) return status;
    absl::StatusOr<Rendered> rendered = RenderAll(conversation, false);
    if (!rendered.ok()) return rendered.status();
    std::vector<Range> ranges = std::move(rendered->generations);
    if (loss_on == LossOn::kAll) {
      ranges = {{0, rendered->text.size()}};
    } else if (!template_.has_generations()) {
      absl::StatusOr<std::vector<Range>> turns = Turns(conversation, rendered->text);
      if (!turns.ok()) return turns.status();
      ranges = *std::move(turns);
    }
    return Pieces(rendered->text, ranges);
  }

  absl::StatusOr<std::string> RenderPrompt(const Conversation& conversation) const {
    if (absl::Status status = CheckTools(conversation); !status.ok()) return status;
    absl::StatusOr<Rendered> rendered = RenderAll(conversation, true);
    if (!rendered.ok()) return rendered.status();
    return std::move(rendered->text);
  }

 private:
  // A template that knows no tools would leave them out.
  absl::Status CheckTools(const Conversation& conversation) const {
    const bool has_tools = conversation.tools.is_array() && !conversation.tools.empty();
    if (has_tools && !template_.Mentions("tools")) {
      return DoesNotWrite("'tools', which are given");
    }
    const std::vector<ChatMessage>& messages = conversation.messages;
    const auto call = std::find_if(messages.begin(), messages.end(), CallsTools);
    if (call == messages.end() || template_.Mentions("tool_calls")) return absl::OkStatus();
    return DoesNotWrite(
        absl::StrCat("'tool_calls', which message ", call - messages.begin(), " has"));
  }

  absl::Status DoesNotWrite(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ", chat template, does not write ", what,
                     "; give one that does with --chat-template FILE"));
  }

  absl::StatusOr<Rendered> RenderAll(const Conversation& conversation, bool prompt) const {
    return RenderFirst(conversation, conversation.messages.size(), prompt);
  }

  // The first `count` messages.
  absl::StatusOr<Rendered> RenderFirst(const Conversation& conversation, size_t count,
                                       bool prompt) const {
    Value list = Value::array();
    for (size_t i = 0; i < count; ++i) list.push_back(FieldsOf(conversation.messages[i]));
    std::map<std::string, Value> variables = {{"bos_token", ""}, {"eos_token", ""}};
    for (const auto& [token, word] : words_) variables[token] = word;
    variables["messages"] = std::move(list);
    variables["tools"] = conversation.tools;
    variables["documents"] = Value();
    variables["add_generation_prompt"] = prompt;
    absl::StatusOr<Rendered> rendered = template_.Render(std::move(variables), limits_);
    if (rendered.ok()) return rendered;
    return absl::Status(rendered.status().code(),
                        absl::StrCat(name_, ", chat template, ", rendered.status().message()));
  }

  // What the template writes behind the assistant's words to end its turn, without the white space
  // that follows.
  absl::StatusOr<std::string> TurnEnd() const {
    const std::string words = "sluiceprobe";
    const absl::StatusOr<Rendered> probe =
        RenderAll({.messages = {{"user", "x"}, {"assistant", words}}}, false);
    if (!probe.ok()) return probe.status();
    const size_t at = probe->text.rfind(words);
    if (at == std::string::npos) return "";
    return std::string(absl::StripTrailingAsciiWhitespace(
        absl::string_view(probe->text).substr(at + words.size())));
  }

  absl::Status CannotTell(std::ptrdiff_t message, absl::string_view why) const {
    return absl::InvalidArgumentError(absl::StrCat(
        name_, ", chat template: cannot tell which text is message ", message, ", as ", why,
        "; mark the assistant's text by {% generation %} and {% endgeneration %} in a copy of the "
        "template, and give that with --chat-template, or train with --loss-on all"));
  }
  // `what` of the assistant's message is an error, where the conversation itself is none.
  absl::Status CannotTell(std::ptrdiff_t message, absl::string_view what,
                          const absl::Status& status) const {
    absl::string_view why = status.message();
    absl::ConsumePrefix(&why, absl::StrCat(name_, ", chat template, "));
    return CannotTell(message, absl::StrCat(what, " cannot be written (", why, ")"));
  }

  // Of each of the assistant's turns: from the end of the prompt for it to the end of the turn.
  absl::StatusOr<std::vector<Range>> Turns(const Conversation& conversation,
                                           const std::string& text) const {
    const std::vector<ChatMessage>& messages = conversation.messages;
    const auto is_turn = [](const ChatMessage& message) { return message.role == "assistant"; };
    const auto first = std::find_if(messages.begin(), messages.end(), is_turn);
    if (first == messages.end()) return std::vector<Range>();
    const absl::StatusOr<std::string> turn_end = TurnEnd();
    if (!turn_end.ok()) {
      return CannotTell(first - messages.begin(), "the short conversation that shows how turns end",
                        turn_end.status());
    }
    std::vector<Range> turns;
    for (size_t i = 0; i < messages.size(); ++i) {
      if (!is_turn(messages[i])) continue;
      const absl::StatusOr<Rendered> prompt = RenderFirst(conversation, i, true);
      const auto message = static_cast<std::ptrdiff_t>(i);
      if (!prompt.ok()) return CannotTell(message, "the prompt for it", prompt.status());
      const std::string words = jinja::TextOf(
          jinja::Filter("trim", messages[i].content, {}).value_or(messages[i].content));
      const size_t begin = prompt->text.size();
      const size_t at = text.find(words, begin);
      size_t behind = at == std::string::npos ? at : at + words.size();
      // Llama's templates write no words beside a call of tools; another turn may have them.
      if (CallsTools(messages[i]) && at >= text.find(*turn_end, begin)) behind = begin;
      const size_t end = behind == std::string::npos ? behind : text.find(*turn_end, behind);
      const bool is_behind_last = turns.empty() || begin >= turns.back().second;
      if (!absl::StartsWith(text, prompt->text) || end == std::string::npos || !is_behind_last) {
        return CannotTell(message, "the template writes it in another way in front of others");
      }
      turns.emplace_back(begin, end + turn_end->size());
    }
    return turns;
  }

  static std::vector<ChatPiece> Pieces(const std::string& text, const std::vector<Range>& ranges) {
    std::vector<ChatPiece> pieces;
    size_t at = 0;
    for (const auto& [begin, end] : ranges) {
      if (begin > at) pieces.push_back({text.substr(at, begin - at), false});
      if (end > begin) pieces.push_back({text.substr(begin, end - begin), true});
      at = end;
    }
    if (at < text.size()) pieces.push_back({text.substr(at), false});
    return pieces;
  }

  const jinja::Template template_;
  const std::string name_;
  const SpecialWords words_;
  const jinja::RenderLimits limits_;
};

}  // namespace

absl::StatusOr<ChatTemplate> ParseChatTemplate(absl::string_view text, const std::string& name,
                                               const SpecialWords& words,
                                               const jinja::RenderLimits& limits) {
  absl::StatusOr<jinja::Template> parsed = jinja::Template::Parse(text);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ", chat template, ", parsed.status().message()));
  }
  const auto chat = std::make_shared<const Chat>(*std::move(parsed), name, words, limits);
  return ChatTemplate{
      .chat = [chat](const Conversation& conversation,
                     LossOn loss_on) { return chat->Render(conversation, loss_on); },
      .prompt =
          [chat](const Conversation& conversation) { return chat->RenderPrompt(conversation); }};
}

}  // namespace sluice
