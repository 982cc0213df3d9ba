#include "models/device/cuda_libraries.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace sluice {
namespace {

// The folders below site-packages in which NVIDIA's wheels put their libraries.
constexpr std::array<absl::string_view, 5> kWheelFolders = {"nvidia/cu13/lib", "nvidia/cublas/lib",
                                                            "nvidia/cudnn/lib", "nvidia/nccl/lib",
                                                            "nvidia/cu12/lib"};

std::vector<std::string> Matches(const char* pattern) {
  std::vector<std::string> paths;
  glob_t found = {};
  if (glob(pattern, 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return paths;
}

// python3's sys.path; empty where there is no python3.
std::vector<std::string> PythonPaths() {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      popen("python3 -c 'import sys; print(\"\\n\".join(sys.path))' 2>/dev/null </dev/null", "r"),
      pclose);
  if (pipe == nullptr) return {};
  std::string text;
  std::array<char, 4096> buffer;
  while (const size_t n = fread(buffer.data(), 1, buffer.size(), pipe.get())) {
    text.append(buffer.data(), n);
  }
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

std::string PathOf(void* handle, const std::string& asked) {
  const link_map* map = nullptr;
  if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map->l_name == nullptr) return asked;
  return *map->l_name == '\0' ? asked : map->l_name;
}

}  // namespace

std::vector<std::string> CudaLibraryFolders(absl::string_view environment,
                                            absl::Span<const std::string> python_paths) {
  std::vector<std::string> folders = absl::StrSplit(environment, ':', absl::SkipEmpty());
  folders.emplace_back();
  for (std::string& folder : Matches("/usr/local/cuda*/lib64")) {
    folders.push_back(std::move(folder));
  }
  for (const std::string& path : python_paths) {
    for (const absl::string_view below : kWheelFolders) {
      folders.push_back(absl::StrCat(path, "/", below));
    }
  }
  return folders;
}

std::string LibraryVersionName(int64_t version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

absl::StatusOr<CudaLibrary> CudaLibrary::Open(absl::string_view name,
                                              absl::Span<const absl::string_view> files) {
  const char* environment = std::getenv("SLUICE_CUDA_LIBRARIES");
  if (environment == nullptr) environment = "";
  std::vector<std::string> tried;
  std::string refused;
  // Python is started only if no other folder has the library.
  for (const bool with_python : {false, true}) {
    const std::vector<std::string> python =
        with_python ? PythonPaths() : std::vector<std::string>{};
    const std::vector<std::string> folders = CudaLibraryFolders(environment, python);
    for (size_t i = tried.size(); i < folders.size(); ++i) {
      const std::string& folder = folders[i];
      for (const absl::string_view file : files) {
        const std::string path =
            folder.empty() ? std::string(file) : absl::StrCat(folder, "/", file);
        void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle != nullptr) return CudaLibrary(handle, PathOf(handle, path));
        const char* error = dlerror();
        // A library that exists but cannot be loaded is reported.
        if (error != nullptr && !absl::StrContains(error, "No such file")) refused = error;
      }
      tried.push_back(folder.empty() ? "the loader's path" : folder);
    }
  }
  return absl::NotFoundError(
      absl::StrCat("missing ", name, ": looked for ", absl::StrJoin(files, ", "), " in ",
                   absl::StrJoin(tried, ", "), refused.empty() ? "" : "; ", refused,
                   "; SLUICE_CUDA_LIBRARIES may name more folders"));
}

absl::StatusOr<void*> CudaLibrary::Address(const char* symbol) const {
  void* const address = dlsym(handle_, symbol);
  if (address == nullptr) {
    return absl::NotFoundError(absl::StrCat(path_, " has no ", symbol, ": it is too old"));
  }
  return address;
}

}  // namespace sluice
