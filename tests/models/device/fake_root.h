#ifndef SLUICE_TESTS_MODELS_DEVICE_FAKE_ROOT_H_
#define SLUICE_TESTS_MODELS_DEVICE_FAKE_ROOT_H_

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/models/data/files.h"

namespace sluice {

// A folder that stands for the root of a machine's file system.
class FakeRoot {
 public:
  void Write(const std::string& file, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path() + file).parent_path());
    std::ofstream(path() + file) << text;
  }
  std::string path() const { return folder_.path(); }

 private:
  TempFolder folder_;
};

}  // namespace sluice

#endif  // SLUICE_TESTS_MODELS_DEVICE_FAKE_ROOT_H_
