#ifndef SLUICE_TESTS_MODELS_SPEC_HUB_CONFIGS_H_
#define SLUICE_TESTS_MODELS_SPEC_HUB_CONFIGS_H_

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/shared_folder.h"

namespace sluice {

struct HubConfig {
  std::string path;
  std::string json;
};

// The config.json files of real models beside the project; none without that folder.
inline std::vector<HubConfig> HubConfigs() {
  std::vector<HubConfig> configs;
  std::error_code none;
  const auto folder = SharedFolder() / "data" / "configs";
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    std::ifstream file(entry.path());
    configs.push_back({entry.path().string(), {std::istreambuf_iterator<char>(file), {}}});
  }
  return configs;
}

}  // namespace sluice

#endif  // SLUICE_TESTS_MODELS_SPEC_HUB_CONFIGS_H_
