// What every family that is written reads back as, here and in transformers.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "models/spec/families/families.h"
#include "models/spec/model_config.h"
#include "models/spec/presets.h"
#include "tests/models/data/files.h"
#include "tests/models/spec/hub_configs.h"
#include "tests/models/spec/random_configs.h"
#include "tests/shared_folder.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr uint32_t kSeeds = 200;

TEST(RoundTripTest, WhatIsWrittenReadsBackTheSame) {
  for (const std::string& family : WrittenFamilies()) {
    for (uint32_t seed = 0; seed < kSeeds; ++seed) {
      const Json json = RandomConfig(family, seed);
      const auto spec = ParseModelConfig(json.dump(), "config.json");
      ASSERT_TRUE(spec.ok()) << spec.status() << json;
      const std::string text = FormatModelConfig(*spec);
      const auto back = ParseModelConfig(text, "config.json");
      ASSERT_TRUE(back.ok()) << back.status() << text;
      EXPECT_TRUE(back->config == spec->config) << json << text;
    }
  }
}

TEST(RoundTripTest, PresetsReadBackTheSame) {
  for (const std::string& name : PresetNames()) {
    const ModelSpec spec = *PresetModel(name);
    if (spec.decoder() != nullptr && FindFamily(spec.decoder()->family)->write == nullptr) continue;
    const auto back = ParseModelConfig(FormatModelConfig(spec), "config.json");
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_TRUE(back->config == spec.config) << name << FormatModelConfig(spec);
  }
}

// The script's exit status.
int Compare(const std::string& folder) {
  const char* const python = std::getenv("SLUICE_PEER_PYTHON");
  const int status =
      std::system(absl::StrCat(python != nullptr ? python : "python3", " ", SourceFolder().string(),
                               "/tests/peers/transformers_config.py ", folder)
                      .c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(RoundTripTest, TransformersReadsTheSameModel) {
  constexpr int kNoTransformers = 77;
  constexpr uint32_t kCompared = 15;
  TempFolder folder;
  const auto add = [&](const std::string& name, const std::string& text) {
    const auto spec = ParseModelConfig(text, name);
    ASSERT_TRUE(spec.ok()) << spec.status();
    if (FindFamily(spec->decoder()->family)->write == nullptr) return;
    std::ofstream(folder / (name + ".json")) << text;
    std::ofstream(folder / (name + ".written.json")) << FormatModelConfig(*spec);
  };
  for (const std::string& family : WrittenFamilies()) {
    if (family == kOwnModelType) continue;
    for (uint32_t seed = 0; seed < kCompared; ++seed) {
      add(absl::StrCat(family, "-", seed), RandomConfig(family, seed).dump());
    }
  }
  for (const HubConfig& config : HubConfigs()) {
    add(std::filesystem::path(config.path).stem().string(), config.json);
  }
  const int status = Compare(folder.path());
  if (status == kNoTransformers) GTEST_SKIP() << "needs Python with transformers";
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace sluice
