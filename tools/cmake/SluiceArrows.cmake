# The arrows of the architecture. A room's library may link only the rooms named here, so an include that
# points the wrong way has no symbols to link; sluice_check_arrows says so when the project is configured, for every
# header and every source.
set(SLUICE_MAY_USE_schedules "")
set(SLUICE_MAY_USE_optimise schedules)
set(SLUICE_MAY_USE_spec "")
set(SLUICE_MAY_USE_device "")
set(SLUICE_MAY_USE_comm device)
set(SLUICE_MAY_USE_kernels spec device)
set(SLUICE_MAY_USE_models spec kernels)
set(SLUICE_MAY_USE_pipeline schedules spec comm device kernels models)
set(SLUICE_MAY_USE_partitioner schedules optimise spec)
set(SLUICE_MAY_USE_planning schedules optimise spec partitioner comm device kernels models pipeline)
# Arrows between the folders of one room: each may include what lies in those before it.
set(SLUICE_FOLDERS_partitioner costs cuts memory bounds search orders calibration)
set(SLUICE_FOLDERS_pipeline compile run checkpoint train sample)

# The room of a folder: that of the first of these which the folder's path begins with.
set(SLUICE_ROOM_FOLDERS
    schedules/optimise=optimise
    schedules=schedules
    models/spec=spec
    models/device=device
    models/kernels=kernels
    models=models
    comm=comm
    pipeline=pipeline
    partitioner/planning=planning
    partitioner=partitioner)

# Sets `result` to the room of a file, given by its path in the project; a folder that is no room is its own name.
function(sluice_room_of path result)
  foreach(entry IN LISTS SLUICE_ROOM_FOLDERS)
    string(REPLACE "=" ";" entry ${entry})
    list(GET entry 0 folder)
    if(path MATCHES "^${folder}/")
      list(GET entry 1 room)
      set(${result} ${room} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  string(REGEX REPLACE "/.*" "" folder ${path})
  set(${result} ${folder} PARENT_SCOPE)
endfunction()

# Refuses every #include in a room that its arrows do not allow, with the file and the line.
function(sluice_check_arrows)
  foreach(folder schedules models comm pipeline partitioner)
    file(GLOB_RECURSE files RELATIVE ${PROJECT_SOURCE_DIR}
         ${folder}/*.h ${folder}/*.cuh ${folder}/*.cc ${folder}/*.cu)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
    foreach(file IN LISTS files)
      sluice_check_file(${file})
    endforeach()
  endforeach()
endfunction()

function(sluice_check_file file)
  sluice_room_of(${file} room)
  file(STRINGS ${file} lines REGEX "^#include \"(schedules|models|comm|pipeline|partitioner|tools|tests|bench)/")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^#include \"([^\"]*)\".*" "\\1" included "${line}")
    sluice_room_of(${included} other)
    if(NOT other STREQUAL room AND NOT other IN_LIST SLUICE_MAY_USE_${room})
      message(FATAL_ERROR "${file}: '${line}': room '${room}' may not include '${other}' "
                          "(allowed: ${SLUICE_MAY_USE_${room}}); see tools/cmake/SluiceArrows.cmake")
    endif()
    sluice_check_folders(${room} ${file} ${included})
  endforeach()
endfunction()

# Refuses an #include of a folder of the same room that comes later in SLUICE_FOLDERS_room.
function(sluice_check_folders room file included)
  string(REGEX REPLACE "^[^/]*/([^/]*)/.*" "\\1" folder ${file})
  string(REGEX REPLACE "^[^/]*/([^/]*)/.*" "\\1" other ${included})
  list(FIND SLUICE_FOLDERS_${room} ${folder} from)
  list(FIND SLUICE_FOLDERS_${room} ${other} to)
  if(from GREATER_EQUAL 0 AND to GREATER from)
    message(FATAL_ERROR "${file}: includes ${included}: folder '${folder}' may not include '${other}', which comes after "
                        "it (${SLUICE_FOLDERS_${room}}); see tools/cmake/SluiceArrows.cmake")
  endif()
endfunction()
