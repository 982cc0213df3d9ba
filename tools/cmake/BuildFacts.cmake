# Writes OUTPUT, the header with what only a build knows; run by every build, and touches nothing where nothing has changed:
#   cmake -DOUTPUT=x.h -DSOURCE=... -DVERSION=... -DBUILD_TYPE=... -DCOMPILER=... -DCUDA=... -DHWY=... -DFMT=... -P BuildFacts.cmake
cmake_policy(VERSION 3.25)
set(COMMIT "")
find_program(git git)
if(git AND EXISTS ${SOURCE}/.git)
  execute_process(COMMAND ${git} -C ${SOURCE} describe --always --dirty=\ with\ changes --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE COMMIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(COMMIT STREQUAL "")
  set(COMMIT "unknown (built without git's folder)")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT "// Made by tools/cmake/BuildFacts.cmake; do not edit.
namespace sluice {
inline constexpr char kVersion[] = \"@VERSION@\";
inline constexpr char kCommit[] = \"@COMMIT@\";
inline constexpr char kBuildType[] = \"@BUILD_TYPE@\";
inline constexpr char kCompiler[] = \"@COMPILER@\";
inline constexpr char kCudaVersion[] = \"@CUDA@\";  // empty: not in this build
inline constexpr char kHighwayVersion[] = \"@HWY@\";
inline constexpr char kFmtVersion[] = \"@FMT@\";
}  // namespace sluice
")
