# The build of `cmake --preset fuzz`: the schedules room, the other readers' files and the fuzzers, with clang's
# libFuzzer, and nothing else.
if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
  message(FATAL_ERROR "SLUICE_FUZZ needs clang for its libFuzzer, not ${CMAKE_CXX_COMPILER_ID}; "
                      "use cmake --preset fuzz, or pass -DCMAKE_CXX_COMPILER=clang++")
endif()
find_package(absl REQUIRED)
find_package(nlohmann_json REQUIRED)
add_compile_options(-fsanitize=fuzzer-no-link)
set(SLUICE_FUZZ_SOURCES
    comm/greeting.cc
    models/data/file_writer.cc models/data/mapped_file.cc models/layer.cc models/safetensors.cc
    models/safetensors_header.cc models/spec.cc models/spec_decoder.cc models/spec_decoder_import.cc
    models/spec_huggingface.cc models/spec_json.cc models/spec_profile_graph.cc models/spec_validate.cc
    partitioner/calibration/calibration_rows.cc
    partitioner/costs/cluster.cc partitioner/costs/cluster_file.cc partitioner/costs/collectives.cc
    partitioner/costs/cost_table.cc partitioner/costs/decoder_cost.cc partitioner/costs/device.cc
    partitioner/costs/json_fields.cc partitioner/costs/layer_cost.cc partitioner/costs/model_json.cc
    partitioner/costs/parallel.cc partitioner/costs/profile.cc
    partitioner/graph/downsets.cc partitioner/graph/graph_partition.cc partitioner/graph/graph_search.cc
    partitioner/partition.cc
    partitioner/plan/plan_file.cc
    pipeline/checkpoint/checkpoint.cc pipeline/checkpoint/checkpoint_files.cc pipeline/checkpoint/finite_tensors.cc
    pipeline/checkpoint/load_weights.cc
    tools/schedule/json_position.cc tools/schedule/schedule_costs_json.cc)
add_subdirectory(schedules)
add_subdirectory(tests/fuzz)
