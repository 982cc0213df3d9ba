#include "models/data/documents/chat_template.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

const std::vector<ChatMessage> kChat = {
    {"user", "a"}, {"assistant", " b "}, {"user", "c"}, {"assistant", "d"}};

// What counts stands in brackets.
std::string RenderConversation(const std::string& text, const Conversation& chat,
                               LossOn loss_on = LossOn::kAssistant) {
  const auto render =
      ParseChatTemplate(text, "t.json", {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  if (!render.ok()) return std::string(render.status().message());
  const auto pieces = render->chat(chat, loss_on);
  if (!pieces.ok()) return std::string(pieces.status().message());
  std::string result;
  for (const ChatPiece& piece : *pieces) {
    absl::StrAppend(&result, piece.counts ? "[" : "", piece.text, piece.counts ? "]" : "");
  }
  return result;
}

std::string Render(const std::string& text, const std::vector<ChatMessage>& chat = kChat) {
  return RenderConversation(text, {.messages = chat});
}

TEST(ChatTemplate, TurnsOfTheAssistantCountUpToTheirEnd) {
  EXPECT_EQ(Render("{{ bos_token }}{% for m in messages %}<{{ m.role[:] if false else m['role'] }}>"
                   "{{ m.content | trim }}</e>\n{% endfor %}"
                   "{% if add_generation_prompt %}<assistant>{% endif %}"),
            "<s><user>a</e>\n<assistant>[b</e>]\n<user>c</e>\n<assistant>[d</e>]\n");
}

// As those that leave out what the assistant thought before its last turn.
TEST(ChatTemplate, WhereAllCountsNobodyAsksWhoSaysWhat) {
  const std::string text =
      "{% for m in messages %}<{{ m.role }}>{{ m.content if loop.last else m.content|upper }}</e>"
      "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
  EXPECT_THAT(Render(text), AllOf(HasSubstr("cannot tell which text is message 1, as the template "
                                            "writes it in another way in front of others"),
                                  HasSubstr("--loss-on all")));
  EXPECT_EQ(RenderConversation(text, {.messages = kChat}, LossOn::kAll),
            "[<user>A</e><assistant> B </e><user>C</e><assistant>d</e>]");
  EXPECT_EQ(RenderConversation("", {.messages = kChat}, LossOn::kAll), "");
  const std::string marked =
      "{% for m in messages %}<{% generation %}{{ m.content }}{% endgeneration %}>{% endfor %}";
  EXPECT_EQ(RenderConversation(marked, {.messages = kChat}, LossOn::kAll), "[<a>< b ><c><d>]");
}

// The prompt for a first message is written without messages.
TEST(ChatTemplate, APromptThatCannotBeWrittenIsExplained) {
  const std::string text =
      "{% if messages[0].role == 'system' %}s{% endif %}"
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}</e>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  const std::vector<ChatMessage> chat = {{"assistant", "a"}, {"user", "b"}, {"assistant", "c"}};
  EXPECT_THAT(Render(text, chat),
              AllOf(HasSubstr("t.json, chat template: cannot tell which text is message 0, as the "
                              "prompt for it cannot be written (line 1: an attribute cannot take "
                              "undefined); mark the assistant's text"),
                    HasSubstr("--loss-on all")));
  EXPECT_EQ(RenderConversation(text, {.messages = chat}, LossOn::kAll),
            "[<assistant>a</e><user>b</e><assistant>c</e>]");
  EXPECT_THAT(Render("{% if messages|length < 4 %}{{ raise_exception('more') }}{% endif %}"),
              AllOf(HasSubstr("message 1, as the short conversation that shows how turns end "
                              "cannot be written (line 1: the template refuses"),
                    HasSubstr("--loss-on all")));
}

// What a model is given to go on from.
std::string RenderPrompt(const std::string& text, const std::vector<ChatMessage>& chat) {
  const auto parsed =
      ParseChatTemplate(text, "t.json", {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  if (!parsed.ok()) return std::string(parsed.status().message());
  return parsed->prompt({.messages = chat}).value_or("refused");
}

TEST(ChatTemplate, TakesNoMoreThanItsLimits) {
  const auto render = [](const std::string& text, const jinja::RenderLimits& limits) {
    const auto parsed = ParseChatTemplate(text, "t.json", {}, limits);
    return parsed.ok() ? std::string(parsed->prompt({.messages = kChat}).status().message()) : "";
  };
  const std::string turns = "{% for i in range(1000) %}x{% endfor %}";
  EXPECT_EQ(render(turns, {}), "");
  EXPECT_THAT(render(turns, {.statements = 1000}), HasSubstr("does not end"));
  EXPECT_THAT(render(turns, {.text = 900}), HasSubstr("does not end"));
  EXPECT_THAT(render(turns, {.work = 1000}), HasSubstr("too much text"));
  EXPECT_THAT(render("{% set x = range(1000) | list %}", {.kept = 900}),
              HasSubstr("too much text"));
}

TEST(ChatTemplate, NamesSpecialTokensThatThereAre) {
  const std::string text =
      "{{ bos_token }}|{{ pad_token }}|{{ unk_token is defined }}|{{ eos_token is defined }}";
  const auto parsed = ParseChatTemplate(text, "t.json", {{"pad_token", "<pad>"}});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->prompt({.messages = kChat}).value_or("refused"), "|<pad>|False|True");
}

TEST(ChatTemplate, APromptEndsWhereTrainingCounts) {
  const std::string text =
      "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m.content }}</e>\n{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  const auto parsed =
      ParseChatTemplate(text, "t.json", {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const auto pieces = parsed->chat({.messages = kChat}, LossOn::kAssistant);
  ASSERT_TRUE(pieces.ok()) << pieces.status();
  std::string before;  // the piece
  size_t done = 0;     // of the assistant's turns
  for (const ChatPiece& piece : *pieces) {
    if (piece.counts) {
      done += 1;
      const std::vector<ChatMessage> talk(kChat.begin(),
                                          kChat.begin() + static_cast<int>(2 * done - 1));
      EXPECT_EQ(RenderPrompt(text, talk), before);
    }
    before += piece.text;
  }
  EXPECT_EQ(done, 2u);
}

// As Mistral's, which writes the system's text into the last of the user's turns.
TEST(ChatTemplate, APromptNeedNotTellWhoSaysWhat) {
  const std::string text =
      "{% set system = messages[0].content %}{% for m in messages[1:] %}"
      "{% if m.role == 'user' %}[{{ system ~ '. ' if loop.last else '' }}{{ m.content }}]"
      "{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}";
  EXPECT_EQ(RenderPrompt(text, {{"system", "S"}, {"user", "a"}}), "[S. a]");
  EXPECT_EQ(RenderPrompt(text, {{"system", "S"}, {"user", "a"}, {"assistant", "b"}, {"user", "c"}}),
            "[a] b</s>[S. c]");
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

// As transformers 5.24.0 with Jinja2 3.1.6, also of the two tests below.
TEST(ChatTemplate, EachEndOfALineIsANewline) {
  EXPECT_EQ(Render("a\r\nb\r{{ 'x\r\ny' }}\r\n", {}), "a\nb\nx\ny");
  EXPECT_EQ(Render("{% if true %}\r\nb\r  {% endif %}\r\nq{# c #}\r\nr\r", {}), "b\nqr");
  EXPECT_EQ(Render("{% if true %}\n\r\nb{% endif %}\r\n\r\n", {}), "\nb");
  EXPECT_THAT(Render("a\r\n\r{{ x.y }}", {}), HasSubstr("line 3: an attribute"));
}

// Python's, which is more than ASCII's: of a line in front of a tag, and beside a '-'.
TEST(ChatTemplate, WhiteSpaceBesideTagsIsThatOfPython) {
  EXPECT_EQ(Render("x\xC2\xA0{%- if true -%}\xC2\xA0y{% endif %}", {}), "xy");
  EXPECT_EQ(Render("x\n\v{% if true %}y{% endif %}", {}), "x\ny");
  EXPECT_EQ(Render("\xE3\x80\x80 {% if true %}y{% endif %}\xC2\xA0", {}), "y\xC2\xA0");
  EXPECT_EQ(Render("x\n\f{{- 1 -}}\x1C y", {}), "x1y");
  EXPECT_EQ(Render("x \xC2\xA0{% if true %}y{% endif %}\xE2\x80\x98{#- c -#}z", {}),
            "x \xC2\xA0y\xE2\x80\x98z");
}

TEST(ChatTemplate, ACommentMayKeepTheNewlineBehindIt) {
  EXPECT_EQ(Render("a{# c +#}\nb{#- c +#}\nc{#+#}\nd{#-#}\n e{#--#}\n f{# #}\n g", {}),
            "a\nb\ncd ef g");
}

// Of a loop's else, of a text that is set, and of what counts, as of a loop's body.
TEST(ChatTemplate, WhatABlockSetsIsGoneBehindIt) {
  const std::string inside = "{{ z }}{% set y = 2 %}{% set z = 3 %}{{ y ~ z }}";
  for (const char* around :
       {"{% for x in [1] %}@{% endfor %}", "{% for x in [] %}{% else %}@{% endfor %}",
        "{% set t %}@{% endset %}{{ t }}", "{% generation %}@{% endgeneration %}"}) {
    const std::string block = absl::StrReplaceAll(around, {{"@", inside}});
    const std::string text = absl::StrCat("{% set z = 1 %}", block,
                                          "{{ z }}{{ y }}{% if true %}{% set y = 4 %}{% endif %}"
                                          "{{ y }}");
    EXPECT_EQ(RenderConversation(text, {}, LossOn::kAll), "[12314]") << around;
  }
}

// As Jinja2, whose attributes are methods before they are keys.
TEST(ChatTemplate, AMethodThatIsNotCalledIsNoKey) {
  EXPECT_EQ(Render("{% set p = {'items': {'a': 1}} %}{{ p['items'].a }}{{ p.items is defined }}"
                   "{{ p.items is mapping }}{{ 1 if p.items else 0 }}{{ p.values is none }}"
                   "{{ p.pop is defined }}{{ [].count is defined }}{{ ''.upper is defined }}",
                   {}),
            "1TrueFalse1FalseFalseTrueTrue");
  for (const char* use : {"{{ p.items }}", "{{ p.items.type }}", "{{ p.items ~ '' }}"}) {
    EXPECT_THAT(Render(absl::StrCat("{% set p = {'items': 1} %}", use), {}),
                HasSubstr("cannot take a function or a method"))
        << use;
  }
}

TEST(ChatTemplate, IteratorsAreNoLists) {
  EXPECT_EQ(Render("{% if [] | reverse %}a{% endif %}{% if [1]|selectattr('b') %}b{% endif %}"
                   "{% if {}.items() %}c{% endif %}{% if {}|items %}d{% endif %}"
                   "{% if range(0) %}e{% endif %}{{ ['a', 'b']|reverse|reverse }}"
                   "{{ range(3)|length }}{{ range(3)[1] }}{{ 2 in range(3) }}{{ range(3)|list }}",
                   {}),
            "abd['a', 'b']31True[0, 1, 2]");
  EXPECT_EQ(Render("{% for p in {'a': 1}.items() %}{{ p[0] ~ p|length ~ p|join }}{{ p|tojson }}"
                   "{{ p is sequence }}{% for x in p %}{{ x }}{% endfor %}{% endfor %}"
                   "{% for k, v in {'b': 2}|items|list %}{{ k ~ v }}{% endfor %}",
                   {}),
            "a2a1[\"a\", 1]Truea1b2");
  for (const char* use :
       {"{{ range(3) }}", "{{ [1]|reverse|length }}", "{{ ([1]|reverse)[0] }}",
        "{% set x = {}.items() %}", "{{ {}|items|length }}", "{{ range(2) ~ 'a' }}"}) {
    EXPECT_THAT(Render(use, {}), HasSubstr("write '| list' behind it")) << use;
  }
  EXPECT_THAT(Render("{{ {'a': 1}.items()|list }}", {}), HasSubstr("a tuple"));
  EXPECT_THAT(Render("{% for p in {'a': 1}|items %}{{ p }}{% endfor %}", {}), HasSubstr("a tuple"));
}

// Jinja2 refuses these, too, but for '+', which escapes, and `varargs`.
TEST(ChatTemplate, WhatElseJinjaTakesIsRefused) {
  EXPECT_EQ(Render("{% macro f() %}{% endmacro %}{{ f is defined }}{{ range is defined }}"
                   "{{ namespace is defined }}{{ raise_exception is defined }}{{ g is defined }}"
                   "{% set ns = namespace(a=1) %}{{ ns is mapping }}{{ ns.items is defined }}",
                   {}),
            "TrueTrueTrueTrueFalseFalseFalse");
  EXPECT_EQ(Render("{% set x = ['<']|tojson|safe if true else 'b' %}{{ x }}{{ '<' ~ x }}", {}),
            "[\"<\"]<[\"<\"]");
  const std::string macro = "{% macro f(a) %}{{ a }}{% endmacro %}";
  for (const std::string& use :
       {std::string("{{ '<' + 'a'|safe }}"), std::string("{% set x = 'a'|safe %}{{ x + '<' }}"),
        std::string("{{ 'a'|strip }}"), std::string("{{ 'a'.trim() }}"), macro + "{{ f(1, b=2) }}",
        macro + "{{ f(1, a=2) }}", std::string("{% macro g() %}{{ varargs }}{% endmacro %}")}) {
    EXPECT_THAT(Render(use, {}), HasSubstr("t.json, chat template, line 1: ")) << use;
  }
}

// The right sides are what Jinja2 3.1 writes.
TEST(ChatTemplate, SlicesAreThoseOfPython) {
  const std::string text =
      "{% set t = 'a\xC3\xA4"
      "b\xE2\x82\xAC\xF0\x9F\x98\x80z' %}";
  const std::vector<std::pair<const char*, const char*>> slices = {
      {"t[1:]", "\u00E4b\u20AC\U0001F600z"},
      {"t[:-1]", "a\u00E4b\u20AC\U0001F600"},
      {"t[::2]", "ab\U0001F600"},
      {"t[::-1]", "z\U0001F600\u20ACb\u00E4a"},
      {"t[-2:]", "\U0001F600z"},
      {"t[4:1:-1]", "\U0001F600\u20ACb"},
      {"t[-1:-4:-2]", "z\u20AC"},
      {"t[100:-100:-3]", "zb"},
      {"t[1:100]", "\u00E4b\u20AC\U0001F600z"},
      {"t[100:] ~ t[:-100] ~ t[3:1]", ""},
      {"t[none:2]", "a\u00E4"},
      {"''[::-1]", ""},
      {"t[::-9223372036854775807]", "z"},
      {"t[1:][:-1]", "\u00E4b\u20AC\U0001F600"},
      {"(['a']|tojson)[:-1]", "[\"a\""},
      {"[1, 2, 3, 4][3:0:-2]", "[4, 2]"},
      {"[1, 2, 3][::-2]", "[3, 1]"},
      {"[1, 2, 3][-2::-1]", "[2, 1]"},
      {"[][::-3]", "[]"},
  };
  for (const auto& [slice, expected] : slices) {
    EXPECT_EQ(Render(absl::StrCat(text, "{{ ", slice, " }}"), {}), expected) << slice;
  }
  for (const char* wrong : {"'a'[::0]", "[1][::0]", "{}[1:]", "3[1:]", "'<' + ('a'|safe)[:1]"}) {
    EXPECT_THAT(Render(absl::StrCat("{{ ", wrong, " }}"), {}), HasSubstr("chat template, line 1: "))
        << wrong;
  }
}

// The right sides are what Jinja2 3.1 writes.
TEST(ChatTemplate, ATextIsRepeated) {
  EXPECT_EQ(
      Render("{{ '~' * 3 }} {{ 2 * 'ab' }} {{ 'a' * 0 }}{{ 'a' * -1 }} {{ '\xC3\xA4' * true }} "
             "{{ 'a' ~ 'b' * 2 }} {{ '' * 9223372036854775807 }}",
             {}),
      "~~~ abab  \u00E4 abb ");
  for (const char* wrong :
       {"'a' * 'b'", "'a' * none", "x * 'a'", "'a' * [1]", "'<' + ('a'|safe) * 2"}) {
    EXPECT_THAT(Render(absl::StrCat("{{ ", wrong, " }}"), {}), HasSubstr("chat template, line 1: "))
        << wrong;
  }
  for (const char* large : {"'ab' * 9223372036854775807", "('a' * 16777216) * 2"}) {
    EXPECT_THAT(Render(absl::StrCat("{{ ", large, " }}"), {}), HasSubstr("16 MiB")) << large;
  }
}

// The right sides are what Jinja2 3.1 writes, as transformers sets it up, also of the three below.
using Written = std::vector<std::pair<const char*, const char*>>;
void ExpectWritten(const Written& all) {
  const std::string chat =
      "{% set chat = [{'role': 'user', 'tags': ['x']}, {'role': 'tool', 'name': 'f'}] %}";
  for (const auto& [expression, expected] : all) {
    EXPECT_EQ(Render(absl::StrCat(chat, "{{ ", expression, " }}"), {}), expected) << expression;
  }
}

TEST(ChatTemplate, FiltersTakeEachElement) {
  ExpectWritten({
      {"chat|map(attribute='role')|join(', ')", "user, tool"},
      {"chat|map(attribute='name', default='-')|list", "['-', 'f']"},
      {"chat|map(attribute='name')|list", "[Undefined, 'f']"},
      {"chat|map(attribute='tags.0', default='q')|list", "['x', 'q']"},
      {"[[1, 2], [3, 4]]|map(attribute=0)|list", "[1, 3]"},
      {"['a', 'b']|map('upper')|list", "['A', 'B']"},
      {"['a', 'b']|map('replace', 'a', 'c')|list", "['c', 'b']"},
      {"[[1, 2], [3]]|map('join', '+')|join(' ')", "1+2 3"},
      {"'user' in chat|map(attribute='role')", "True"},
      {"none|default('d') ~ x|default(default_value='e') ~ ''|default('f', boolean=true)",
       "Noneef"},
      {"chat|join(',', attribute='role')", "user,tool"},
      {"[0, 1, '', none]|select|list", "[1]"},
      {"[1, 2, 3]|reject('odd')|list", "[2]"},
      {"chat|selectattr('role', 'in', ['user'])|list|length", "1"},
      {"chat|selectattr('role', 'ne', 'user')|map(attribute='name')|first", "f"},
      {"chat|selectattr('role', '!=', 'x')|list|length", "2"},
      {"[3, 1, 2]|sort", "[1, 2, 3]"},
      {"['b', 'A', 'c']|sort(reverse=true)", "['c', 'b', 'A']"},
      {"chat|sort(attribute='role')|map(attribute='role')|list", "['tool', 'user']"},
      {"['a', 'A', 'b']|unique|list", "['a', 'b']"},
      {"[1, 2, 3]|sum ~ [3, 1]|max ~ [3, 1]|min", "631"},
      {"{'b': 1, 'a': 2}|list ~ {'b': 1}|first", "['b', 'a']b"},
      {"{'b': 1}.keys()|list ~ {'b': 1}.values()|list", "['b'][1]"},
  });
  EXPECT_EQ(Render("{% for k, v in {'b': 1, 'a': 2}|dictsort %}{{ k }}{{ v }}{% endfor %}"
                   "{% for k in {'c': 1, 'd': 2}.keys() %}{{ k }}{% endfor %}"
                   "{% for c in 'a\xC3\xA9' %}{{ c }},{{ loop.cycle('x', 'y') }}{% endfor %}",
                   {}),
            "a2b1cda,x\xC3\xA9,y");
}

TEST(ChatTemplate, TextsHaveTheMethodsOfPython) {
  ExpectWritten({
      {"' a  b c '.split()", "['a', 'b', 'c']"},
      {"' a  b c '.split(maxsplit=1)", "['a', 'b c ']"},
      {"' a  b c '.rsplit(none, 1)", "[' a  b', 'c']"},
      {"'a,b,c'.split(',', 1)", "['a', 'b,c']"},
      {"'a,b,c'.rsplit(',', maxsplit=1)", "['a,b', 'c']"},
      {"''.split() ~ ''.split(',')", "[]['']"},
      {"'a\\nb\\r\\nc\\n'.splitlines()", "['a', 'b', 'c']"},
      {"'aaa'.replace('a', 'b', 2)", "bba"},
      {"'ab'.startswith(('x', 'a')) ~ 'ab'.endswith(('x', 'a'))", "TrueFalse"},
      {"'\u00E9ab'.find('b') ~ 'aba'.rfind('a') ~ 'a'.find('x') ~ 'abab'.count('ab')", "22-12"},
      {"', '.join(['a', 'b'])", "a, b"},
      {"'12'.isdigit() ~ ''.isdigit() ~ 'aB'.isalpha() ~ 'a1'.islower() ~ 'a'.isupper()",
       "TrueFalseTrueTrueFalse"},
      {"'abc'.removeprefix('a').removesuffix('c')", "b"},
      {"'a\\n\\nb'|indent(2) ~ '|' ~ 'a\\nb'|indent(width=2, first=true)", "a\n\n  b|  a\n  b"},
      {"('3'|int + 'x'|int(7) + 3.7|int) ~ ' ' ~ '3.5'|float ~ -3|abs", "13 3.53"},
  });
}

TEST(ChatTemplate, TestsAndNumbersAreThoseOfPython) {
  ExpectWritten({
      {"6 is divisibleby 3 and 'a' is in 'abc' and 1 is not eq 2", "True"},
      {"none is sameas none and true is sameas(true)", "True"},
      {"2 is gt 1 and 2 is ge 2 and 1.5 is float and 'A' is upper", "True"},
      {"'user' in ('user', 'tool') and 'x' not in ('user', 'tool')", "True"},
      {"-7 // 2 ~ ' ' ~ -7 % 3 ~ ' ' ~ 7 // -2", "-4 2 -4"},
      {"7 / 2 ~ ' ' ~ 6 / 2 ~ ' ' ~ 1.5 * 2 ~ ' ' ~ (1 + 2.5)", "3.5 3.0 3.0 3.5"},
      {"1 == 1.0 and 'a' < 'b' and 'b' >= 'b'", "True"},
  });
}

// What Jinja2 3.1 writes, in the environment of transformers.
TEST(ChatTemplate, WritesWhatJinjaWrites) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{{ range(5, -1, -2)|list }}", "[5, 3, 1]"},
      {"{{ range(0, 7, 3)|list }}", "[0, 3, 6]"},
      {"{{ range(3, 0)|list }}", "[]"},
      {"{{ range(0, 3, -1)|list }}", "[]"},
      {"{{ range(3, 3, -1)|list }}", "[]"},
      {"{{ range(1, 10, 9223372036854775807)|list }}", "[1]"},
      {"{{ range(10, 1, -9223372036854775807 - 1)|list }}", "[10]"},
      {"{% for i in range([1,2,3]|length - 1, -1, -1) %}{{ i }}{{ loop.last }}{% endfor %}",
       "2False1False0True"},
      {"{{ range(5, 0, -1)[1] }} {{ 3 in range(9, 0, -3) }} {{ range(9, 0, -3)|length }}",
       "4 True 3"},
      {"{{ 'abc'[0] }}{{ 'abc'[-1] }}{{ 'abc'[3] }}{{ 'abc'[-4] }}|", "ac|"},
      {"{% set x = 'héllo' %}{{ x[1] }}{{ x[1] == 'é' }}{{ x[0] + x[4] }}{{ ''[0] is defined }}",
       "éTruehoFalse"},
      {"{% for c in [0, 2, 4] %}{{ 'abcde'[c] }}{% endfor %}", "ace"},
      {"{{ ('ab' ~ 'c')[2] }}{{ ['xy'][0][1] }}", "cy"},
      {"{% set a, b = 1, 'x' %}{{ a }}{{ b }}", "1x"},
      {"{% set a, b = [3, 4] %}{{ a }}{{ b }}", "34"},
      {"{% set a, b = (5, 6) %}{{ a }}{{ b }}", "56"},
      {"{% set a, b = 1, 2 %}{% set a, b = b, a %}{{ a }}{{ b }}", "21"},
      {"{% for k, v in {'q': [1, 2]}.items() %}{% set m, n = v %}{{ k }}{{ m }}{{ n }}{% endfor %}",
       "q12"},
      {"{% set a, b, c = range(3) %}{{ a }}{{ b }}{{ c }}", "012"},
      {"{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% set c = 9 %}{% endwith %}{{ a }}{{ "
       "b is defined }}{{ c is defined }}",
       "211FalseFalse"},
      {"{% with %}{% set z = 1 %}{{ z }}{% endwith %}{{ z is defined }}", "1False"},
      {"{% for i in [1, 2, 3] %}{% with j = i %}{% if j == 2 %}{% break %}{% endif %}{{ j }}{% "
       "endwith %}{% endfor %}",
       "1"},
      {"{% filter upper %}a{{ 'b' }}{% endfilter %}", "AB"},
      {"a {% filter trim | replace('x', 'y') %} xax {% endfilter %} b", "a yay b"},
      {"{% set n = 2 %}{% filter indent(n) %}a\nb{% endfilter %}", "a\n  b"},
      {"{% filter upper %}{% filter trim %} a {% endfilter %}b{% endfilter %}", "AB"},
      {"{{ '{}-{}'.format(1, 'a') }}", "1-a"},
      {"{{ '{0}{1}{0}'.format('x', 2.5) }}", "x2.5x"},
      {"{{ '{{}}{}'.format(true) }}", "{}True"},
      {"{{ 'none'.format(1) }}", "none"},
      {"{{ '{}'.format([1, 'a']) }}{{ '{}'.format(none) }}{{ '{}'.format({'a': 1}) }}",
       "[1, 'a']None{'a': 1}"},
      {"{{ dict(a=1, b='x') }}{{ dict() }}{{ dict(a=1).a }}", "{'a': 1, 'b': 'x'}{}1"},
      {"{% set d = dict(k=[1]) %}{{ d['k'][0] }}{{ d|tojson }}", "1{\"k\": [1]}"},
  };
  for (const auto& [text, written] : cases) EXPECT_EQ(Render(text, {}), written) << text;
}

// What an argument asks for is never left out.
TEST(ChatTemplate, WhatIsNotKnownIsRefusedByName) {
  EXPECT_THAT(Render("{{ 'a b'.strip(nothing=1) }}", {}), HasSubstr("the argument 'nothing'"));
  EXPECT_THAT(Render("{{ range(3, step=2)|list }}", {}), HasSubstr("the argument 'step'"));
  EXPECT_THAT(Render("{{ 1 is eq(other=2) }}", {}), HasSubstr("the argument 'other'"));
  EXPECT_THAT(Render("{{ {'a': 1}|selectattr('b.c')|list }}", {}), HasSubstr("line 1: "));
  EXPECT_THAT(Render("{% for x in [1] %}{{ loop }}{% endfor %}", {}), HasSubstr("'loop'"));
  EXPECT_THAT(Render("{{ self }}", {}), HasSubstr("'self' is not supported"));
  EXPECT_THAT(Render("{{ dict([1]) }}", {}), HasSubstr("'dict' of values without names"));
  EXPECT_THAT(Render("{{ range(1, 2, 3, 4)|list }}", {}), HasSubstr("range takes 1 to 3"));
  EXPECT_THAT(Render("{{ range(1, 2, 0)|list }}", {}), HasSubstr("steps of 0"));
  EXPECT_THAT(Render("{% set a, b = [1] %}", {}), HasSubstr("several names need a list"));
  EXPECT_THAT(Render("{% filter length %}a{% endfilter %}", {}),
              HasSubstr("the output of {% filter %} cannot take 1"));
  EXPECT_THAT(Render("{% filter trim %}{% generation %}a{% endgeneration %}{% endfilter %}", {}),
              HasSubstr("a generation inside {% filter %} is not supported"));
  for (const char* format : {"'{:.2f}'.format(1)", "'{a}'.format(1)", "'{'.format(1)",
                             "'}'.format(1)", "'{}{0}'.format(1)", "'{}{}'.format(1)",
                             "'{}'.format(range)", "'{0.x}'.format(1)", "'{-1}'.format(1)"}) {
    EXPECT_THAT(Render(absl::StrCat("{{ ", format, " }}"), {}), HasSubstr("format")) << format;
  }
  EXPECT_THAT(Render("{{ [[1]]|map('reverse')|list }}", {}), HasSubstr("'map' of the filter"));
  EXPECT_THAT(Render("{{ [{}]|selectattr('a.b')|list }}", {}), HasSubstr("undefined"));
}

TEST(ChatTemplate, WhatIsNotDefinedIsEmpty) {
  EXPECT_EQ(Render("{{ x is iterable }} {{ x is sequence }} {{ x is mapping }} {{ x is string }}"
                   "{% for y in x %}{{ y }}{% endfor %}",
                   {}),
            "True True False False");
}

TEST(ChatTemplate, ALoopIsLeftOnlyFromWithin) {
  for (const char* tag : {"{% break %}", "{% continue %}"}) {
    for (const char* around : {"a@b", "{% for a in [1] %}x{% else %}@{% endfor %}",
                               "{% for a in [1] %}{% macro f() %}@{% endmacro %}{% endfor %}",
                               "{% for a in [1] %}{% generation %}@{% endgeneration %}{% endfor %}",
                               "{% for a in [1] %}{% endfor %}{% if true %}@{% endif %}"}) {
      EXPECT_THAT(Render(absl::StrReplaceAll(around, {{"@", tag}}), {}),
                  HasSubstr(absl::StrCat("line 1: a ", tag, " stands in no loop")))
          << around;
    }
  }
  EXPECT_EQ(Render("{% for z in [1, 2] %}{{ z }}{% for a in [] %}x{% else %}{% break %}{% endfor %}"
                   "{% endfor %};{% for z in [1, 2] %}{{ z }}{% set y %}a{% break %}b{% endset %}"
                   "{{ y }}{% endfor %};{% for z in [1, 2] %}{% if z == 1 %}{% continue %}"
                   "{% endif %}{{ z }}{% endfor %}",
                   {}),
            "1;1;2");
}

TEST(ChatTemplate, SaysWhatIsWrong) {
  EXPECT_THAT(Render("a\n{% if x %}"), AllOf(HasSubstr("t.json"), HasSubstr("endif")));
  EXPECT_THAT(Render("\n{{ x"), HasSubstr("line 2: a tag has no }}"));
  EXPECT_THAT(Render("{% include 'x' %}"), HasSubstr("{% include %} is not supported"));
  EXPECT_THAT(Render("{{ messages | groupby }}"), HasSubstr("the filter 'groupby'"));
  EXPECT_THAT(Render("{{ raise_exception('no') }}"), HasSubstr("refuses this conversation: no"));
  EXPECT_THAT(Render("{{ x.y }}"), HasSubstr("undefined"));
  EXPECT_THAT(Render("{% set x = namespace({'a': 1}) %}"), HasSubstr("values without names"));
  EXPECT_THAT(Render("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), HasSubstr("too deep"));
  EXPECT_THAT(Render("{% macro f(a=f()) %}{% endmacro %}{{ f() }}"), HasSubstr("too deep"));
  EXPECT_THAT(Render(std::string(5000, '(')), HasSubstr("t.json"));
  EXPECT_THAT(Render("{{ " + std::string(5000, '(') + " }}"), HasSubstr("too deep"));
  EXPECT_THAT(Render("{{ messages | length }}"), HasSubstr("cannot tell which text is message 1"));
  EXPECT_THAT(Render("{% generation %}{% generation %}a{% endgeneration %}{% endgeneration %}"),
              HasSubstr("inside another one"));
}

TEST(ChatTemplate, NumbersThatNoInt64HoldsAreRefused) {
  const std::string most = "9223372036854775807";
  for (const std::string& sum : {most + " + 1", "-" + most + " - 2", most + " * 2"}) {
    EXPECT_THAT(Render("{{ " + sum + " }}"), HasSubstr("more than 64 bits")) << sum;
  }
  EXPECT_THAT(Render("{{ range(-2, " + most + ") | list }}"), HasSubstr("range is too long"));
  EXPECT_EQ(Render("{{ [1, 2, 3][1::" + most + "] }}", {}), "[2]");
  const Json fields = {{"role", "user"}, {"content", ""}, {"n", 18446744073709551615u}};
  EXPECT_EQ(Render("{{ messages[0].n }}", {{"user", "", fields}}), "18446744073709551615");
  EXPECT_THAT(Render("{{ messages[0].n + 1 }}", {{"user", "", fields}}),
              HasSubstr("'+' of a number above 9223372036854775807"));
}

TEST(ChatTemplate, ABooleanIsANumberAsInPython) {
  EXPECT_EQ(Render("{{ (2 > 1) >= 1 }} {{ true < 1 }} {{ true + true }} {{ false == 0 }} "
                   "{{ true != 1 }} {{ true in [1] }} {{ 1 is eq(true) }} {{ '1' == 1 }}",
                   {}),
            "True False 2 True False True True False");
}

TEST(ChatTemplate, ComparisonsInAChainAreRefused) {
  for (const char* chain : {"3 > 2 >= 1", "1 in [1] == true", "1 < 2 not in [1]"}) {
    EXPECT_THAT(Render(absl::StrCat("{{ ", chain, " }}")), HasSubstr("in a chain")) << chain;
  }
  EXPECT_EQ(Render("{{ 3 > 2 and 2 >= 1 }}", {}), "True");
}

TEST(ChatTemplate, WhatGrowsWithoutEndIsRefused) {
  const std::string loop = "{% set ns = namespace(x=X) %}{% for i in range(10000) %}";
  const auto grow = [&](const std::string& first, const std::string& next) {
    std::string text = loop + "{% set ns.x = " + next + " %}{% endfor %}";
    text.replace(text.find('X'), 1, first);
    return Render(text);
  };
  EXPECT_THAT(grow("'a'", "ns.x ~ ns.x"), HasSubstr("too much text"));
  EXPECT_THAT(grow("[1]", "ns.x + ns.x"), HasSubstr("too many values"));
  EXPECT_THAT(grow("[1]", "[ns.x]"), HasSubstr("nested too deep"));
  EXPECT_THAT(grow("range(1000000)|list", "ns.x[1:]"), HasSubstr("too many values"));
  // Loops in loops, whose turns cost more than what they write.
  EXPECT_THAT(Render("{% for i in range(80000) %}{% for j in range(80000) %}{% endfor %}"
                     "{% endfor %}"),
              HasSubstr("too many values"));
  EXPECT_THAT(Render("{% for i in range(1000) %}{% for j in range(1000) if j < 0 %}{% endfor %}"
                     "{% endfor %}"),
              HasSubstr("too many values"));
  EXPECT_THAT(grow("'a' * 10000000", "ns.x[::-1]"), HasSubstr("too much text"));
  EXPECT_THAT(Render("{% set x = 'a' * 10000000 %}{% for i in range(10000) %}{% if x[:1] %}"
                     "{% endif %}{% endfor %}"),
              HasSubstr("too much text"));
  // Looking for an end in a long text.
  EXPECT_THAT(
      Render("{% set ns = namespace(x='a') %}{% for i in range(20) %}{% set ns.x = ns.x ~ ns.x %}"
             "{% endfor %}{% for i in range(9000) %}{% if ns.x|length %}{% endif %}{% endfor %}"),
      HasSubstr("too much text"));
}

TEST(ChatTemplate, LongExpressionsAreRefused) {
  for (const char* link : {"|trim", ".a", " + 1", " or a", " and a", " is none"}) {
    std::string text = "{{ a";
    for (int i = 0; i < 50'000; ++i) text += link;
    EXPECT_THAT(Render(text + " }}"), HasSubstr("too many parts")) << link;
  }
}

// Brackets, and macros that call each other, put one chain around another.
TEST(ChatTemplate, LongExpressionsInsideEachOtherAreRefused) {
  const auto repeated = [](int times, const std::string& text) {
    std::string all;
    for (int i = 0; i < times; ++i) all += text;
    return all;
  };
  for (const char* link : {"|trim", ".a", " + 1"}) {
    const std::string chain = repeated(300, link);
    for (const char* open : {"(", "[", "x["}) {
      const std::string close = open[0] == '(' ? ")" : "]";
      EXPECT_THAT(
          Render("{{ " + repeated(50, open) + "x" + repeated(50, chain + close) + " }}", {}),
          HasSubstr("too many parts"))
          << link << open;
    }
    EXPECT_THAT(Render("{% macro m() %}{{ m()" + chain + " }}{% endmacro %}{{ m() }}", {}),
                HasSubstr("expressions call each other too deep"))
        << link;
  }
  // Those beside each other may be many.
  EXPECT_EQ(Render("{{ [" + repeated(900, "(1 + 1),") + "]|length }}", {}), "900");
}

TEST(ChatTemplate, WhatIsOfAnotherTypeIsRefused) {
  EXPECT_THAT(Render("{{ messages | selectattr('role', 3) | list }}"), HasSubstr("cannot take 3"));
  EXPECT_THAT(Render("{{ {1: 'a'} }}"), HasSubstr("a key of a dictionary that is no text"));
  EXPECT_EQ(Render("{{ ['\xff'] }}", {}), "['\xEF\xBF\xBD']");
}

// Whatever a key of theirs is called.
TEST(ChatTemplate, DataAreNoNamespaces) {
  EXPECT_EQ(Render("{% set x = {'\x01namespace': 7} %}{{ x.y }}{{ x }}", {}),
            "{'\\x01namespace': 7}");
  for (const Json& value : {Json(5'000'000), Json(0), Json("x"), Json(-1), Json()}) {
    const Json fields = {{"role", "user"}, {"content", "a"}, {"\x01namespace", value}};
    EXPECT_EQ(Render("{% set ns = namespace(content='b', role='c') %}{% set ns.content = 'd' %}"
                     "{% for m in messages %}{{ m.role ~ m['content'] ~ m|length }}"
                     "{{ m.get('content') ~ (m is mapping) }}{% endfor %}{{ ns.content }}",
                     {{"user", "a", fields}}),
              absl::StrCat("usera", value.is_null() ? 2 : 3, "aTrued"))
        << value;
    EXPECT_THAT(Render("{% for m in messages %}{% set m.content = 1 %}{% endfor %}",
                       {{"user", "a", fields}}),
                HasSubstr("'m' is no namespace"))
        << value;
  }
}

TEST(ChatTemplate, ANamespaceIsNoTextAndNoJson) {
  for (const char* use : {"{{ ns }}", "{{ ns ~ '' }}", "{{ [ns] | tojson }}", "{{ ns + 'a' }}"}) {
    EXPECT_THAT(Render(absl::StrCat("{% set ns = namespace(a=1) %}", use), {}),
                HasSubstr("cannot take a namespace"))
        << use;
  }
  EXPECT_THAT(Render("{% for x in namespace(a=1) %}{% endfor %}"), HasSubstr("cannot go over"));
  EXPECT_EQ(Render("{% set a = namespace() %}{% set b = namespace() %}{{ a == a }}{{ a == b }}"
                   "{{ 1 if a else 2 }}",
                   {}),
            "TrueFalse1");
}

// What Python writes for a list or a dictionary, whose keys stay in their order.
TEST(ChatTemplate, ListsAndDictionariesAreWrittenAsPythonDoes) {
  const std::vector<ChatMessage> chat = {{"user", "it's\n\xC2\xA0\xE2\x80\x98"}};
  EXPECT_EQ(Render("{{ messages }}", chat),
            "[{'role': 'user', 'content': \"it's\\n\\xa0\xE2\x80\x98\"}]");
  EXPECT_EQ(Render("{{ ['a', none, true, 1, -2, [], {}, nothing] }}", {}),
            "['a', None, True, 1, -2, [], {}, Undefined]");
  EXPECT_EQ(Render("{{ ['\"', '\\\'\"', '\\\\'] ~ '' }}", {}), "['\"', '\\'\"', '\\\\']");
  EXPECT_EQ(Render("{% for k in {'b': 1, 'a': 2} %}{{ k }}{% endfor %}"
                   "{% for k, v in {'b': 1, 'a': 2}.items() %}{{ k }}{{ v }}{% endfor %}",
                   {}),
            "bab1a2");
  EXPECT_EQ(Render("{{ {'b': 1, 'a': [true]} == {'a': [1], 'b': 1} }} {{ {'a': 1} == {'b': 1} }} "
                   "{{ [1] == [1, 2] }} {{ {} == [] }}",
                   {}),
            "True False False False");
}

TEST(ChatTemplate, JoiningKeepsWhatIsEmpty) {
  EXPECT_EQ(
      Render("{{ ['', 'a', ''] | join('-') }} {{ [1, none] | join }} {{ [] | join('-') }}", {}),
      "-a- 1None ");
}

TEST(ChatTemplate, NotIsTrueOrFalse) {
  EXPECT_EQ(Render("{{ not not 1 }} {{ not not not '' }} {{ not not [] }}", {}), "True True False");
}

// Those of a filter begin behind a blank or a bracket, those of a method behind all but letters.
TEST(ChatTemplate, WordsThatBeginWithACapital) {
  EXPECT_EQ(Render("{{ \"it's A.b-c (d) e1f\" | title }}|{{ \"it's A.b-c (d) e1f\".title() }}|"
                   "{{ 'aB c' | capitalize }}|{{ 'aB c'.upper() }}|{{ 'aB C' | lower }}",
                   {}),
            "It's A.b-C (D) E1f|It'S A.B-C (D) E1F|Ab c|AB C|ab c");
  for (const char* name : {"upper", "lower", "capitalize", "title"}) {
    EXPECT_THAT(Render(absl::StrCat("{{ '\xC3\xA9' | ", name, " }}"), {}),
                HasSubstr(absl::StrCat("'", name, "' of a text with characters beyond ASCII")));
  }
}

TEST(ChatTemplate, StripTakesWholeCharacters) {
  EXPECT_EQ(Render("{{ '\xE2\x80\x98x\xE2\x80\x99'.strip('\xE2\x80\x99') }}", {}), "\xE2\x80\x98x");
}

TEST(ChatTemplate, AMacroSeesWhatIsAroundItsDefinition) {
  EXPECT_EQ(Render("{% set g = 'g' %}{% macro f(a, b=a) %}{{ a }}{{ b }}{{ m }}{{ g }}{{ loop }};"
                   "{% endmacro %}{% macro twice(m) %}{{ f(m) }}{% endmacro %}"
                   "{% for m in [1, 2] %}{{ f(3) }}{{ twice(m) }}{{ m }}{% endfor %}",
                   {}),
            "33g;11g;133g;22g;2");
  EXPECT_EQ(
      Render("{% for m in [1, 2] %}{% macro f() %}{{ m }}{% endmacro %}{{ f() }}{% endfor %}", {}),
      "12");
}

TEST(ChatTemplate, ADefaultIsForWhatIsNotGiven) {
  EXPECT_EQ(Render("{% macro f(a, b=raise_exception('no')) %}{{ a ~ b }}{% endmacro %}"
                   "{{ f(1, 2) ~ f(3, b=4) }}",
                   {}),
            "1234");
}

// Each of these calls the next one twice: 2^40 calls, none of which runs a statement.
TEST(ChatTemplate, CallsAreCounted) {
  std::string text = "{% macro f40(a=1) %}{% endmacro %}";
  for (int i = 39; i >= 0; --i) {
    const std::string next = absl::StrCat("f", i + 1, "()");
    absl::StrAppend(&text, "{% macro f", i, "(a=", next, ", b=", next, ") %}{% endmacro %}");
  }
  EXPECT_THAT(Render(text + "{{ f0() }}"), HasSubstr("too much text"));
}

TEST(ChatTemplate, LoopsInLoopsHaveTheirOwn) {
  EXPECT_EQ(
      Render("{% for a in [1, 2] %}{% for b in 'x y z'.split(' ') %}{{ b }}{% endfor %}"
             "{% for b in [7, 8, 9] %}{{ loop.index ~ loop.revindex0 ~ loop.length ~ loop.last }}"
             "{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}"
             "{{ loop.index0 ~ loop.first ~ loop.depth ~ loop.depth0 }};{% endfor %}",
             {}),
      "xyz123False8 213False79 303True8 0True10;xyz123False8 213False79 303True8 1False10;");
}

// What a name holds is not copied where only a part of it is asked for.
TEST(ChatTemplate, AConversationMayBeLong) {
  std::vector<ChatMessage> chat;
  size_t turns = 0;
  for (; turns < 3000; ++turns) {
    chat.push_back({turns % 2 == 0 ? "user" : "assistant", std::string(1000, 'w')});
  }
  const std::string text = Render(
      "{% set ns = namespace(all=messages) %}{% for m in messages %}{% generation %}"
      "{% if not messages or messages is not defined or messages|length != ns.all|length %}no{% "
      "endif %}"
      "{% if messages[loop.index0].role != m.role or ns.all[0]['role'] != 'user' %}no{% endif %}"
      "{{ messages[-1].content }}{% endgeneration %}{% endfor %}",
      chat);
  EXPECT_EQ(text.size(), turns * 1002);
}

TEST(ChatTemplate, WhatElseAMessageHoldsIsThere) {
  const std::string text =
      "{% for m in messages %}{{ m.name }}{% if m.thinking is string %}({{ m.thinking }}){% endif "
      "%}"
      "{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}";
  const Json reasons = {
      {"role", "assistant"}, {"content", "b"}, {"thinking", "why"}, {"tags", {1}}};
  EXPECT_EQ(
      Render(text, {{"user", "a", {{"role", "user"}, {"content", "a"}, {"name", "Ann"}}},
                    {"assistant", "b", reasons},
                    {"user", "c", {{"role", "user"}, {"content", "c"}, {"thinking", nullptr}}}}),
      "Ann[a](why)[b][c]");
}

// As transformers 5.24.0 gives a template the messages of data sets that name it in other ways.
TEST(ChatTemplate, ReasoningHasTheNamesThatTemplatesRead) {
  const auto fields = [](const Json& message) {
    return Render("{% generation %}{{ messages[0] | tojson }}{% endgeneration %}",
                  {{"assistant", "4", message}});
  };
  EXPECT_EQ(fields({{"role", "assistant"}, {"reasoning", "r"}, {"content", "4"}}),
            R"([{"thinking": "r", "role": "assistant", "reasoning": "r", "content": "4", )"
            R"("reasoning_content": "r"}])");
  EXPECT_EQ(fields({{"role", "assistant"}, {"thinking", "t"}, {"reasoning", "r"}}),
            R"([{"thinking": "t", "role": "assistant", "reasoning": "r", )"
            R"("reasoning_content": "t"}])");
  EXPECT_EQ(fields({{"reasoning_content", "c"}, {"thinking", "t"}, {"role", "assistant"}}),
            R"([{"thinking": "t", "reasoning_content": "c", "role": "assistant"}])");
  EXPECT_EQ(fields({{"thinking", nullptr}, {"reasoning_content", nullptr}, {"reasoning", "r"}}),
            R"([{"thinking": "r", "reasoning": "r", "reasoning_content": "r"}])");
  EXPECT_EQ(fields({{"reasoning_content", ""}, {"reasoning", "r"}}),
            R"([{"thinking": "", "reasoning_content": "", "reasoning": "r"}])");
  // What is null is left out of a message, and not of what is within its fields.
  EXPECT_EQ(fields({{"role", "assistant"}, {"reasoning", nullptr}, {"n", {nullptr}}}),
            R"([{"role": "assistant", "n": [null]}])");
}

// As Qwen's templates do; transformers writes the same (tests/peers/hf_chat_templates.py).
constexpr char kToolTemplate[] =
    "{% if tools %}<tools>{% for tool in tools %}{{ tool | tojson }}{% endfor %}</tools>\n{% "
    "endif %}"
    "{% for m in messages %}<{{ m.role }}>{% if m.content %}{{ m.content }}{% endif %}"
    "{% for call in m.tool_calls %}{% set f = call.function if call.function else call %}"
    "<call>{{ f.name }}({% if f.arguments is string %}{{ f.arguments }}{% else %}"
    "{{ f.arguments | tojson }}{% endif %})</call>{% endfor %}</e>\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}";

TEST(ChatTemplate, ToolsAreWrittenAsTransformersDoes) {
  const auto document = ParseDocument(
      R"({"tools": "[{\"type\": \"function\", \"function\": {\"name\": \"add\", \"a\": []}}]",)"
      R"( "messages": [{"role": "user", "content": "1 + 2?"},)"
      R"( {"role": "assistant", "tool_calls": [{"function":)"
      R"( {"name": "add", "arguments": {"y": 1.0, "x": [2e-7, null, true, "\"\n\u00e9"]}}}]},)"
      R"( {"role": "tool", "name": "add", "content": "3"},)"
      R"( {"role": "assistant", "content": "3.", "tool_calls": [{"name": "f", "arguments": "{}"}]}]})");
  ASSERT_TRUE(document.ok()) << document.status();
  EXPECT_EQ(
      RenderConversation(kToolTemplate, document->conversation),
      "<tools>{\"type\": \"function\", \"function\": {\"name\": \"add\", \"a\": []}}</tools>\n"
      "<user>1 + 2?</e>\n<assistant>[<call>add({\"y\": 1.0, \"x\": [2e-07, null, true, "
      "\"\\\"\\n\xC3\xA9\"]})</call></e>]\n<tool>3</e>\n<assistant>[3.<call>f({})</call></e>]\n");
}

