# The build of `cmake --preset fuzz`: the schedules room and the fuzzers, with clang's libFuzzer, and nothing else.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
  message(FATAL_ERROR "SLUICE_FUZZ needs clang for its libFuzzer, not ${CMAKE_CXX_COMPILER_ID}; "
                      "use cmake --preset fuzz, or pass -DCMAKE_CXX_COMPILER=clang++")
endif()
find_package(absl REQUIRED)
find_package(nlohmann_json REQUIRED)
add_compile_options(-fsanitize=fuzzer-no-link)
add_subdirectory(schedules)
add_subdirectory(tests/fuzz)
