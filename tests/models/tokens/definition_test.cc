// What a tokenizer.json may say, what is refused, and that the refusal names file, field and value.
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/tokens/decode_stream.h"
#include "models/tokens/encoder.h"
#include "models/tokens/tokenizer.h"

namespace sluice {
namespace {

using Ids = std::vector<int32_t>;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kFile[] = "folder/tokenizer.json";

// A file, field by field: the words a, b, c, ab and a normalizer and so on of null.
struct File {
  std::string model = R"("type": "BPE", "vocab": {"a":0,"b":1,"c":2,"ab":3}, "merges": ["a b"])";
  std::string added = "[]";
  std::string normalizer = "null";
  std::string pre_tokenizer = "null";
  std::string post_processor = "null";
  std::string decoder = "null";

  std::string Text() const {
    return absl::StrCat(R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":)",
                        added, ",\"normalizer\":", normalizer, ",\"pre_tokenizer\":", pre_tokenizer,
                        ",\"post_processor\":", post_processor, ",\"decoder\":", decoder,
                        ",\"model\":{", model, "}}");
  }
};

std::string Token(int id, const std::string& content, bool normalized = false) {
  return absl::StrCat(R"({"id":)", id, R"(,"content":")", content,
                      R"(","single_word":false,"lstrip":false,"rstrip":false,"normalized":)",
                      normalized ? "true" : "false", R"(,"special":true})");
}

