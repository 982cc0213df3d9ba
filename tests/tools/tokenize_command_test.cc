// `sluice tokenize`: what it prints and writes, and how it refuses.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/built_files.h"
#include "tests/shared_folder.h"
#include "tests/tools/sluice_process.h"
#include "tools/command.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Fixture(const std::string& name) {
  return (SourceFolder() / "tests/models/tokens/fixtures" / name).string();
}

class TokenizeCommandTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& bytes) {
    WriteBytes(folder_ / name, bytes);
    return folder_ / name;
  }
  ProcessResult Tokenize(const std::string& arguments) {
    return RunSluice(Words(absl::StrCat("tokenize ", arguments)));
  }
  void ExpectRefusal(const std::string& arguments, const std::vector<std::string>& says) {
    const ProcessResult result = Tokenize(arguments);
    EXPECT_EQ(result.exit_code, kExitBadInput) << arguments;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, StartsWith("sluice: "));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    for (const std::string& part : says) EXPECT_THAT(result.err, HasSubstr(part));
  }

  const TempFolder folder_;
  const std::string llama_ = absl::StrCat("--tokenizer ", Fixture("llama2.json"));
};

// Of tests/models/tokens/fixtures/expected.json: the ids that Hugging Face's library gives.
TEST_F(TokenizeCommandTest, PrintsTheTokensOfExpectedTexts) {
  const auto expected = nlohmann::json::parse(ReadBytes(Fixture("expected.json")));
  int compared = 0;
  for (const auto& one : expected["cases"]) {
    if (one["tokenizer"] != "llama2" || compared == 5) continue;
    ++compared;
    const std::string data = Write("text", one["text"]);
    const ProcessResult json = Tokenize(absl::StrCat(llama_, " --json --data ", data));
    EXPECT_EQ(json.exit_code, kExitDone) << json.err;
    EXPECT_EQ(nlohmann::json::parse(json.out), (nlohmann::json{{"tokens", one["ids"]}}));
    const ProcessResult plain =
        Tokenize(absl::StrCat(llama_, " --no-special-tokens --json --data ", data));
    EXPECT_EQ(nlohmann::json::parse(plain.out)["tokens"], one["without_special"]);
  }
  EXPECT_EQ(compared, 5);
}

TEST_F(TokenizeCommandTest, PrintsTokensWithSpacesBetween) {
  const std::string data = Write("text", "a");
  EXPECT_EQ(Tokenize(absl::StrCat(llama_, " --data ", data)).out, "1 388 2\n");
}

TEST_F(TokenizeCommandTest, WritesTokensOf16Bits) {
  const std::string data = Write("text", "a");
  const std::string out = folder_ / "tokens.bin";
  const ProcessResult result = Tokenize(absl::StrCat(llama_, " --data ", data, " -o ", out));
  EXPECT_EQ(result.exit_code, kExitDone) << result.err;
  EXPECT_THAT(result.out, HasSubstr("3 from 1 bytes"));
  EXPECT_EQ(ReadBytes(out), std::string("\x01\0\x84\x01\x02\0", 6));
}

