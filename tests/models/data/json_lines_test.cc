#include "models/data/documents/json_lines.h"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/data/documents/document.h"
#include "models/data/open_dataset.h"
#include "models/tokens/tokenizer.h"
#include "tests/models/data/files.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kSeq = 12;

// A tokenizer of 95 printable characters, each a token: its code less 32; 95 ends a text.
std::string Characters() {
  std::string vocabulary;
  for (int c = 32; c < 127; ++c) {
    const char character = static_cast<char>(c);
    const bool escape = character == '"' || character == '\\';
    absl::StrAppend(&vocabulary, vocabulary.empty() ? "" : ",", "\"", escape ? "\\" : "",
                    std::string(1, character), "\":", c - 32);
  }
  return absl::StrCat(
      R"({"added_tokens":[{"id":95,"content":"<end>","single_word":false,"lstrip":false,)",
      R"("rstrip":false,"normalized":false,"special":true}],"normalizer":null,"pre_tokenizer":null,)",
      R"("post_processor":null,"decoder":null,"model":{"type":"BPE","dropout":null,)",
      R"("unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,)",
      R"("fuse_unk":false,"byte_fallback":false,"vocab":{)", vocabulary, R"(},"merges":[]}})");
}

class JsonLinesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto tokenizer = Tokenizer::Load(Characters(), "characters");
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    tokenizer_ = *std::move(tokenizer);
    format_.tokenizer = tokenizer_.get();
    format_.end = "<end>";
    format_.render_chat = [](const Conversation& conversation, LossOn) {
      std::vector<ChatPiece> pieces;
      for (const ChatMessage& message : conversation.messages) {
        pieces.push_back({message.role.substr(0, 1) + ":", false});
        pieces.push_back({message.content + "<end>", message.role == "assistant"});
      }
      return pieces;
    };
  }

  DataRequest Request() const {
    return {.path = path_,
            .seq = kSeq,
            .vocabulary = 96,
            .validation = {.share = 0},
            .text = &format_,
            .pack = pack_,
            .loss_on = loss_on_,
            .threads = 3};
  }
  std::string Error(const std::string& lines) {
    WriteBytes(path_, lines);
    const absl::Status status = OpenDataset(Request()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  // Window by window, in no order: the input, the targets ('.': none) and where documents begin.
  std::set<std::string> Windows(const Dataset& data) {
    std::set<std::string> windows;
    for (int64_t i = 0; i < data.samples(Split::kTrain); ++i) {
      std::vector<int32_t> input(kSeq), targets(kSeq), starts(kSeq);
      data.Fill(Split::kTrain, i, 1, DType::kInt32,
                {.input = input.data(), .targets = targets.data(), .starts = starts.data()});
      std::string text;
      for (size_t t = 0; t < kSeq; ++t) {
        if (starts[t] == static_cast<int32_t>(t)) text += '|';
        text += input[t] == 95 ? '$' : static_cast<char>(input[t] + 32);
      }
      text += "  ";
      for (size_t t = 0; t < kSeq; ++t) {
        text += targets[t] == kNoTarget ? '.'
                : targets[t] == 95      ? '$'
                                        : static_cast<char>(targets[t] + 32);
      }
      windows.insert(text);
    }
    return windows;
  }
  std::set<std::string> WindowsOf(const std::string& lines) {
    WriteBytes(path_, lines);
    const auto data = OpenDataset(Request());
    EXPECT_TRUE(data.ok()) << data.status();
    if (!data.ok()) return {};
    notes_ = (*data)->notes();
    return Windows(**data);
  }

  TempFolder folder_;
  std::string path_ = folder_ / "d.jsonl";
  std::unique_ptr<const Tokenizer> tokenizer_;
  TextFormat format_;
  std::optional<bool> pack_;
  LossOn loss_on_ = LossOn::kAssistant;
  std::vector<std::string> notes_;
};

TEST_F(JsonLinesTest, PacksTheDocumentsOfLines) {
  const std::string lines =
      "{\"text\": \"abcd\"}\n\n  \r\n{\"prompt\": \"pq\", \"completion\": \"rs\", \"id\": 7}\r\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}, "
      "{\"role\": \"assistant\", \"content\": \"yz\"}]}";
  EXPECT_THAT(WindowsOf(lines),
              ElementsAre("|abcd$|pqrs$|    bcd$..rs$...", "|u:x$a:yz$|     .....yz$...."));
  EXPECT_THAT(notes_, ElementsAre());
  loss_on_ = LossOn::kAll;
  EXPECT_THAT(WindowsOf(lines),
              ElementsAre("|abcd$|pqrs$|    bcd$.qrs$...", "|u:x$a:yz$|     :x$a:yz$...."));
  pack_ = false;
  EXPECT_EQ(WindowsOf(lines).size(), 3U);
}

TEST_F(JsonLinesTest, LongTextsAreSplitAndLongConversationsCut) {
  EXPECT_THAT(WindowsOf("{\"text\": \"abcdefghijklmnop\"}\n"),
              ElementsAre("|abcdefghijkl  bcdefghijklm", "|mnop$|         nop$........"));
  EXPECT_THAT(notes_, ElementsAre());
  EXPECT_THAT(WindowsOf("{\"prompt\": \"abcdef\", \"completion\": \"ghijklmnop\"}\n"),
              ElementsAre("|abcdefghijkl  .....ghijkl."));
  EXPECT_THAT(notes_, ElementsAre(AllOf(HasSubstr("1 of 1 documents are longer than the 12"),
                                        HasSubstr("last 5 tokens"))));
}

TEST_F(JsonLinesTest, DocumentsWithoutATargetAreLeftOutAndCounted) {
  EXPECT_EQ(WindowsOf("{\"text\": \"\"}\n{\"text\": \"ab\"}\n{\"messages\": [{\"role\": \"user\", "
                      "\"content\": \"x\"}]}\n")
                .size(),
            1U);
  EXPECT_THAT(notes_, ElementsAre(HasSubstr("2 of 3 documents have no token that counts")));
}

TEST_F(JsonLinesTest, DocumentsThatNothingEndsAreCounted) {
  const std::string lines =
      "{\"text\": \"abc\"}\n{\"prompt\": \"a\", \"completion\": \"bc\"}\n"
      "{\"messages\": [{\"role\": \"assistant\", \"content\": \"a\"}]}\n";
  WindowsOf(lines);
  EXPECT_THAT(notes_, IsEmpty());
  format_.end.clear();
  WindowsOf(lines);
  EXPECT_THAT(notes_, ElementsAre(HasSubstr(": 2 of 3 documents end without a word")));
}

TEST_F(JsonLinesTest, AFolderIsItsFilesAndManyLinesKeepTheirOrder) {
  std::string lines;
  for (int i = 0; i < 3000; ++i) absl::StrAppend(&lines, "{\"text\": \"", i, "\"}\n");
  WriteBytes(folder_ / "a.jsonl", lines);
  WriteBytes(folder_ / "b.jsonl", "{\"text\": \"last\"}");
  WriteBytes(folder_ / "validation.jsonl", "{\"text\": \"other\"}");
  path_ = folder_.path();
  DataRequest request = Request();
  const auto many = OpenDataset(request);
  ASSERT_TRUE(many.ok()) << many.status();
  EXPECT_EQ((*many)->samples(Split::kValidation), 1);
  request.threads = 1;
  const auto one = OpenDataset(request);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ((*one)->fingerprint(), (*many)->fingerprint());
  EXPECT_EQ(Windows(**one), Windows(**many));
}

TEST_F(JsonLinesTest, ValidationWithoutADocumentIsAnError) {
  WriteBytes(path_, "{\"text\": \"abc\"}\n");
  const std::string other = folder_ / "other.jsonl";
  DataRequest request = Request();
  request.validation.path = other;
  for (const char* lines : {"", "\n", "{\"text\": \"\"}\n",
                            "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}\n"}) {
    WriteBytes(other, lines);
    const absl::Status status = OpenDataset(request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << lines;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(other + " leaves no document to evaluate with"))
        << lines;
  }
  WriteBytes(other, "{\"text\": \"d\"}\n");
  const auto data = OpenDataset(request);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ((*data)->samples(Split::kValidation), 1);
}

TEST_F(JsonLinesTest, AnEmptyFileIsAnError) {
  DataRequest request = Request();
  for (const double share : {0.0, 0.1}) {
    WriteBytes(path_, "");
    request.validation.share = share;
    EXPECT_THAT(std::string(OpenDataset(request).status().message()),
                HasSubstr(path_ + " leaves no document to train on"));
  }
}

// Of a file that is not named .jsonl the first line is read to its end, however long it is.
TEST_F(JsonLinesTest, AFirstLineMayBeLong) {
  path_ = folder_ / "d.json";
  for (const char* const end : {"", "\n", "\n{\"text\": \"b\"}\n"}) {
    WriteBytes(path_, absl::StrCat("{\"text\": \"", std::string(100'000, 'a'), "\"}", end));
    const auto data = OpenDataset(Request());
    ASSERT_TRUE(data.ok()) << data.status();
    EXPECT_THAT((*data)->description(), HasSubstr("documents: "));
  }
}

TEST_F(JsonLinesTest, ALineThatIsWrongIsNamed) {
  const std::string good = "{\"text\": \"a b\"}\n\n";
  const auto expect = [&](const std::string& line, const char* message) {
    EXPECT_THAT(Error(good + line + "\n{\n"),
                AllOf(HasSubstr(path_ + ": line 3, "), HasSubstr(message)));
  };
  expect("{\"text\": 3}", "field 'text' is 3; expected a text");
  expect("{\"text\": \"a\"", "column 13: not valid JSON");
  expect("[1]", "is [1]; expected {\"text\"");
  expect("{\"id\": 1}", "has none of these fields");
  expect("{\"text\": \"a\", \"messages\": []}", "several forms: 'text' and 'messages'; ");
  expect("{\"prompt\": \"a\", \"completion\": \"b\", \"messages\": []}",
         "several forms: 'prompt' and 'completion' and 'messages'; ");
  const std::string message = "{\"messages\": [{\"role\": \"user\", \"content\": \"\", \"n\": ";
  expect(message + "123456789012345678901}]}",
         "the whole number 123456789012345678901 has more than 64 bits; write it as a text");
  expect("{\"prompt\": \"a\"}", "field 'completion' is missing");
  expect("{\"completion\": \"a\"}", "field 'prompt' is missing");
  expect("{\"messages\": []}", "field 'messages' is []; expected a list");
  expect("{\"messages\": [{\"role\": \"user\"}]}", "field 'messages[0].content' is missing");
  expect("{\"messages\": [{\"role\": \"u\", \"content\": [1]}]}", "'messages[0].content' is [1]");
  expect("{\"messages\": [{\"role\": \"u\", \"content\": \"\", \"tool_calls\": [1]}]}",
         "field 'messages[0].tool_calls' is [1]; expected a list of {\"function\"");
  expect("{\"messages\": [{\"role\": \"u\", \"tool_calls\": [{\"function\": {\"name\": 1}}]}]}",
         "field 'messages[0].tool_calls' is [{\"function\":{\"name\":1}}]; expected a list of");
  expect("{\"messages\": [{\"role\": \"u\", \"content\": null, \"tool_calls\": []}]}",
         "field 'messages[0].content' is null; expected a text");
  expect(
      "{\"messages\": [{\"role\": \"u\", \"content\": \"\", \"function_call\": {\"name\": "
      "\"f\"}}]}",
      "field 'messages[0].function_call' is {\"name\":\"f\"}; expected 'tools' and 'tool_calls'");
  expect("{\"messages\": [{\"role\": \"u\", \"content\": \"\"}], \"tools\": {\"name\": \"f\"}}",
         "field 'tools' is {\"name\":\"f\"}; expected a list of objects");
  expect("{\"messages\": [{\"role\": \"u\", \"content\": \"\"}], \"tools\": \"[1]\"}",
         "field 'tools' is [1]; expected a list of objects");
  expect("{\"text\": \"a\", \"tools\": [{\"name\": \"f\"}]}", "expected no tools beside a text");
  expect("{\"messages\": [3]}", "field 'messages[0]' is 3");
  expect("{\"text\": \"\xC3(\"}", "not valid JSON");
  expect("{\"text\": \"a\", \"text\": \"b\"}", "is given twice");
  expect(std::string(100, '['), "nested more than");
  std::string wide = "{\"text\": \"a\"";
  for (int i = 1; i <= 1000; ++i) absl::StrAppend(&wide, ",\"", i, "\":1");
  expect(wide + "}", "more than 1000 fields in one object");
  format_.render_chat = nullptr;
  expect("{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}", "no chat template");
}

// As many data sets of conversations have it.
TEST_F(JsonLinesTest, APromptAloneIsAFieldLikeAnyOther) {
  const auto chat =
      ParseDocument(R"({"prompt": "a", "messages": [{"role": "user", "content": "a"}], "id": 1})");
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->form, Document::Form::kMessages);
  const auto text = ParseDocument(R"({"prompt": "a", "text": "b"})");
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->text, "b");
}

TEST_F(JsonLinesTest, TextIsReadWithTheTokenizer) {
  path_ = folder_ / "text.txt";
  std::string text;
  for (int i = 0; i < 100; ++i) absl::StrAppend(&text, "word ", i, " ");
  WriteBytes(path_, text);
  const auto data = OpenDataset(Request());
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_FALSE((*data)->has_documents());
  EXPECT_EQ((*data)->classes(), 96);
  EXPECT_EQ((*data)->samples(Split::kTrain), (static_cast<int64_t>(text.size()) - 1) / kSeq - 1);
  pack_ = true;
  EXPECT_THAT(std::string(OpenDataset(Request()).status().message()),
              AllOf(HasSubstr("--pack"), HasSubstr(path_)));
}

}  // namespace
}  // namespace sluice
