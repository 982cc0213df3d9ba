#include "models/spec/json.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/spec/json_text.h"
#include "models/spec/show_text.h"
#include "tests/shared_folder.h"

namespace sluice {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

std::string Error(const std::string& text, const JsonLimits& limits = {}) {
  const absl::Status status = ParseJson(text, limits).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text.substr(0, 80);
  return std::string(status.message());
}

TEST(ParseOrderedJsonObjectTest, KeepsTheOrderOfTheFields) {
  const std::string text = R"({"z":1,"a":{"y":[{"c":1.5,"b":null}],"x":"u"},"m":[]})";
  const auto json = ParseOrderedJsonObject(text, "f.json", "expected z");
  ASSERT_TRUE(json.ok()) << json.status();
  EXPECT_EQ(json->dump(), text);
}

TEST(ParseOrderedJsonObjectTest, RefusesWhatTheOtherRefuses) {
  for (const char* text : {"[1]", R"({"a":1,"a":2})", "{", R"({"a":{"b":1,"c":2,"b":3}})"}) {
    EXPECT_EQ(ParseOrderedJsonObject(text, "f.json", "expected an a").status(),
              ParseJsonObject(text, "f.json", "expected an a").status());
  }
}

std::string Nest(size_t levels) { return std::string(levels, '[') + std::string(levels, ']'); }

TEST(ParseJsonTest, ReadsWhatNlohmannReads) {
  for (const char* text :
       {"null", "true", "-0", "18446744073709551615", "-9223372036854775808", "1e-300", "0.1",
        R"("a\u00e9\"\\\n")", "[]", "{}", " [1, [2, {}], {\"a\": [3]}, \"b\"] ",
        R"({"a":{"b":{"a":1},"c":[{"a":2},{"a":3}]},"d":null,"":4})", "\xef\xbb\xbf[1]"}) {
    const absl::StatusOr<Json> json = ParseJson(text);
    ASSERT_TRUE(json.ok()) << text << json.status();
    EXPECT_EQ(*json, Json::parse(text)) << text;
    EXPECT_EQ(json->dump(), Json::parse(text).dump()) << text;
  }
}

TEST(ParseJsonTest, SaysWhereTheTextIsNoJson) {
  EXPECT_THAT(Error(""), StartsWith("line 1, column 1: not valid JSON: "));
  EXPECT_THAT(Error("{"), StartsWith("line 1, column 2: not valid JSON: "));
  EXPECT_THAT(Error("[1,\n 2,\n  tru]"), StartsWith("line 3, column 6: not valid JSON: "));
  EXPECT_THAT(Error("[1, 2e999, 3]"),
              StartsWith("line 1, column 5: not valid JSON: number overflow"));
  EXPECT_THAT(Error("[1] 2"), StartsWith("line 1, column 5: not valid JSON: "));
  EXPECT_THAT(Error("[\"\xff\"]"), StartsWith("line 1, column 3: not valid JSON: "));
}

// What it quotes is a stranger's.
TEST(ParseJsonTest, ErrorsAreShortAndPrintable) {
  for (const std::string& text : std::initializer_list<std::string>{
           "\"" + std::string(100'000, 'x'), "[1, \"\x1b[31m", std::string("[\"\0", 3)}) {
    const std::string error = Error(text);
    EXPECT_LT(error.size(), 500u);
    for (const char c : error) EXPECT_TRUE(c >= ' ' && c <= '~') << error;
  }
}

TEST(ParseJsonTest, RefusesAFieldThatIsGivenTwice) {
  EXPECT_EQ(Error(R"({"a": 1, "b": {"a": 2},
 "a": 3})"),
            "line 2, column 2: field \"a\" is given twice");
  EXPECT_EQ(Error(R"([{"x": {"a\"\\": 1, "a\"\\": 2}}])"),
            R"(line 1, column 21: field "a\"\\" is given twice)");
  EXPECT_EQ(Error(R"({"":1,"":2})"), "line 1, column 7: field \"\" is given twice");
}

TEST(ParseJsonTest, RefusesDepth) {
  EXPECT_TRUE(ParseJson(Nest(32)).ok());
  EXPECT_EQ(Error(Nest(33)), "line 1, column 33: nested more than 32 deep");
  EXPECT_EQ(Error(Nest(3), {.depth = 2}), "line 1, column 3: nested more than 2 deep");
  // Width is no depth.
  std::string wide = "[";
  for (int i = 0; i < 1000; ++i) absl::StrAppend(&wide, i > 0 ? "," : "", "[[],{\"a\":{}}]");
  EXPECT_TRUE(ParseJson(wide + "]", {.depth = 4}).ok());
}

