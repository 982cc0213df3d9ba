#include "tools/version/version.h"

#include <nlopt.h>
#include <oneapi/tbb/version.h>
#include <openssl/crypto.h>
#include <unicode/uversion.h>
#include <xxhash.h>
#include <zlib.h>

#include <CLI/Version.hpp>
#include <nlohmann/json.hpp>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>
#include <vector>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "comm/mpi/process.h"
#include "tools/doctor/accelerators.h"
#include "tools/version/build_facts.h"

namespace sluice {
namespace {

using Versions = std::vector<std::pair<std::string, std::string>>;

std::string OneDnnVersion() {
  const dnnl_version_t* version = dnnl_version();
  return absl::StrCat(version->major, ".", version->minor, ".", version->patch);
}

std::string NloptVersion() {
  int major = 0, minor = 0, bugfix = 0;
  nlopt_version(&major, &minor, &bugfix);
  return absl::StrCat(major, ".", minor, ".", bugfix);
}

std::string IcuVersion() {
  UVersionInfo version;
  char text[U_MAX_VERSION_STRING_LENGTH] = "";
  u_getVersion(version);
  u_versionToString(version, text);
  return text;
}

std::string Pcre2Version() {
  char text[64] = "";
  pcre2_config(PCRE2_CONFIG_VERSION, text);
  return std::vector<std::string>(absl::StrSplit(text, ' ')).front();  // "10.42 2022-12-11"
}

std::string XxHashVersion() {
  const unsigned version = XXH_versionNumber();
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

// Where a library is linked dynamically, of what runs; else of what the program was built with.
Versions LinkedLibraries() {
  const std::string mpi = MpiLibrary();
  return {
      {"Abseil", absl::StrCat(ABSL_LTS_RELEASE_VERSION, ".", ABSL_LTS_RELEASE_PATCH_LEVEL)},
      {"oneTBB", TBB_runtime_version()},
      {"oneDNN", OneDnnVersion()},
      {"Highway", kHighwayVersion},
      {"NLopt", NloptVersion()},
      {"nlohmann-json", absl::StrCat(NLOHMANN_JSON_VERSION_MAJOR, ".", NLOHMANN_JSON_VERSION_MINOR,
                                     ".", NLOHMANN_JSON_VERSION_PATCH)},
      {"CLI11", CLI11_VERSION},
      {"fmt", kFmtVersion},
      {"zlib", zlibVersion()},
      {"xxHash", XxHashVersion()},
      {"OpenSSL", OpenSSL_version(OPENSSL_VERSION_STRING)},
      {"ICU", IcuVersion()},
      {"PCRE2", Pcre2Version()},
      {"MPI", mpi.empty() ? "not in this build" : mpi},
      {"CUDA", kCudaVersion[0] == '\0' ? "not in this build" : kCudaVersion}};
}

Versions LoadedLibraries() {
  Versions found = {
      {"CUDA driver", CudaDriverVersion()}, {"NCCL", NcclVersion()}, {"cuDNN", CudnnVersion()}};
  for (auto& [name, version] : found) {
    if (version.empty()) version = "not here";
  }
  return found;
}

void Append(const Versions& versions, std::string* text) {
  for (const auto& [name, version] : versions) {
    absl::StrAppendFormat(text, "  %-14s %s\n", name, version);
  }
}

}  // namespace

std::string VersionNumber() { return kVersion; }

std::string VersionText() {
  std::string text = absl::StrCat("sluice ", kVersion, "\ncommit  ", kCommit, "\nbuild   ",
                                  kBuildType, ", ", kCompiler, "\n\nLibraries\n");
  Append(LinkedLibraries(), &text);
  absl::StrAppend(&text, "\nLoaded when they are needed\n");
  Append(LoadedLibraries(), &text);
  text.pop_back();  // the last end of a line is printed with it
  return text;
}

}  // namespace sluice