std::unique_ptr<const Tokenizer> Load(const File& file) {
  auto tokenizer = Tokenizer::Load(file.Text(), kFile);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

Ids Encode(const File& file, const std::string& text) {
  const auto tokenizer = Load(file);
  return tokenizer == nullptr ? Ids{-1} : *Encode(*tokenizer, text);
}

std::string Refusal(const std::string& text) {
  const auto tokenizer = Tokenizer::Load(text, kFile);
  EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_THAT(std::string(tokenizer.status().message()), StartsWith(absl::StrCat(kFile, ": ")));
  return std::string(tokenizer.status().message());
}

TEST(TokenizerFile, TheSmallestOne) {
  EXPECT_THAT(Encode({}, "abcab"), ElementsAre(3, 2, 3));
  EXPECT_THAT(Encode({}, "a?b"), ElementsAre(3));  // what is no word is nothing, as ever
  EXPECT_EQ(Load({})->vocabulary_size(), 4);
  EXPECT_EQ(*Decode(*Load({}), {3, 2}), "ab c");
}

TEST(TokenizerFile, MergesMayBePairs) {
  EXPECT_THAT(Encode({.model = R"("vocab":{"a":0,"b c":1,"ab c":2,"b":3," ":4,"c":5,"b ":6},
                               "merges":[["b"," "],["b ","c"],["a","b c"]])"},
                     "ab c"),
              ElementsAre(2));
  EXPECT_THAT(
      Encode({.model = R"("vocab":{"a":0,"b":1,"ab":2}, "merges":["#version: 0.2","a b"])"}, "ab"),
      ElementsAre(2));
}

TEST(TokenizerFile, TheModelSaysWhatIsNotSupported) {
  const std::string words = R"("vocab":{"a":0,"b":1,"ab":2},"merges":["a b"],)";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {words + R"("type":"WordPiece")", R"(field 'model.type' is "WordPiece"; expected "BPE")"},
      {words + R"("dropout":0.1)", "field 'model.dropout' is 0.1; expected null"},
      {words + R"("continuing_subword_prefix":"##")", "'model.continuing_subword_prefix'"},
      {words + R"("end_of_word_suffix":"</w>")", "'model.end_of_word_suffix'"},
      {words + R"("unk_token":7)", "field 'model.unk_token' is 7; expected a string"},
      {words + R"("fuse_unk":"yes")", "field 'model.fuse_unk' is \"yes\"; expected true or false"},
      {words + R"("byte_fallback":1)", "'model.byte_fallback'"},
      {words + R"("ignore_merges":[])", "'model.ignore_merges'"},
      {R"("merges":[])", "field 'model.vocab' is null or missing"},
      {R"("vocab":[["a",0]],"merges":[])", "'model.vocab'"},
      {R"("vocab":{"a":-1},"merges":[])", "field 'model.vocab.a' is -1"},
      {R"("vocab":{"a":1.5},"merges":[])", "field 'model.vocab.a' is 1.5"},
      {R"("vocab":{"a":4294967296},"merges":[])", "'model.vocab.a' is 4294967296"},
      {R"("vocab":{"a":0,"b":0},"merges":[])", "expected an id of its own"},
      {R"("vocab":{"a":0,"a":1},"merges":[])", "given twice"},
      {R"("vocab":{"a":0})", "field 'model.merges' is null or missing; expected an array"},
      {R"("vocab":{"a":0},"merges":{"a":"b"})", "'model.merges'"},
      {R"("vocab":{"a":0},"merges":["a"])", "field 'model.merges[0]' is \"a\"; expected two words"},
      {R"("vocab":{"a":0},"merges":["a a a"])", "expected two words"},
      {R"("vocab":{"a":0},"merges":[["a"]])", "expected two words"},
      {R"("vocab":{"a":0},"merges":[["a",1]])", "field 'model.merges[0][1]' is 1"},
      {R"("vocab":{"a":0},"merges":["a b"])", "\"b\" is none"},
      {R"("vocab":{"a":0,"b":1},"merges":["a b"])", "\"ab\" is none"}};
  for (const auto& [model, says] : cases) {
    EXPECT_THAT(Refusal(File{.model = model}.Text()), HasSubstr(says));
  }
  EXPECT_THAT(Refusal(R"({"model":[]})"), HasSubstr("field 'model' is []; expected an object"));
  EXPECT_THAT(Refusal(R"({"model":null})"), HasSubstr("'model'"));
}

TEST(TokenizerFile, WhatStandsForNothingIsFine) {
  const std::string words = R"("vocab":{"a":0},"merges":[],)";
  for (const char* more :
       {R"("dropout":null)", R"("dropout":0.0)", R"("continuing_subword_prefix":"")",
        R"("end_of_word_suffix":null)", R"("unk_token":"")", R"("something_new":1)"}) {
    EXPECT_THAT(Encode({.model = words + more}, "a"), ElementsAre(0));
  }
}

TEST(TokenizerFile, StepsSayWhatIsNotSupported) {
  const std::string split = R"({"type":"Split","invert":false,"behavior":"Isolated",)";
  const std::string metaspace = R"({"type":"Metaspace","replacement":)";
  const std::vector<std::pair<File, std::string>> cases = {
      {{.normalizer = "7"}, "field 'normalizer' is 7; expected an object"},
      {{.normalizer = R"({"type":"BertNormalizer"})"}, "field 'normalizer.type' is \"BertNorm"},
      {{.normalizer = R"({"type":"Sequence"})"}, "'normalizer.normalizers'"},
      {{.normalizer = R"({"type":"Sequence","normalizers":[{"type":"Nmt"}]})"},
       "field 'normalizer.normalizers[0].type' is \"Nmt\"; expected NFC"},
      {{.normalizer = R"({"type":"Strip","strip_left":1})"}, "'normalizer.strip_left'"},
      {{.normalizer = R"({"type":"Prepend"})"}, "'normalizer.prepend'"},
      {{.normalizer = R"({"type":"Replace","pattern":"a","content":""})"}, "'normalizer.pattern'"},
      {{.normalizer = R"({"type":"Replace","pattern":{"String":""},"content":""})"}, "not empty"},
      {{.normalizer = R"({"type":"Replace","pattern":{"Regex":"a"},"content":"$1"})"},
       "expected a text without $"},
      {{.normalizer = R"({"type":"Replace","pattern":{"Regex":"\\w"},"content":"x"})"},
       "field 'normalizer': \\w at byte 0"},
      {{.pre_tokenizer = R"({"type":"Whitespace"})"}, "field 'pre_tokenizer.type' is \"White"},
      {{.pre_tokenizer = split + R"("pattern":{"Regex":"["}})"}, "field 'pre_tokenizer': "},
      {{.pre_tokenizer = split + R"("pattern":{"Regexp":"a"}})"}, "'pre_tokenizer.pattern.String'"},
      {{.pre_tokenizer = R"({"type":"Split","invert":false,"behavior":"Cut",
                             "pattern":{"String":"a"}})"},
       "field 'pre_tokenizer.behavior' is \"Cut\"; expected Removed, Isolated"},
      {{.pre_tokenizer = metaspace + R"("__"})"}, "expected one character"},
      {{.pre_tokenizer = metaspace + R"("_","prepend_scheme":"last"})"}, "always, first or never"},
      {{.pre_tokenizer = metaspace + R"("_","add_prefix_space":false})"}, "'pre_tokenizer.add_pre"},
      {{.pre_tokenizer = R"({"type":"Sequence","pretokenizers":[
            {"type":"ByteLevel","add_prefix_space":false},{"type":"Digits","individual_digits":true}]})"},
       "field 'pre_tokenizer.pretokenizers[1]'"},
      {{.decoder = R"({"type":"WordPiece"})"}, "field 'decoder.type' is \"WordPiece\""},
      {{.decoder = R"({"type":"Strip","content":"","start":0,"stop":0})"}, "'decoder.content'"},
      {{.decoder = R"({"type":"Strip","content":"a","start":-1,"stop":0})"}, "'decoder.start'"},
      {{.decoder = R"({"type":"Replace","pattern":{"Regex":"a"},"content":""})"}, "in a decoder"},
      {{.decoder = R"({"type":"Sequence","decoders":[
            {"type":"Replace","pattern":{"String":"a"},"content":"aa"},
            {"type":"Replace","pattern":{"String":"a"},"content":"aa"}]})"},
       "field 'decoder.decoders[1].content' is \"aa\"; expected no second replacement"},
      {{.post_processor = R"({"type":"BertProcessing"})"}, "'post_processor.type'"},
      {{.post_processor = R"({"type":"TemplateProcessing","single":[],"special_tokens":{}})"},
       "expected the sequence A once"},
      {{.post_processor = R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>",
            "type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"special_tokens":{}})"},
       "'post_processor.special_tokens.<s>"},
      {{.post_processor = R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>",
            "type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"special_tokens":{"<s>":{"ids":[9]}}})"},
       "field 'post_processor': the id 9 of a special token has no word"}};
  for (const auto& [file, says] : cases) EXPECT_THAT(Refusal(file.Text()), HasSubstr(says));
}