TEST(ParseJsonTest, RefusesDepthThatWouldTakeTheStack) {
  for (const size_t levels : {size_t{200'000}, size_t{20'000'000}}) {
    EXPECT_THAT(Error(Nest(levels)), HasSubstr("nested more than 32 deep"));
    EXPECT_THAT(Error(std::string(levels, '[')), HasSubstr("nested more than 32 deep"));
  }
  std::string objects;
  for (int i = 0; i < 200'000; ++i) objects += "{\"a\":";
  EXPECT_EQ(Error(objects), "line 1, column 161: nested more than 32 deep");
}

TEST(ParseJsonTest, RefusesLength) {
  EXPECT_TRUE(ParseJson("[1,2]", {.bytes = 5}).ok());
  EXPECT_THAT(Error("[1,2]", {.bytes = 4}), HasSubstr("has 5 bytes; expected at most 4"));
}

TEST(ParseJsonObjectTest, NamesTheFileAndWhatWasExpected) {
  const auto error = [](const char* text) {
    return std::string(ParseJsonObject(text, "x.json", "expected one {...}").status().message());
  };
  EXPECT_TRUE(ParseJsonObject("{}", "x.json", "").ok());
  EXPECT_EQ(error("[1]"), "x.json: not a JSON object (its type is array); expected one {...}");
  EXPECT_THAT(error("{"), StartsWith("x.json: not a JSON object (line 1, column 2: not valid"));
  EXPECT_THAT(error("{"), HasSubstr("); expected one {...}"));
  EXPECT_THAT(error("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 98\n"),
              HasSubstr("(line 1, column 1: is a Git LFS pointer and not the file itself; fetch "
                        "that with git lfs"));
}

TEST(ParseJsonTest, ShowsWhatItReadAsItIs) {
  EXPECT_THAT(std::string(ParseJson(R"({"a": "größe"} tra)").status().message()),
              HasSubstr(R"(last read: '"größe"} tra'; expected end of input)"));
}

TEST(ShowTextTest, EscapesOnlyWhatCannotBePrinted) {
  EXPECT_EQ(ShowText("\"größe\" 'C:\\x' 0F0"), "\"größe\" 'C:\\x' 0F0");
  EXPECT_EQ(ShowText("a\nb\x1b[0m"), "a\\nb\\u001b[0m");
  EXPECT_EQ(ShowText("a\xff"
                     "0"),
            "a\xEF\xBF\xBD"
            "0");
  EXPECT_EQ(ShowText(""), "");
}

// Lines of the program's sources with such a call, as "FILE: LINE".
std::vector<std::string> LinesWith(const std::regex& call) {
  std::vector<std::string> calls;
  for (const char* room :
       {"schedules", "models", "partitioner", "comm", "pipeline", "tools", "bench"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(SourceFolder() / room)) {
      const std::filesystem::path& path = entry.path();
      if (path.extension() != ".cc" && path.extension() != ".h" && path.extension() != ".cu")
        continue;
      std::ifstream file(path);
      for (std::string line; std::getline(file, line);) {
        if (!std::regex_search(line, call)) continue;
        if (line.find("toml::parse(") != std::string::npos) continue;  // another language
        calls.push_back(
            absl::StrCat(std::filesystem::relative(path, SourceFolder()).string(), ": ", line));
      }
    }
  }
  return calls;
}

// A reader with a parser of its own would have to think of depth, length and repeated names itself.
TEST(ParseJsonTest, NoOtherFileCallsAParserOfNlohmanns) {
  const std::regex call(
      R"(::(parse|accept|sax_parse|from_(cbor|msgpack|ubjson|bson|bjdata))\s*\(|\b_json\b|"_json)");
  EXPECT_THAT(LinesWith(call), ElementsAre(StartsWith("models/spec/json.cc: ")));
}

// The name of a file may be any bytes.
TEST(JsonTextTest, HasNoBytesThatAreNotUtf8) {
  const Json json = {{"a", "x\xffy"}};
  EXPECT_EQ(JsonText(json), "{\"a\":\"x\uFFFDy\"}");
  EXPECT_EQ(JsonText(json, 1), "{\n \"a\": \"x\uFFFDy\"\n}");
  EXPECT_EQ(JsonText(nlohmann::ordered_json{{"b", "ü"}, {"a", 1}}), "{\"b\":\"ü\",\"a\":1}");
}

// nlohmann's own throws there. Files that must not have another name refuse it.
TEST(JsonTextTest, NoOtherFileCallsNlohmanns) {
  EXPECT_THAT(LinesWith(std::regex(R"(\.dump\()")),
              UnorderedElementsAre(StartsWith("models/spec/json_text.h: "),
                                   StartsWith("models/spec/json.cc: "),
                                   StartsWith("models/files/safetensors_header.cc: "),
                                   StartsWith("models/files/shard_index.cc: ")));
}

}  // namespace
}  // namespace sluice
