#ifndef SLUICE_TESTS_PARTITIONER_PROFILES_H_
#define SLUICE_TESTS_PARTITIONER_PROFILES_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "models/spec/profile_graph.h"
#include "tests/shared_folder.h"

namespace sluice {

// PipeDream's profiles, beside the project where they are there.
inline std::filesystem::path Profiles() { return SharedFolder() / "data/profiles"; }

inline ProfileGraph ReadProfile(const std::string& name) {
  std::ifstream file(Profiles() / name);
  std::ostringstream text;
  text << file.rdbuf();
  const auto graph = ParseProfileGraph(text.str(), name);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *graph : ProfileGraph();
}

}  // namespace sluice

#endif  // SLUICE_TESTS_PARTITIONER_PROFILES_H_
