# The arrows of the architecture. A room's library may link only the rooms named here, so an include that
# points the wrong way has no symbols to link; sluice_check_arrows says so when the project is configured, for every
# header and every source.
set(SLUICE_MAY_USE_schedules "")
set(SLUICE_MAY_USE_optimise schedules)
set(SLUICE_MAY_USE_spec "")
set(SLUICE_MAY_USE_tokens spec)
set(SLUICE_MAY_USE_failpoints "")
set(SLUICE_MAY_USE_device "")
set(SLUICE_MAY_USE_comm failpoints device)
set(SLUICE_MAY_USE_kernels spec device)
set(SLUICE_MAY_USE_files spec failpoints)
set(SLUICE_MAY_USE_layers spec device kernels)
set(SLUICE_MAY_USE_models spec tokens failpoints kernels files layers)
set(SLUICE_MAY_USE_compile schedules spec comm device kernels layers)
set(SLUICE_MAY_USE_checkpoint_files spec files layers)
set(SLUICE_MAY_USE_pipeline schedules spec tokens failpoints comm device kernels files layers models compile
                            checkpoint_files)
set(SLUICE_MAY_USE_partitioner schedules optimise spec)
set(SLUICE_MAY_USE_profiling spec partitioner failpoints comm device kernels files layers models compile pipeline)
set(SLUICE_MAY_USE_roofline spec partitioner device kernels layers)
set(SLUICE_MAY_USE_planning schedules optimise spec partitioner device kernels layers compile profiling roofline)
# Arrows between the folders of one folder, by its path with "_" for "/": each may include what lies in those before it.
set(SLUICE_FOLDERS_models_data images corpora documents)
set(SLUICE_FOLDERS_models_spec families costs)
set(SLUICE_FOLDERS_partitioner costs cuts memory bounds search orders calibration)
set(SLUICE_FOLDERS_partitioner_planning question plan file profiling roofline sources race graph answer)
set(SLUICE_FOLDERS_pipeline compile state run audit recover checkpoint watch trace train sample)
set(SLUICE_FOLDERS_pipeline_checkpoint files directory saving adapters)
set(SLUICE_FOLDERS_pipeline_compile plan replicas memory program)
set(SLUICE_FOLDERS_schedules_optimise problem dispatch search exact)
set(SLUICE_FOLDERS_tools_schedule question timetable answer)

# The room of a folder: that of the first of these which the folder's path begins with.
set(SLUICE_ROOM_FOLDERS
    schedules/optimise=optimise
    schedules=schedules
    models/spec=spec
    models/tokens=tokens
    models/failpoints=failpoints
    models/device=device
    models/kernels=kernels
    models/files=files
    models/layers=layers
    models=models
    comm=comm
    pipeline/compile=compile
    pipeline=pipeline
    partitioner/planning/profiling=profiling
    partitioner/planning/roofline=roofline
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
  # What lies above the rooms may include any of them.
  file(GLOB_RECURSE files RELATIVE ${PROJECT_SOURCE_DIR} tools/*.h tools/*.cc)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${files})
  foreach(file IN LISTS files)
    file(STRINGS ${file} lines REGEX "^#include \"tools/")
    foreach(line IN LISTS lines)
      string(REGEX REPLACE "^#include \"([^\"]*)\".*" "\\1" included "${line}")
      sluice_check_folders(${file} ${included})
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
    sluice_check_folders(${file} ${included})
  endforeach()
endfunction()

# Refuses an #include of a folder that SLUICE_FOLDERS_* of the folder around both names after the file's own.
function(sluice_check_folders file included)
  string(REPLACE "/" ";" from_path ${file})
  string(REPLACE "/" ";" to_path ${included})
  set(around "")
  while(TRUE)
    list(LENGTH from_path from_length)
    list(LENGTH to_path to_length)
    if(from_length LESS 2 OR to_length LESS 2)
      return() # one of them lies in the folder around both itself
    endif()
    list(POP_FRONT from_path folder)
    list(POP_FRONT to_path other)
    if(NOT folder STREQUAL other)
      break()
    endif()
    list(APPEND around ${folder})
  endwhile()
  list(JOIN around "_" around)
  list(FIND SLUICE_FOLDERS_${around} ${folder} from)
  list(FIND SLUICE_FOLDERS_${around} ${other} to)
  if(from GREATER_EQUAL 0 AND to GREATER from)
    message(FATAL_ERROR "${file}: includes ${included}: folder '${folder}' may not include '${other}', which comes after "
                        "it (${SLUICE_FOLDERS_${around}}); see tools/cmake/SluiceArrows.cmake")
  endif()
endfunction()
