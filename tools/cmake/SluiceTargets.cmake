# sluice_room(NAME SOURCES... [USES room...] [LINKS library...]): the static library sluice_NAME.
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
  target_link_libraries(sluice_${name} PUBLIC sluice_flags ${ARG_USES} ${ARG_LINKS})
endfunction()

# sluice_test(NAME SOURCES... LINKS...): one GoogleTest binary, registered with CTest under its name.
function(sluice_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE sluice_flags ${ARG_LINKS} tests_shared_folder GTest::gtest GTest::gmock GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
                       ENVIRONMENT "OMP_NUM_THREADS=1")
endfunction()