// `tokenizers` prepends to each word at the start of the text, and "1/2" of U+00BD are three.
TEST(TokenizerFile, OneWordStandsFirst) {
  File file;
  file.pre_tokenizer =
      R"({"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},)"
      R"({"type":"Metaspace","replacement":"_","prepend_scheme":"first","split":true}]})";
  EXPECT_NE(Load(file), nullptr);
  file.normalizer = R"({"type":"NFKD"})";
  EXPECT_THAT(Refusal(file.Text()), HasSubstr("behind another step is not supported"));
}

TEST(TokenizerFile, NormalizersMakeNoTextEndless) {
  std::string steps;
  for (int i = 0; i < 20; ++i) {
    absl::StrAppend(&steps, i > 0 ? "," : "",
                    R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaa"})");
  }
  const auto tokenizer =
      Load({.normalizer = absl::StrCat(R"({"type":"Sequence","normalizers":[)", steps, "]}")});
  const auto ids = Encode(*tokenizer, "banana");
  EXPECT_EQ(ids.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(ids.status().message()), HasSubstr("a text of 6 bytes longer than"));
  EXPECT_TRUE(Encode(*tokenizer, "bbb").ok());
}

TEST(TokenizerFile, AddedTokensHaveTheIdsThatTheyGet) {
  const auto added = [](const std::string& tokens) {
    return File{.added = absl::StrCat("[", tokens, "]")};
  };
  EXPECT_THAT(
      Encode(added(Token(4, "<x>") + "," + Token(5, "<y>") + "," + Token(3, "ab")), "<y><x>ab"),
      ElementsAre(5, 4, 3));
  EXPECT_EQ(Load(added(Token(4, "<x>")))->vocabulary_size(), 5);
  // Hugging Face's library gives these other ids than the file says.
  EXPECT_THAT(Refusal(added(Token(4, "<x>") + "," + Token(7, "<y>")).Text()),
              HasSubstr("field 'added_tokens[1].id' is 7; expected 5"));
  EXPECT_THAT(
      Refusal(added(Token(9, "ab")).Text()),
      HasSubstr("field 'added_tokens[0].id' is 9; expected 3, the id that model.vocab has"));
  EXPECT_THAT(Refusal(added(Token(1, "<x>")).Text()), HasSubstr("is 1; expected 4"));
  EXPECT_THAT(Refusal(added(Token(4, "<x>") + "," + Token(5, "<x>")).Text()),
              HasSubstr("'added_tokens[1].content'"));
  EXPECT_THAT(Refusal(added(Token(4, "")).Text()), HasSubstr("'added_tokens[0].content'"));
  EXPECT_THAT(Refusal(added("7").Text()), HasSubstr("field 'added_tokens[0]' is 7"));
  EXPECT_THAT(Refusal(File{.added = "{}"}.Text()), HasSubstr("'added_tokens'"));
}