TEST_F(TokenizeCommandTest, WritesTokensOf32BitsWhereTheVocabularyIsLarge) {
  std::string words = R"("a":0)";
  for (int id = 1; id < 65'537; ++id) absl::StrAppend(&words, ",\"w", id, "\":", id);
  const std::string tokenizer =
      Write("tokenizer.json", absl::StrCat(R"({"model":{"vocab":{)", words, R"(},"merges":[]}})"));
  const std::string data = Write("text", "aa");
  const std::string out = folder_ / "tokens.bin";
  // The folder that it is in does as well.
  const ProcessResult result =
      Tokenize(absl::StrCat("--tokenizer ", folder_.path(), " --json --data ", data, " -o ", out));
  EXPECT_EQ(result.exit_code, kExitDone) << result.err;
  EXPECT_EQ(result.out, "{\"tokens\":[0,0]}\n");
  EXPECT_EQ(ReadBytes(out), std::string(8, '\0'));
}

TEST_F(TokenizeCommandTest, ReadsStandardInput) {
  const std::string command =
      absl::StrCat("printf a | ", SluiceProgram(), " tokenize ", llama_, " --data - --json");
  std::FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  char line[100] = {};
  EXPECT_NE(std::fgets(line, sizeof(line), pipe), nullptr);
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_EQ(std::string(line), "{\"tokens\":[1,388,2]}\n");
}

TEST_F(TokenizeCommandTest, AnEmptyTextHasOnlySpecialTokens) {
  EXPECT_EQ(Tokenize(absl::StrCat(llama_, " --data -")).out, "1 2\n");
}

// As transformers takes them: of several templates "tool_use" where a conversation has tools, and
// files before what tokenizer_config.json says.
TEST_F(TokenizeCommandTest, TakesTheTemplateForToolsWhereThereAreSome) {
  Write("tokenizer.json", R"({"model":{"vocab":{"a":0,"b":1,"c":2,"d":3,"x":4},"merges":[]}})");
  const std::string plain = Write("plain.jsonl", R"({"messages":[{"role":"user","content":"x"}]})");
  const std::string tools = Write(
      "tools.jsonl", R"({"tools":[{"name":"f"}],"messages":[{"role":"user","content":"x"}]})");
  const auto tokens = [&](const std::string& data) {
    const ProcessResult result =
        Tokenize(absl::StrCat("--tokenizer ", folder_.path(), " --chat --json --data ", data));
    return result.exit_code == kExitDone
               ? nlohmann::json::parse(result.out)["documents"][0]["tokens"].dump()
               : result.err;
  };
  Write("tokenizer_config.json", R"({"chat_template":[
      {"name":"default","template":"a{{ messages[0].content }}"},
      {"name":"tool_use","template":"{% if tools %}b{% endif %}{{ messages[0].content }}"}]})");
  EXPECT_EQ(tokens(plain), "[0,4]");
  EXPECT_EQ(tokens(tools), "[1,4]");
  std::filesystem::create_directory(folder_ / "additional_chat_templates");
  Write("additional_chat_templates/tool_use.jinja", "{% if tools %}d{% endif %}");
  EXPECT_EQ(tokens(tools), "[3]");
  EXPECT_THAT(tokens(plain), HasSubstr("tool_use.jinja, chat template, is for conversations with "
                                       "tools, and there is no other"));
  Write("chat_template.jinja", "c{{ messages[0].content }}");
  EXPECT_EQ(tokens(plain), "[2,4]");
  EXPECT_EQ(tokens(tools), "[3]");
  Write("additional_chat_templates/tool_use.jinja", "{{");
  EXPECT_EQ(tokens(plain), "[2,4]");
  EXPECT_THAT(tokens(tools), HasSubstr("tool_use.jinja, chat template, line 1"));
}

TEST_F(TokenizeCommandTest, RefusesInOneLine) {
  const std::string text = Write("text", "In the beginning");
  const std::string latin1 = Write("latin1", "caf\xE9\n");
  const std::string data = absl::StrCat(" --data ", text);
  ExpectRefusal("--json", {"required"});
  ExpectRefusal(llama_, {"--data"});
  ExpectRefusal(absl::StrCat("--tokenizer ", folder_ / "none", data), {folder_ / "none"});
  ExpectRefusal(absl::StrCat("--tokenizer ", folder_.path(), data), {"tokenizer.json"});
  ExpectRefusal(absl::StrCat("--tokenizer ", text, data), {text, "line 1, column 1"});
  const std::string piece = Write("piece.json", R"({"model":{"type":"WordPiece"}})");
  ExpectRefusal(absl::StrCat("--tokenizer ", piece, data), {piece, "'model.type'", "WordPiece"});
  ExpectRefusal(absl::StrCat(llama_, " --data ", folder_ / "none"), {folder_ / "none"});
  ExpectRefusal(absl::StrCat(llama_, " --data ", folder_.path()),
                {"is a directory; expected a file"});
  ExpectRefusal(absl::StrCat(llama_, " --data ", latin1), {latin1, "line 1, column 4", "0xe9"});
  ExpectRefusal(absl::StrCat(llama_, " --data x.jsonl"), {"x.jsonl", "JSON", "expected text"});
  const std::string array = Write("array.json", R"([{"text": "a"}])");
  for (const char* chat : {"", " --chat"}) {
    ExpectRefusal(absl::StrCat(llama_, " --data ", array, chat), {array, "one JSON array", "jq"});
  }
  ExpectRefusal(absl::StrCat(llama_, " --data x.bin"), {"x.bin", "tokens", "expected text"});
  ExpectRefusal(absl::StrCat(llama_, data, " --chat"), {text, "line 1, column 1", "messages"});
  ExpectRefusal(absl::StrCat(llama_, data, " --chat --no-special-tokens"),
                {"--chat", "--no-special-tokens"});
  ExpectRefusal(absl::StrCat(llama_, data, " -o ", folder_ / "none/x.bin"), {"none/x.bin"});
}

}  // namespace
}  // namespace sluice
