# What `cmake --install` installs, and find_package(sluice) finds there: sluice::schedules, sluice::planner and
# sluice::runtime, and the program. A project that has sluice as a part (add_subdirectory) has the same targets.
include(CMakePackageConfigHelpers)

set(package ${PROJECT_SOURCE_DIR}/tools/cmake/package)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
# Here <sluice/schedules/...> is the source itself.
set(build_include ${PROJECT_BINARY_DIR}/include)

configure_file(${package}/version.h.in ${build_include}/sluice/version.h @ONLY)
install(FILES ${build_include}/sluice/version.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice COMPONENT development)

# The headers of a component's rooms, without those that need a compiler for CUDA or the headers of MPI and oneDNN, and those
# that Highway includes once per instruction set: they are for what is inside.
set(SLUICE_INNER_HEADERS
    "-inl\\.h$"
    "^models/kernels/(cuda|cudnn|cpu)/"
    "^models/device/cuda_(error|graph)\\.h$"
    "^comm/mpi/(communicator|control|requests|request_cache)\\.h$")
list(JOIN SLUICE_INNER_HEADERS "|" SLUICE_INNER_HEADERS)
function(sluice_install_headers component)
  set(chosen "")
  foreach(folder schedules models comm pipeline partitioner)
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${folder}/*.h)
    foreach(header IN LISTS headers)
      sluice_room_of(${header} room)
      if(room IN_LIST SLUICE_ROOMS_${component} AND NOT header MATCHES "${SLUICE_INNER_HEADERS}")
        list(APPEND chosen ${header})
      endif()
    endforeach()
  endforeach()
  install(CODE "set(FROM \"${PROJECT_SOURCE_DIR}\")
set(TO \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/sluice\")
set(HEADERS \"${chosen}\")" COMPONENT development)
  install(SCRIPT ${package}/InstallHeaders.cmake COMPONENT development)
endfunction()

# Half an installation would be worse than none.
if(TARGET sluice)
  set_property(GLOBAL APPEND PROPERTY SLUICE_BUILT_FOR_program $<TARGET_FILE:sluice>)
endif()
foreach(part IN ITEMS development program)
  get_property(files GLOBAL PROPERTY SLUICE_BUILT_FOR_${part})
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/package/check_built_${part}.cmake CONTENT "foreach(file IN ITEMS ${files})
  if(NOT EXISTS \"\${file}\")
    message(FATAL_ERROR \"\${file} is not built yet, so nothing is installed; build all first: cmake --build ${PROJECT_BINARY_DIR}\")
  endif()
endforeach()
")
endforeach()

set(SLUICE_LIBRARIES "")
foreach(component IN LISTS SLUICE_COMPONENTS)
  if(NOT SLUICE_ROOMS_${component})
    continue() # the program
  endif()
  list(APPEND SLUICE_LIBRARIES ${component})
  set(uses ${SLUICE_ROOMS_${component}})
  list(TRANSFORM uses PREPEND sluice_)
  foreach(other IN LISTS SLUICE_STANDS_ON_${component})
    list(APPEND uses sluice_component_${other})
  endforeach()
  add_library(sluice_component_${component} INTERFACE)
  add_library(sluice::${component} ALIAS sluice_component_${component})
  set_target_properties(sluice_component_${component} PROPERTIES EXPORT_NAME ${component})
  target_link_libraries(sluice_component_${component} INTERFACE ${uses})
  target_compile_features(sluice_component_${component} INTERFACE cxx_std_20)
  target_include_directories(sluice_component_${component}
                             INTERFACE $<BUILD_INTERFACE:${build_include}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  install(TARGETS sluice_component_${component} EXPORT sluice_${component} COMPONENT development)
  install(EXPORT sluice_${component} NAMESPACE sluice:: DESTINATION ${package_folder} COMPONENT development)
  sluice_install_headers(${component})
endforeach()
foreach(folder schedules models comm pipeline partitioner)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${build_include}/sluice/${folder} SYMBOLIC)
endforeach()

set(SLUICE_BUILT_WITH "")
if(MPI_CXX_FOUND)
  list(APPEND SLUICE_BUILT_WITH "\"MPI COMPONENTS CXX\"")
endif()
if(SLUICE_HAS_CUDA)
  list(APPEND SLUICE_BUILT_WITH CUDAToolkit)
endif()
list(JOIN SLUICE_BUILT_WITH " " SLUICE_BUILT_WITH)
list(JOIN SLUICE_LIBRARIES " " SLUICE_LIBRARIES)
configure_package_config_file(${package}/sluiceConfig.cmake.in ${PROJECT_BINARY_DIR}/package/sluiceConfig.cmake
                              INSTALL_DESTINATION ${package_folder})
# Before 1.0, another second number is another interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/sluiceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/sluiceConfig.cmake ${PROJECT_BINARY_DIR}/package/sluiceConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/tools/cmake/SluiceComponents.cmake
        DESTINATION ${package_folder} COMPONENT development)

if(TARGET sluice)
  install(TARGETS sluice RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
  install(FILES CHANGELOG.md CITATION.cff THIRD_PARTY.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
endif()

# A part of another project is in that project's archives.
if(PROJECT_IS_TOP_LEVEL AND program IN_LIST SLUICE_COMPONENTS)
  if(MPI_CXX_FOUND)
    list(APPEND SLUICE_DEBIAN_PACKAGES libopenmpi-dev)
  endif()
  include(SluiceArchives)
endif()
