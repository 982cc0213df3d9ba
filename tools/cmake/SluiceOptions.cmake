set(SLUICE_COMPONENTS ${SLUICE_ALL_COMPONENTS} CACHE STRING
    "What to build: ${SLUICE_ALL_COMPONENTS}; what these stand on is added (tools/cmake/SluiceComponents.cmake)")
# Tests and benchmarks use all components, and are nothing for a project that sluice is a part of.
set(SLUICE_WHOLE OFF)
if(PROJECT_IS_TOP_LEVEL AND program IN_LIST SLUICE_COMPONENTS)
  set(SLUICE_WHOLE ON)
endif()
option(SLUICE_TESTS "Build the tests" ${SLUICE_WHOLE})
option(SLUICE_BENCH "Build the benchmarks" ${SLUICE_WHOLE})
option(SLUICE_FUZZ "Build the fuzzers too, beside the tests (needs clang)" OFF)
option(SLUICE_UNITS "Compile several sources as one (tools/cmake/SluiceUnits.cmake)" ON)
option(SLUICE_FAILPOINTS "Let tests make the disk and messages fail (models/failpoints)" OFF)
option(SLUICE_STRICT "Treat every warning as an error" OFF)
set(SLUICE_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize= (address,undefined or thread)")
set(SLUICE_MPI AUTO CACHE STRING "Build the MPI transport: AUTO (where MPI is found), ON or OFF")
set(SLUICE_PYTHON AUTO CACHE STRING "Build the Python package: AUTO (where pybind11 is found), ON or OFF")
set(SLUICE_CUDA AUTO CACHE STRING "Build the CUDA device: AUTO (where nvcc is found), ON or OFF")

sluice_complete_components()
# Whether what trains is built, or only what plans, which needs fewer libraries.
set(SLUICE_RUNTIME OFF)
if(runtime IN_LIST SLUICE_COMPONENTS)
  set(SLUICE_RUNTIME ON)
endif()
# Sanitizers would have to be in the interpreter too.
set(SLUICE_PYTHON_WANTED OFF)
if(planner IN_LIST SLUICE_COMPONENTS AND NOT SLUICE_SANITIZE
   AND (SLUICE_PYTHON STREQUAL ON OR (SLUICE_PYTHON STREQUAL AUTO AND SLUICE_WHOLE)))
  set(SLUICE_PYTHON_WANTED ON)
endif()
if((SLUICE_TESTS OR SLUICE_BENCH) AND NOT program IN_LIST SLUICE_COMPONENTS)
  message(FATAL_ERROR "SLUICE_TESTS and SLUICE_BENCH need SLUICE_COMPONENTS=program, not ${SLUICE_COMPONENTS}")
endif()
if(SLUICE_FUZZ AND NOT SLUICE_TESTS)
  message(FATAL_ERROR "SLUICE_FUZZ=ON needs SLUICE_TESTS=ON: the fuzzers are built beside the tests")
endif()

add_library(sluice_flags INTERFACE)
target_include_directories(sluice_flags INTERFACE ${PROJECT_SOURCE_DIR})
# Options of the C++ compiler; those of nvcc are in SluiceCuda.cmake.
function(sluice_cxx_options)
  target_compile_options(sluice_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${ARGN}>")
endfunction()
if(PROJECT_IS_TOP_LEVEL) # a project that sluice is a part of says itself what it wants to be warned of
  sluice_cxx_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor)
endif()
# Results must not depend on how a compiler fuses or reorders arithmetic in one build and not in another.
sluice_cxx_options(-ffp-contract=off -fno-fast-math)
if(SLUICE_STRICT)
  sluice_cxx_options(-Werror -Wpedantic -Wconversion -Wno-sign-conversion -Wold-style-cast -Woverloaded-virtual -Wundef)
endif()
if(SLUICE_SANITIZE)
  sluice_cxx_options(-fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
  target_link_options(sluice_flags INTERFACE -fsanitize=${SLUICE_SANITIZE})
endif()

# Links in a quarter of GNU ld's time; a project that sluice is a part of has its own linker.
find_program(SLUICE_LLD ld.lld)
if(SLUICE_LLD AND PROJECT_IS_TOP_LEVEL)
  target_link_options(sluice_flags INTERFACE -fuse-ld=lld)
endif()

find_program(SLUICE_CCACHE ccache)
if(SLUICE_CCACHE)
  # Paths below the source are hashed as relative ones, so a second clone finds what the first one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
                                  CCACHE_SLOPPINESS=locale
                                  ${SLUICE_CCACHE})
endif()
