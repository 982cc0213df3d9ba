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
  sluice_component_of(${name} component)
  sluice_install(${name} ${component})
endfunction()

# sluice_install(NAME COMPONENT): installs the library sluice_NAME with that component.
function(sluice_install name component)
  set_target_properties(sluice_${name} PROPERTIES EXPORT_NAME room_${name})
  install(TARGETS sluice_${name} EXPORT sluice_${component} COMPONENT development)
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