TEST(ChatTemplate, WhatACallLeavesOutDoesNotHideIt) {
  const Json call = {
      {"role", "assistant"}, {"content", "thought"}, {"tool_calls", {{{"name", "f"}}}}};
  const std::string text =
      "{% for m in messages %}<{{ m.role }}>{% if m.tool_calls %}{{ m.tool_calls[0].name }}()"
      "{% elif m.content != 'lost' %}{{ m.content }}{% endif %}</e>{% endfor %}"
      "{% if add_generation_prompt %}<assistant>{% endif %}";
  for (const char* next : {"b", "a thought", "thought"}) {
    EXPECT_EQ(RenderConversation(
                  text, {{{"user", "a"}, {"assistant", "thought", call}, {"assistant", next}}}),
              absl::StrCat("<user>a</e><assistant>[f()</e>]<assistant>[", next, "</e>]"));
  }
  // Without a call it is not known where such a turn ends.
  EXPECT_THAT(Render(text, {{"user", "a"}, {"assistant", "lost"}, {"assistant", "not lost"}}),
              HasSubstr("cannot tell which text is message 2"));
}

TEST(ChatTemplate, ATemplateThatKnowsNoToolsDoesNotLoseThem) {
  const std::string text =
      "{% for m in messages %}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}";
  const Json call = {{"role", "assistant"}, {"tool_calls", {{{"name", "f"}}}}};
  EXPECT_THAT(RenderConversation(text, {{{"user", "a"}, {"assistant", "", call}}}),
              HasSubstr("does not write 'tool_calls', which message 1 has; give one that does with "
                        "--chat-template FILE"));
  EXPECT_THAT(RenderConversation(text, {{{"user", "a"}}, {{{"name", "f"}}}}),
              HasSubstr("does not write 'tools', which are given; give one that does with "
                        "--chat-template FILE"));
  EXPECT_EQ(RenderConversation(text, {{{"user", "a"}}, Json::array()}), "[a]");
}

