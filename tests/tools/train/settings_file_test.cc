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

class SettingsFileTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::vector<Setting>> Read(const std::string& text) const {
    WriteBytes(folder_ / "run.toml", text);
    return ReadSettings(folder_ / "run.toml");
  }

  TempFolder folder_;
};

TEST_F(SettingsFileTest, TextsComeBackLetterForLetter) {
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
                                 "1979-05-27",
                                 "1\nother = 2",
                                 "18446744073709551615"}) {
    const absl::StatusOr<std::vector<Setting>> settings =
        Read(FormatSetting("data", {text}, /*numeric=*/false));
    ASSERT_TRUE(settings.ok()) << settings.status() << " " << text;
    ASSERT_EQ(settings->size(), 1u) << text;
    EXPECT_EQ(settings->front().key, "data");
    EXPECT_THAT(settings->front().values, ElementsAre(text));
    EXPECT_FALSE(settings->front().is_boolean);
  }
}

TEST_F(SettingsFileTest, NumbersKeepTheirValue) {
  for (const std::string text : {"1e-3", "0.1", ".5", "5.", "+3", "0x1F", "3e38", "1e-300",
                                 "0.30000000000000004", "18446744073709551615"}) {
    const absl::StatusOr<std::vector<Setting>> settings =
        Read(FormatSetting("lr", {text}, /*numeric=*/true));
    ASSERT_TRUE(settings.ok()) << settings.status() << " " << text;
    EXPECT_EQ(std::stod(settings->front().values.front()), std::stod(text)) << text;
  }
  EXPECT_EQ(FormatSetting("lr", {"1e-3"}, /*numeric=*/true), "lr = 1e-3\n");
}

TEST_F(SettingsFileTest, ListsAndFlags) {
  const absl::StatusOr<std::vector<Setting>> settings =
      Read(absl::StrCat("# a comment\n", FormatSetting("freeze", {"*.bias", "a,b"}, false),
                        FormatSetting("mirror", true), FormatSetting("pack", false)));
  ASSERT_TRUE(settings.ok()) << settings.status();
  ASSERT_EQ(settings->size(), 3u);
  EXPECT_THAT((*settings)[0].values, ElementsAre("*.bias", "a,b"));
  EXPECT_TRUE((*settings)[0].is_list);
  EXPECT_EQ((*settings)[0].line, 2);
  EXPECT_THAT((*settings)[1].values, ElementsAre("true"));
  EXPECT_THAT((*settings)[2].values, ElementsAre("false"));
  EXPECT_TRUE((*settings)[2].is_boolean);
}

TEST_F(SettingsFileTest, WhatIsNoFlagIsNamedWithItsLine) {
  for (const std::string text :
       {"steps = 1\nsteps = 2\n", "a = 1\nb = text\n", "a = 1\nb =\n", "a = 1\n[b]\nc = 2\n",
        "a = 1\nb = 1979-05-27\n", "a = 1\nb = [[1]]\n", "a = 1\nb = \"no end\n"}) {
    const absl::StatusOr<std::vector<Setting>> settings = Read(text);
    EXPECT_EQ(settings.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(settings.status().message(),
                HasSubstr(absl::StrCat("line 2 of ", folder_ / "run.toml")))
        << text;
  }
}

}  // namespace
}  // namespace sluice