TEST(TokenizerFile, NormalizedAddedTokensHaveToStayApart) {
  File file{.normalizer = R"({"type":"Lowercase"})"};
  file.added = absl::StrCat("[", Token(4, "<X>", true), ",", Token(5, "<x>", true), "]");
  EXPECT_THAT(Refusal(file.Text()), HasSubstr("the added tokens '<x>' and '<X>' one text"));
  // Only the model's word is that of the text "ab".
  File words{.added = absl::StrCat("[", Token(4, "AB", true), "]"),
             .normalizer = R"({"type":"Lowercase"})"};
  EXPECT_EQ(Load(words)->IdOf("ab"), 3);
  EXPECT_EQ(Load(words)->IdOf("AB"), 4);
  EXPECT_THAT(Encode(words, "cAB"), ElementsAre(2, 4));
  file.normalizer = R"({"type":"Strip","strip_left":true,"strip_right":true})";
  file.added = absl::StrCat("[", Token(4, "  ", true), "]");
  EXPECT_THAT(Refusal(file.Text()), HasSubstr("leaves nothing of the added token"));
}

TEST(TokenizerFile, WhatIsNoJsonIsRefusedWithItsPlace) {
  EXPECT_THAT(Refusal(""), HasSubstr("line 1, column 1: not valid JSON"));
  EXPECT_THAT(Refusal("{\"model\":"), HasSubstr("expected a Hugging Face tokenizer.json"));
  EXPECT_THAT(Refusal("[]"), HasSubstr("the document is []"));
  EXPECT_THAT(Refusal("null"), HasSubstr("the document"));
  EXPECT_THAT(Refusal(std::string(100'000, '[')), HasSubstr("nested more than"));
  const std::string whole = File{}.Text();
  for (size_t size = 0; size < whole.size(); ++size) Refusal(whole.substr(0, size));
}

TEST(TokenizerFile, EveryFieldOfAnotherTypeIsRefusedOrFine) {
  // Whatever stands in the place of a value, nothing crashes, and an error names the file.
  const std::string whole =
      File{.added = absl::StrCat("[", Token(4, "<x>"), "]"),
           .normalizer = R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Replace",
               "pattern":{"String":" "},"content":"_"}]})",
           .pre_tokenizer = R"({"type":"Sequence","pretokenizers":[{"type":"Split","invert":false,
               "pattern":{"Regex":"a+"},"behavior":"Isolated"},{"type":"ByteLevel",
               "add_prefix_space":true,"use_regex":true}]})",
           .post_processor = R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"a",
               "type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
               "special_tokens":{"a":{"id":"a","ids":[0],"tokens":["a"]}}})",
           .decoder = R"({"type":"Sequence","decoders":[{"type":"Strip","content":"a","start":1,
               "stop":0},{"type":"ByteLevel"}]})"}
          .Text();
  int refused = 0;
  for (size_t colon = whole.find(':'); colon != std::string::npos;
       colon = whole.find(':', colon + 1)) {
    const size_t end = whole.find_first_of(",}]", colon);
    for (const char* value : {"null", "7", "-1", "\"x\"", "[]", "{}", "true", "1e300", "[[{}]]"}) {
      const std::string text = whole.substr(0, colon + 1) + value + whole.substr(end);
      const auto tokenizer = Tokenizer::Load(text, kFile);
      if (tokenizer.ok()) continue;
      ++refused;
      EXPECT_THAT(std::string(tokenizer.status().message()), StartsWith(kFile));
    }
  }
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace sluice
