#ifndef SLUICE_TESTS_MODELS_SPEC_RANDOM_CONFIGS_H_
#define SLUICE_TESTS_MODELS_SPEC_RANDOM_CONFIGS_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sluice {

// The families that are written as well as read.
std::vector<std::string> WrittenFamilies();

// A config.json of a small model as transformers 5.23 accepts it, with what files on the Hub have:
// fields left out, older names, lists of blocks, every kind of scaling. The same one for the same
// seed.
nlohmann::json RandomConfig(const std::string& family, uint32_t seed);

}  // namespace sluice

#endif  // SLUICE_TESTS_MODELS_SPEC_RANDOM_CONFIGS_H_