// As json.dumps of Python.
TEST(ChatTemplate, JsonIsAsPythonWritesIt) {
  const auto json = [](const std::string& value) { return Render("{{ " + value + " }}", {}); };
  EXPECT_EQ(
      json("{'b': [1, {'a': none}], 'a': [], 'c': {}} | tojson(indent=2)"),
      "{\n  \"b\": [\n    1,\n    {\n      \"a\": null\n    }\n  ],\n  \"a\": [],\n  \"c\": {}\n}");
  EXPECT_EQ(json("[1, 'x'] | tojson(indent=none)"), "[1, \"x\"]");
  EXPECT_EQ(json("'\xC3\xA9/\x01\x7F' | tojson"), "\"\xC3\xA9/\\u0001\x7F\"");
  EXPECT_THAT(json("[1] | tojson(2)"), HasSubstr("have no name"));
  EXPECT_EQ(json("{'b': 1, 'a': {'d': 1, 'c': 2}} | tojson(sort_keys=true)"),
            R"({"a": {"c": 2, "d": 1}, "b": 1})");
  EXPECT_EQ(json("{'b': [1, 2]} | tojson(separators=(',', ':'))"), R"({"b":[1,2]})");
  EXPECT_EQ(json("[1, 2] | tojson(separators=(', ', ':'), indent=1)"), "[\n 1, \n 2\n]");
  EXPECT_EQ(json("'\xC3\xA9\xF0\x9F\x98\x80' | tojson(ensure_ascii=true)"),
            R"("\u00e9\ud83d\ude00")");
  EXPECT_THAT(json("[1] | tojson(default=str)"), HasSubstr("'default' of the filter 'tojson'"));
  for (const char* value : {"x", "[x]", "{'a': x}", "{'a': [1, {'b': x}]}"}) {
    EXPECT_THAT(json(absl::StrCat(value, " | tojson")), HasSubstr("cannot take undefined"));
  }
  const std::string text = "{{ messages[0].x }} {{ messages[0].x | tojson }}";
  for (const auto& [number, written] :
       std::vector<std::pair<double, std::string>>{{0.1, "0.1"},
                                                   {100000, "100000.0"},
                                                   {1e15, "1000000000000000.0"},
                                                   {1e16, "1e+16"},
                                                   {123456789012345680, "1.2345678901234568e+17"},
                                                   {0.0001, "0.0001"},
                                                   {0.00001, "1e-05"},
                                                   {-1.5e-10, "-1.5e-10"},
                                                   {5e-324, "5e-324"},
                                                   {-0.0, "-0.0"},
                                                   {2.5e+300, "2.5e+300"}}) {
    EXPECT_EQ(Render(text, {{"user", "", {{"role", "user"}, {"x", number}}}}),
              absl::StrCat(written, " ", written));
  }
}

// `ns.list` becomes another list while an element of it is asked for; Jinja2 would take the list first.
TEST(ChatTemplate, AnIndexMayChangeWhatItIsOf) {
  EXPECT_EQ(Render("{% set ns = namespace(list=['aaaaaaaaaaaaaaaaaaaaaaaaa']) %}"
                   "{% macro f() %}{% set ns.list = [] %}{% endmacro %}"
                   "{{ ns.list[f()|length] ~ ns.list|length }}",
                   {}),
            "0");
}

TEST(ChatTemplate, AMacroMayDefineItselfAnew) {
  EXPECT_EQ(Render("{% macro g() %}{% macro f() %}new{% endmacro %}{% endmacro %}"
                   "{% macro f(a=g(), b=1, c=2) %}{{ b + c }}{% endmacro %}{{ f() }}{{ f() }}",
                   {}),
            "3new");
}

}  // namespace
}  // namespace sluice
