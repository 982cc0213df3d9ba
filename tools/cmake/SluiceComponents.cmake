# What of sluice there is to build and to install: the components, each with the rooms that are its own, the components
# that it stands on, and the packages that it needs. The installed sluiceConfig.cmake reads these tables too, so that a
# project which asks for some components looks for just the packages of these.
set(SLUICE_ALL_COMPONENTS schedules planner runtime program)

set(SLUICE_ROOMS_schedules schedules)
set(SLUICE_ROOMS_planner optimise spec failpoints files layers compile checkpoint_files partitioner roofline planning)
set(SLUICE_ROOMS_runtime tokens device comm kernels models pipeline profiling)
set(SLUICE_ROOMS_program "")
# Libraries that are no rooms: what rooms share, and what stands for kernels and profiling in a program that only plans.
set(SLUICE_INNER_planner errors kernel_record no_kernels no_profiling)

set(SLUICE_STANDS_ON_schedules "")
set(SLUICE_STANDS_ON_planner schedules)
set(SLUICE_STANDS_ON_runtime schedules planner)
set(SLUICE_STANDS_ON_program schedules planner runtime)

# What find_package is given, and PREFIX=MODULE for what only pkg-config knows. MPI and CUDA come on top where they are.
set(SLUICE_PACKAGES_schedules absl)
set(SLUICE_PACKAGES_planner TBB nlohmann_json NLopt fmt Threads)
set(SLUICE_PACKAGES_runtime "OpenMP COMPONENTS CXX" dnnl hwy ZLIB "OpenSSL COMPONENTS Crypto SSL"
    "ICU COMPONENTS uc" PkgConfig)
set(SLUICE_PACKAGES_program CLI11 tomlplusplus)
set(SLUICE_MODULES_runtime PCRE2=libpcre2-8)
set(SLUICE_MODULES_program ISAL=libisal YAML=yaml-0.1)

# Debian 12's names for what a user of the installed libraries needs, for the dependencies of libsluice-dev. Debian's CMake
# file of oneDNN asks for OpenCL.
set(SLUICE_DEBIAN_PACKAGES libabsl-dev libtbb-dev nlohmann-json3-dev libnlopt-dev libdnnl-dev ocl-icd-opencl-dev
    opencl-c-headers libhwy-dev libfmt-dev zlib1g-dev libssl-dev libicu-dev libpcre2-dev libxxhash-dev librandom123-dev pkg-config)

# Adds to SLUICE_COMPONENTS what those stand on, in the order of SLUICE_ALL_COMPONENTS; refuses unknown names.
function(sluice_complete_components)
  set(wanted ${SLUICE_COMPONENTS})
  foreach(component IN LISTS SLUICE_COMPONENTS)
    if(NOT component IN_LIST SLUICE_ALL_COMPONENTS)
      message(FATAL_ERROR "SLUICE_COMPONENTS: '${component}' is no component; there are: ${SLUICE_ALL_COMPONENTS}")
    endif()
    list(APPEND wanted ${SLUICE_STANDS_ON_${component}})
  endforeach()
  if(NOT wanted)
    message(FATAL_ERROR "SLUICE_COMPONENTS is empty; there are: ${SLUICE_ALL_COMPONENTS}")
  endif()
  set(complete "")
  foreach(component IN LISTS SLUICE_ALL_COMPONENTS)
    if(component IN_LIST wanted)
      list(APPEND complete ${component})
    endif()
  endforeach()
  set(SLUICE_COMPONENTS ${complete} PARENT_SCOPE)
endfunction()

# Sets `result` to the component that a room is a part of.
function(sluice_component_of room result)
  foreach(component IN LISTS SLUICE_ALL_COMPONENTS)
    if(room IN_LIST SLUICE_ROOMS_${component} OR room IN_LIST SLUICE_INNER_${component})
      set(${result} ${component} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "room '${room}' is a part of no component; see tools/cmake/SluiceComponents.cmake")
endfunction()
