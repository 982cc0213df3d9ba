option(SLUICE_TESTS "Build the tests" ON)
option(SLUICE_BENCH "Build the benchmarks" ON)
option(SLUICE_FUZZ "Build the fuzzers instead of the tests (needs clang)" OFF)
option(SLUICE_UNITS "Compile several sources as one (tools/cmake/SluiceUnits.cmake)" ON)
option(SLUICE_FAILPOINTS "Let tests make the disk and messages fail (models/failpoints)" OFF)
option(SLUICE_RUNTIME "Build what trains; OFF builds only what plans, which needs fewer libraries" ON)
option(SLUICE_STRICT "Treat every warning as an error" OFF)
set(SLUICE_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize= (address,undefined or thread)")
set(SLUICE_MPI AUTO CACHE STRING "Build the MPI transport: AUTO (where MPI is found), ON or OFF")
set(SLUICE_PYTHON AUTO CACHE STRING "Build the Python package: AUTO (where pybind11 is found), ON or OFF")
set(SLUICE_CUDA AUTO CACHE STRING "Build the CUDA device: AUTO (where nvcc is found), ON or OFF")

add_library(sluice_flags INTERFACE)
target_include_directories(sluice_flags INTERFACE ${PROJECT_SOURCE_DIR})
# Options of the C++ compiler; those of nvcc are in SluiceCuda.cmake.
function(sluice_cxx_options)
  target_compile_options(sluice_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${ARGN}>")
endfunction()
sluice_cxx_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor)
# Results must not depend on how a compiler fuses or reorders arithmetic in one build and not in another.
sluice_cxx_options(-ffp-contract=off -fno-fast-math)
if(SLUICE_STRICT)
  sluice_cxx_options(-Werror -Wpedantic -Wconversion -Wno-sign-conversion -Wold-style-cast -Woverloaded-virtual -Wundef)
endif()
if(SLUICE_SANITIZE)
  sluice_cxx_options(-fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  target_link_options(sluice_flags INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()
if(SLUICE_FUZZ)
  # So that libFuzzer sees which branches an input takes.
  sluice_cxx_options(-fsanitize=fuzzer-no-link)
endif()

find_program(SLUICE_CCACHE ccache)
if(SLUICE_CCACHE)
  # Paths below the source are hashed as relative ones, so a second clone finds what the first one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                  CCACHE_SLOPPINESS=locale
                                  ${SLUICE_CCACHE})
endif()
