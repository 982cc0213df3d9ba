# The CUDA language, where SLUICE_CUDA wants it and nvcc is there; sets SLUICE_HAS_CUDA. Only the runtime is linked, and
# statically: cuBLASLt and NCCL are found when they are needed (models/device/cuda_libraries.h), so that one binary runs
# on machines without them, without a GPU and without a driver.
set(SLUICE_CUDA_LEAST 12.8) # the first that knows sm_100

set(SLUICE_HAS_CUDA OFF)
if(SLUICE_CUDA STREQUAL OFF)
  return()
endif()
find_program(SLUICE_NVCC nvcc PATHS ENV CUDA_PATH /usr/local/cuda PATH_SUFFIXES bin)
if(NOT SLUICE_NVCC)
  if(SLUICE_CUDA STREQUAL ON)
    message(FATAL_ERROR "SLUICE_CUDA=ON, but there is no nvcc on PATH, in CUDA_PATH/bin or in /usr/local/cuda/bin; "
                        "-DSLUICE_NVCC=/path/to/nvcc names one, SLUICE_CUDA=AUTO builds without")
  endif()
  message(STATUS "CUDA: no nvcc, so none")
  return()
endif()
execute_process(COMMAND ${SLUICE_NVCC} --version OUTPUT_VARIABLE version)
string(REGEX MATCH "V([0-9]+\\.[0-9]+)" version "${version}")
if(CMAKE_MATCH_1 VERSION_LESS SLUICE_CUDA_LEAST)
  if(SLUICE_CUDA STREQUAL ON)
    message(FATAL_ERROR "SLUICE_CUDA=ON, but ${SLUICE_NVCC} is ${CMAKE_MATCH_1}; ${SLUICE_CUDA_LEAST} is needed")
  endif()
  message(STATUS "CUDA: ${SLUICE_NVCC} is ${CMAKE_MATCH_1}, ${SLUICE_CUDA_LEAST} is needed, so none")
  return()
endif()

set(CMAKE_CUDA_COMPILER ${SLUICE_NVCC} CACHE FILEPATH "nvcc")
set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER} CACHE FILEPATH "What nvcc compiles the host's part with")
# Machine code for A100, H100/H200 and B200; PTX for what comes later.
set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100 CACHE STRING "Architectures of the CUDA kernels")
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
enable_language(CUDA)
# CMake 3.25 does not know how nvcc is asked for C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
set(CMAKE_CUDA_STANDARD 20)
find_package(CUDAToolkit REQUIRED)

# As for C++ (SluiceOptions): a product and a sum become one operation only where the source says fmaf, so that bits do
# not depend on what a compiler fuses.
target_compile_options(sluice_flags INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;-Xcompiler=-Wall,-Wextra,-ffp-contract=off>")
if(SLUICE_STRICT)
  target_compile_options(sluice_flags INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;-Xptxas=-Werror>")
endif()
set(SLUICE_HAS_CUDA ON)
