#include "models/data/chat_template.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<ChatMessage> kChat = {
    {"user", "a"}, {"assistant", " b "}, {"user", "c"}, {"assistant", "d"}};

// What counts stands in brackets.
std::string Render(const std::string& text, const std::vector<ChatMessage>& chat = kChat) {
  const auto render = ParseChatTemplate(text, "t.json", {.bos = "<s>", .eos = "</s>"});
  if (!render.ok()) return std::string(render.status().message());
  const auto pieces = (*render)(chat);
  if (!pieces.ok()) return std::string(pieces.status().message());
  std::string result;
  for (const ChatPiece& piece : *pieces) {
    absl::StrAppend(&result, piece.counts ? "[" : "", piece.text, piece.counts ? "]" : "");
  }
  return result;
}

TEST(ChatTemplate, TurnsOfTheAssistantCountUpToTheirEnd) {
  EXPECT_EQ(Render("{{ bos_token }}{% for m in messages %}<{{ m.role[:] if false else m['role'] }}>"
                   "{{ m.content | trim }}</e>\n{% endfor %}"
                   "{% if add_generation_prompt %}<assistant>{% endif %}"),
            "<s><user>a</e>\n<assistant>[b</e>]\n<user>c</e>\n<assistant>[d</e>]\n");
}

TEST(ChatTemplate, MarksSayWhatCounts) {
  EXPECT_EQ(Render("{% for m in messages %}\n  {% if m.role == 'assistant' %}\n"
                   "{% generation %}{{ m.content }}{% endgeneration %};{% else %}"
                   "{{- m.content }},{% endif %}\n{%- endfor %}"),
            "a,[ b ];c,[d];");
}

TEST(ChatTemplate, WhiteSpaceMacrosAndNamespacesAreAsInJinja) {
  EXPECT_EQ(Render("{%- set ns = namespace(n=0) -%}\n{# a comment #}\n"
                   "{%- macro twice(x, by=2) %}{{ x * by }}{% endmacro -%}\n"
                   "{% for m in messages[::-1] if m.role != 'assistant' %}\n"
                   "  {% set ns.n = ns.n + loop.index %}\n{{ m.content ~ ns.n }}\n  {% endfor %}\n"
                   "{{ twice(ns.n) }} {{ 'x' in 'xy' and not none }} {{ messages | length }}",
                   {{"user", "a"}, {"user", "c"}}),
            "c1\na3\n6 True 2");
}

TEST(ChatTemplate, SaysWhatIsWrong) {
  EXPECT_THAT(Render("a\n{% if x %}"), AllOf(HasSubstr("t.json"), HasSubstr("endif")));
  EXPECT_THAT(Render("\n{{ x"), HasSubstr("line 2: a tag has no }}"));
  EXPECT_THAT(Render("{% include 'x' %}"), HasSubstr("{% include %} is not supported"));
  EXPECT_THAT(Render("{{ messages | sort }}"), HasSubstr("the filter 'sort'"));
  EXPECT_THAT(Render("{{ raise_exception('no') }}"), HasSubstr("refuses this conversation: no"));
  EXPECT_THAT(Render("{{ x.y }}"), HasSubstr("undefined"));
  EXPECT_THAT(Render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), HasSubstr("too deep"));
  EXPECT_THAT(Render(std::string(5000, '(')), HasSubstr("t.json"));
  EXPECT_THAT(Render("{{ " + std::string(5000, '(') + " }}"), HasSubstr("too deep"));
  EXPECT_THAT(Render("{{ messages | length }}"), HasSubstr("cannot tell which text is message 1"));
}

}  // namespace
}  // namespace sluice
