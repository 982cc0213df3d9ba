# sluice_room(NAME SOURCES... [USES room...] [LINKS library...]): the static library sluice_NAME, installed with the
# component that it is a part of. Static, also in a build with BUILD_SHARED_LIBS, and so without a SOVERSION: the bits of a run
# depend on the library and what uses it being of one build, and no version promises another one's binary interface.
function(sluice_room name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;LINKS" ${ARGN})
  foreach(room IN LISTS ARG_USES)
    if(NOT room IN_LIST SLUICE_MAY_USE_${name})
      message(FATAL_ERROR "room '${name}' may not use '${room}' (allowed: ${SLUICE_MAY_USE_${name}}); "
                          "see tools/cmake/SluiceArrows.cmake")
    endif()
  endforeach()
  add_library(sluice_${name} STATIC ${ARG_SOURCES})
  list(TRANSFORM ARG_USES PREPEND sluice_)
  # How sluice itself is compiled is no matter of who uses the installed library.
  target_link_libraries(sluice_${name} PUBLIC $<BUILD_INTERFACE:sluice_flags> ${ARG_USES} ${ARG_LINKS})
  sluice_install_library(${name})
endfunction()

# sluice_or_none(NAME ROOM): sluice_NAME links the room, or, in a program that only plans (its property SLUICE_SIZES_ONLY) and
# in a build without the runtime, sluice_no_ROOM. Of what is installed, sluiceConfig.cmake says which.
function(sluice_or_none name room)
  set(either sluice_no_${room})
  if(SLUICE_RUNTIME)
    set(either $<IF:$<BOOL:$<TARGET_PROPERTY:SLUICE_SIZES_ONLY>>,sluice_no_${room},sluice_${room}>)
  endif()
  target_link_libraries(sluice_${name} PUBLIC $<BUILD_INTERFACE:${either}> $<INSTALL_INTERFACE:sluice::room_${room}_or_none>)
endfunction()

# Installs the library sluice_NAME with the component that it is a part of.
function(sluice_install_library name)
  sluice_component_of(${name} component)
  set_target_properties(sluice_${name} PROPERTIES EXPORT_NAME room_${name})
  install(TARGETS sluice_${name} EXPORT sluice_${component} COMPONENT development)
  get_target_property(type sluice_${name} TYPE)
  if(type STREQUAL STATIC_LIBRARY)
    set_property(GLOBAL APPEND PROPERTY SLUICE_BUILT_FOR_development $<TARGET_FILE:sluice_${name}>)
  endif()
endfunction()

# sluice_test(NAME SOURCES... LINKS...): one GoogleTest binary, registered with CTest under its name. Those that may take the
# longest (TIMEOUT, in seconds) begin first, so that no core is idle while another has one left to run.
function(sluice_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  set(cost 0) # what it took in this build before
  if(ARG_TIMEOUT)
    set(cost ${ARG_TIMEOUT})
  else()
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE sluice_flags ${ARG_LINKS} tests_shared_folder GTest::gtest GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} COST ${cost} LABELS "${ARG_LABELS}"
                       ENVIRONMENT "OMP_NUM_THREADS=1")
  sluice_test_files(${name})
  foreach(source IN LISTS ARG_SOURCES)
    file(REAL_PATH ${source} path)
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${path})
    set_property(GLOBAL APPEND PROPERTY SLUICE_TEST_SOURCES ${path}:${name})
  endforeach()
endfunction()

# sluice_test_again(NAME PROGRAM TIMEOUT ENVIRONMENT...): the same program as one more test, with these variables. It runs by
# a link of that name, since GoogleTest calls its report as the program is called: two that run at once would write one file.
function(sluice_test_again name program)
  cmake_parse_arguments(ARG "" "TIMEOUT" "ENVIRONMENT" ${ARGN})
  file(CREATE_LINK ${program} ${CMAKE_CURRENT_BINARY_DIR}/${name} SYMBOLIC)
  add_test(NAME ${name} COMMAND ${CMAKE_CURRENT_BINARY_DIR}/${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} COST ${ARG_TIMEOUT} ENVIRONMENT "${ARG_ENVIRONMENT}")
  sluice_test_files(${name})
endfunction()

# Where GoogleTest's TempDir() is for a test: tests of two builds that run at once do not write the same files.
function(sluice_test_files test)
  set(files ${PROJECT_BINARY_DIR}/test-files)
  file(MAKE_DIRECTORY ${files})
  set_tests_properties(${test} PROPERTIES ENVIRONMENT_MODIFICATION "TEST_TMPDIR=set:${files}")
endfunction()
