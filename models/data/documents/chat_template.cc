#include "models/data/documents/chat_template.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "models/data/documents/jinja/template.h"

namespace sluice {
namespace {

using jinja::Rendered;
using jinja::Value;

// A range of bytes of a rendered conversation that counts.
using Range = std::pair<size_t, size_t>;

class Chat {
 public:
  Chat(jinja::Template chat_template, std::string name, SpecialWords words)
      : template_(std::move(chat_template)), name_(std::move(name)), words_(std::move(words)) {}

  absl::StatusOr<std::vector<ChatPiece>> Render(const std::vector<ChatMessage>& messages) const {
    absl::StatusOr<Rendered> rendered = RenderFirst(messages, messages.size(), false);
    if (!rendered.ok()) return rendered.status();
    std::vector<Range> ranges = std::move(rendered->generations);
    if (!template_.has_generations()) {
      absl::StatusOr<std::vector<Range>> turns = Turns(messages, rendered->text);
      if (!turns.ok()) return turns.status();
      ranges = *std::move(turns);
    }
    return Pieces(rendered->text, ranges);
  }

  absl::StatusOr<std::string> RenderPrompt(const std::vector<ChatMessage>& messages) const {
    absl::StatusOr<Rendered> rendered = RenderFirst(messages, messages.size(), true);
    if (!rendered.ok()) return rendered.status();
    return std::move(rendered->text);
  }

 private:
  // The first `count` messages.
  absl::StatusOr<Rendered> RenderFirst(const std::vector<ChatMessage>& messages, size_t count,
                                       bool prompt) const {
    Value list = Value::array();
    for (size_t i = 0; i < count; ++i) {
      list.push_back({{"role", messages[i].role}, {"content", messages[i].content}});
    }
    absl::StatusOr<Rendered> rendered = template_.Render({{"messages", std::move(list)},
                                                          {"bos_token", words_.bos},
                                                          {"eos_token", words_.eos},
                                                          {"tools", Value()},
                                                          {"documents", Value()},
                                                          {"add_generation_prompt", prompt}});
    if (rendered.ok()) return rendered;
    return absl::Status(rendered.status().code(),
                        absl::StrCat(name_, ", chat template, ", rendered.status().message()));
  }

  // What the template writes behind the assistant's words to end its turn, without the white space
  // that follows.
  absl::StatusOr<std::string> TurnEnd() const {
    const std::string words = "sluiceprobe";
    const absl::StatusOr<Rendered> probe =
        RenderFirst({{"user", "x"}, {"assistant", words}}, 2, false);
    if (!probe.ok()) return probe.status();
    const size_t at = probe->text.rfind(words);
    if (at == std::string::npos) return "";
    return std::string(absl::StripTrailingAsciiWhitespace(
        absl::string_view(probe->text).substr(at + words.size())));
  }

  // Of each of the assistant's turns: from the end of the prompt for it to the end of the turn.
  absl::StatusOr<std::vector<Range>> Turns(const std::vector<ChatMessage>& messages,
                                           const std::string& text) const {
    const absl::StatusOr<std::string> turn_end = TurnEnd();
    if (!turn_end.ok()) return turn_end.status();
    std::vector<Range> turns;
    for (size_t i = 0; i < messages.size(); ++i) {
      if (messages[i].role != "assistant") continue;
      const absl::StatusOr<Rendered> prompt = RenderFirst(messages, i, true);
      if (!prompt.ok()) return prompt.status();
      const std::string words = jinja::TextOf(
          jinja::Filter("trim", messages[i].content, {}).value_or(messages[i].content));
      const size_t begin = prompt->text.size();
      const size_t at = text.find(words, begin);
      const size_t end = at == std::string::npos ? at : text.find(*turn_end, at + words.size());
      if (!absl::StartsWith(text, prompt->text) || end == std::string::npos) {
        return absl::InvalidArgumentError(absl::StrCat(
            name_, ", chat template: cannot tell which text is message ", i,
            ", as the template writes it in another way in front of others; mark the assistant's "
            "text by {% generation %} and {% endgeneration %} in a copy of the template, and give "
            "that with --chat-template, or give --loss-on all"));
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
};

}  // namespace

absl::StatusOr<ChatTemplate> ParseChatTemplate(absl::string_view text, const std::string& name,
                                               const SpecialWords& words) {
  absl::StatusOr<jinja::Template> parsed = jinja::Template::Parse(text);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ", chat template, ", parsed.status().message()));
  }
  const auto chat = std::make_shared<const Chat>(*std::move(parsed), name, words);
  return ChatTemplate{
      .chat = [chat](const std::vector<ChatMessage>& messages) { return chat->Render(messages); },
      .prompt =
          [chat](const std::vector<ChatMessage>& messages) {
            return chat->RenderPrompt(messages);
          }};
}

}  // namespace sluice
