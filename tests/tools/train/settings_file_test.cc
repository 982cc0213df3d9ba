// What a settings file says comes back as it was typed.
#include "tools/train/settings/settings_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/models/data/files.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SettingsFileTest : public ::testing::TestWithParam<SettingsSyntax> {
 protected:
  std::string path() const {
    return folder_ / (GetParam() == SettingsSyntax::kYaml ? "run.yaml" : "run.toml");
  }

  absl::StatusOr<std::vector<Setting>> Read(const std::string& text) const {
    WriteBytes(path(), text);
    return ReadSettings(path());
  }

  std::string Format(const std::vector<std::string>& values, bool numeric) const {
    return FormatSetting(GetParam(), "flag", values, numeric);
  }

  void ExpectLineTwoIsRefused(const std::string& text) const {
    const absl::StatusOr<std::vector<Setting>> settings = Read(text);
    EXPECT_EQ(settings.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(settings.status().message(), HasSubstr(absl::StrCat("line 2 of ", path()))) << text;
  }

  TempFolder folder_;
};

class TomlTest : public SettingsFileTest {};
class YamlTest : public SettingsFileTest {};

TEST_P(SettingsFileTest, TextsComeBackLetterForLetter) {
  for (const std::string text : {"plain",
                                 "with space",
                                 "#no comment",
                                 "a,b",
                                 "[x]",
                                 "'single'",
                                 "\"double\"",
                                 "back\\slash",
                                 "two\nlines",
                                 "\x01",
                                 "\xc3\xa9t\xc3\xa9",
                                 "0x10",
                                 "1e3",
                                 "010",
                                 "-1",
                                 "12",
                                 "inf",
                                 "nan",
                                 "true",
                                 "Off",
                                 "~",
                                 "null",
                                 "",
                                 "a: b",
                                 "- a",
                                 "&a",
                                 "*.bias",
                                 "!tag",
                                 "%x",
                                 "---",
                                 " spaces ",
                                 "\t",
                                 "1979-05-27",
                                 "1\nother = 2",
                                 "18446744073709551615"}) {
    const absl::StatusOr<std::vector<Setting>> settings = Read(Format({text}, /*numeric=*/false));
    ASSERT_TRUE(settings.ok()) << settings.status() << " " << text;
    ASSERT_EQ(settings->size(), 1u) << text;
    EXPECT_EQ(settings->front().key, "flag");
    EXPECT_THAT(settings->front().values, ElementsAre(text));
    EXPECT_FALSE(settings->front().is_boolean);
  }
}

TEST_P(SettingsFileTest, NumbersKeepTheirValue) {
  for (const std::string text : {"1e-3", "0.1", ".5", "5.", "+3", "0x1F", "3e38", "1e-300",
                                 "0.30000000000000004", "18446744073709551615"}) {
    const absl::StatusOr<std::vector<Setting>> settings = Read(Format({text}, /*numeric=*/true));
    ASSERT_TRUE(settings.ok()) << settings.status() << " " << text;
    EXPECT_EQ(std::stod(settings->front().values.front()), std::stod(text)) << text;
  }
  EXPECT_EQ(Format({"1e-3"}, /*numeric=*/true),
            GetParam() == SettingsSyntax::kYaml ? "flag: 1e-3\n" : "flag = 1e-3\n");
}

TEST_P(SettingsFileTest, ListsAndFlags) {
  const absl::StatusOr<std::vector<Setting>> settings = Read(absl::StrCat(
      "# a comment\n", Format({"*.bias", "a,b"}, false), FormatSetting(GetParam(), "mirror", true),
      FormatSetting(GetParam(), "pack", false)));
  ASSERT_TRUE(settings.ok()) << settings.status();
  ASSERT_EQ(settings->size(), 3u);
  EXPECT_THAT((*settings)[0].values, ElementsAre("*.bias", "a,b"));
  EXPECT_TRUE((*settings)[0].is_list);
  EXPECT_EQ((*settings)[0].line, 2);
  EXPECT_THAT((*settings)[1].values, ElementsAre("true"));
  EXPECT_THAT((*settings)[2].values, ElementsAre("false"));
  EXPECT_TRUE((*settings)[2].is_boolean);
}

INSTANTIATE_TEST_SUITE_P(Syntaxes, SettingsFileTest,
                         ::testing::Values(SettingsSyntax::kToml, SettingsSyntax::kYaml),
                         [](const auto& syntax) {
                           return syntax.param == SettingsSyntax::kYaml ? "Yaml" : "Toml";
                         });

TEST_P(TomlTest, WhatIsNoFlagIsNamedWithItsLine) {
  for (const std::string text :
       {"steps = 1\nsteps = 2\n", "a = 1\nb = text\n", "a = 1\nb =\n", "a = 1\n[b]\nc = 2\n",
        "a = 1\nb = 1979-05-27\n", "a = 1\nb = [[1]]\n", "a = 1\nb = \"no end\n"}) {
    ExpectLineTwoIsRefused(text);
  }
}

TEST_P(YamlTest, WhatIsNoFlagIsNamedWithItsLine) {
  for (const std::string text :
       {"a: 1\nb:\n", "a: 1\nb: ~\n", "a: 1\nb: null\n", "a: 1\nb: {c: d}\n", "a: 1\nb: !!int 5\n",
        "a: &x 1\nb: *x\n", "a: 1\nb: [[1]]\n", "a: 1\nb: [~]\n", "a: 1\n? [b]\n: 2\n",
        "a: 1\n--- {b: 2}\n", "a: 1\n b: 2\n", "# a list\n- a\n", "a: 1\nb: \"\\q\"\n"}) {
    ExpectLineTwoIsRefused(text);
  }
  EXPECT_THAT(Read("a: \"\xff\"\n").status().message(),
              HasSubstr(absl::StrCat("byte 4 of ", path(), " is not YAML")));
}

TEST_P(YamlTest, WhatPeopleWrite) {
  EXPECT_TRUE(Read("")->empty());
  EXPECT_TRUE(Read("# nothing\n---\n")->empty());
  const absl::StatusOr<std::vector<Setting>> settings =
      Read("---\nfreeze:\n  - '*.bias'\n  - a\nmirror: yes\npack: Off\nlr: 1e-3\nsave: \"on\"\n");
  ASSERT_TRUE(settings.ok()) << settings.status();
  ASSERT_EQ(settings->size(), 5u);
  EXPECT_THAT((*settings)[0].values, ElementsAre("*.bias", "a"));
  EXPECT_TRUE((*settings)[1].is_boolean);
  EXPECT_THAT((*settings)[1].values, ElementsAre("true"));
  EXPECT_THAT((*settings)[2].values, ElementsAre("false"));
  EXPECT_THAT((*settings)[3].values, ElementsAre("1e-3"));
  EXPECT_THAT((*settings)[4].values, ElementsAre("on"));
  EXPECT_FALSE((*settings)[4].is_boolean);
}

INSTANTIATE_TEST_SUITE_P(Syntaxes, TomlTest, ::testing::Values(SettingsSyntax::kToml));
INSTANTIATE_TEST_SUITE_P(Syntaxes, YamlTest, ::testing::Values(SettingsSyntax::kYaml));

}  // namespace
}  // namespace sluice
