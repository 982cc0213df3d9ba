#include "models/device/cuda_libraries.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/match.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::HasSubstr;

size_t Place(const std::vector<std::string>& folders, const std::string& folder) {
  return static_cast<size_t>(std::find(folders.begin(), folders.end(), folder) - folders.begin());
}

TEST(CudaLibrariesTest, FoldersComeInTheirOrder) {
  const std::vector<std::string> python = {"/env/site-packages"};
  const std::vector<std::string> folders = CudaLibraryFolders("/mine:/other", python);
  const size_t loader = Place(folders, "");
  const size_t wheel = Place(folders, "/env/site-packages/nvidia/cublas/lib");
  EXPECT_EQ(folders[0], "/mine");
  EXPECT_EQ(folders[1], "/other");
  EXPECT_EQ(loader, 2);
  ASSERT_LT(wheel, folders.size());
  ASSERT_LT(Place(folders, "/env/site-packages/nvidia/cu13/lib"), folders.size());
  ASSERT_LT(Place(folders, "/env/site-packages/nvidia/nccl/lib"), folders.size());
  for (size_t i = 0; i < folders.size(); ++i) {
    if (absl::StartsWith(folders[i], "/usr/local/cuda")) {
      EXPECT_TRUE(loader < i && i < wheel) << folders[i];
    }
  }
}

TEST(CudaLibrariesTest, AMissingLibrarySaysWhereItWasLookedFor) {
  setenv("SLUICE_CUDA_LIBRARIES", "/no/such/folder", 1);
  const auto library = CudaLibrary::Open("Nonesuch", {"libnonesuch.so.13", "libnonesuch.so.12"});
  unsetenv("SLUICE_CUDA_LIBRARIES");
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(
      std::string(library.status().message()),
      AllOf(HasSubstr("missing Nonesuch: looked for libnonesuch.so.13, libnonesuch.so.12"),
            HasSubstr("/no/such/folder, the loader's path"), HasSubstr("SLUICE_CUDA_LIBRARIES")));
}

TEST(CudaLibrariesTest, AFunctionIsFoundOrTheLibraryIsTooOld) {
  const auto library = CudaLibrary::Open("the C library's mathematics", {"libm.so.6"});
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_THAT(library->path(), HasSubstr("libm"));
  double (*function)(double) = nullptr;
  ASSERT_TRUE(library->Find("cos", &function).ok());
  EXPECT_EQ(function(0), 1);
  const absl::Status status = library->Find("cosine_of_tomorrow", &function);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has no cosine_of_tomorrow"));
}

TEST(LibraryVersionName, IsAsNvidiaNumbersItsLibraries) {
  EXPECT_EQ(LibraryVersionName(22809), "2.28.9");
  EXPECT_EQ(LibraryVersionName(91900), "9.19.0");
}

}  // namespace
}  // namespace sluice
